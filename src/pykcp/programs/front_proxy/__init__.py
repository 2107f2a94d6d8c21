"""The program `kcp-front-proxy`: one address for all shards of an installation."""
