"""Moves for tests: migrations between shards, and histories of what happened meanwhile."""
