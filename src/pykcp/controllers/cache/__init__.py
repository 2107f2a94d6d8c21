"""Controllers of the cache: replication and cached resources."""
