"""Controllers of `tenancy.kcp.io`: workspaces, workspace types, mounts and the trash."""
