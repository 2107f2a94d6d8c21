"""The cache server: what shards publish for each other, kept by shard and logical cluster."""
