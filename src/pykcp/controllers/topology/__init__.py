"""Controllers of `topology.kcp.io`: partitions of shards."""
