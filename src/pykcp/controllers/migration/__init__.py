"""Controllers of `migration.kcp.io`: moving a logical cluster to another shard."""
