"""The objects that a shard starts with; every step may be repeated."""
