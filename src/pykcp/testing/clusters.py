"""Logical clusters for tests."""

from __future__ import annotations

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess


def make_cluster(shard: ServerProcess, name: str) -> TestClient:
    """A fresh logical cluster with a namespace `default`; a client of system:masters in it."""
    client = shard.client(cluster=name)
    made = client.post(
        "/apis/core.kcp.io/v1alpha1/logicalclusters",
        {
            "apiVersion": "core.kcp.io/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "cluster"},
        },
    )
    assert made.status == 201, made
    client.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    return client
