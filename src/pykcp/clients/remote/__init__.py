"""The seam of `clients.interface` over HTTP: another shard, the root shard, any Kubernetes server."""
