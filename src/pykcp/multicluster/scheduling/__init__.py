"""Which clusters run a workload, and how many of its replicas: pure functions over a snapshot."""
