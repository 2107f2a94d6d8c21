"""HTTP for one API server: from a request on the wire to a verb of the registry.

Used by the shard, the cache server and virtual workspaces alike.
"""
