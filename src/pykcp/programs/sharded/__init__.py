"""A whole installation on one machine: a cache server, shards and a front-proxy as processes."""
