"""What a user may do: RBAC as upstream, inside kcp's chain of stages."""
