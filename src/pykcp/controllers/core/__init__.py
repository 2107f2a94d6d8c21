"""Controllers of `core.kcp.io`: the phases and the deletion of logical clusters."""
