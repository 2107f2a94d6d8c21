"""Workloads are placed on clusters: bindings record the decisions, leaves carry them out, and reports become the status of the workload."""
