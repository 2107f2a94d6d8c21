"""`kubectl kcp workload`: clusters behind the current workspace."""
