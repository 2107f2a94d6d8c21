"""The front-proxy: one address for all shards.

It finds the shard of a logical cluster, authenticates the caller and forwards the request with
the caller's name. Routes are looked up on first use and kept within a bound.
"""
