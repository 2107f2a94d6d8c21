"""kcp's own controllers: workspaces and the APIs between them."""
