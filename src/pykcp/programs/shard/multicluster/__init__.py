"""Multi-cluster in a shard: the parts that run, or are served, from the first Cluster on."""
