"""`kubectl kcp shard`: shards, and moving workspaces between them."""
