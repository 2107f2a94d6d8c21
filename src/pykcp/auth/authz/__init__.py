"""Authorization: RBAC as upstream, within kcp's chain of authorizers."""
