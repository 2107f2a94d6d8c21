"""Logical clusters that move between shards, as far as the store is concerned."""
