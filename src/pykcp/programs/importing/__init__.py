"""`kcp import`: what a kcp holds, from its etcd or by its API, becomes a new installation."""
