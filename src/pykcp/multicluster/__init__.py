"""Transparent multi-cluster: workloads of a workspace run on the physical clusters behind it.

Everything here talks to API servers through `clients.interface`, so the same code runs inside a
shard and as separate programs.
"""
