"""Logical clusters for tests."""

from __future__ import annotations

from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess


def make_cluster(shard: ServerProcess, name: str, **spec: object) -> TestClient:
    """A fresh logical cluster with a namespace `default`; a client of system:masters in it."""
    client = shard.client(cluster=name)
    made = client.post(
        "/apis/core.kcp.io/v1alpha1/logicalclusters",
        {
            "apiVersion": "core.kcp.io/v1alpha1",
            "kind": "LogicalCluster",
            "metadata": {"name": "cluster"},
            "spec": spec,
        },
    )
    assert made.status == 201, made
    client.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    return client


def name_of(client: TestClient) -> str:
    """The logical cluster that a client is in."""
    return client.prefix.rpartition("/")[2]


def cached(
    shard: ServerProcess, cluster: str, place: str = "root", context: str = "shard-base"
) -> TestClient:
    """A client in what the cache holds of a logical cluster of the shard `place`."""
    client = shard.client(context)
    client.prefix = f"/services/cache/shards/{place}/clusters/{cluster}"
    return client


def bind(client: TestClient, root: TestClient, export: str) -> None:
    """Bind one of root's exports as root itself has it, without waiting for controllers."""
    bindings = "/apis/apis.kcp.io/v1alpha2/apibindings"
    reference = {"export": {"path": "root", "name": export}}
    made = client.post(
        bindings,
        {
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIBinding",
            "metadata": {"name": export},
            "spec": {"reference": reference},
        },
    )
    assert made.status == 201, made
    known = root.get(bindings).json["items"]
    status = next(b["status"] for b in known if b["spec"]["reference"] == reference)
    assert client.patch(f"{bindings}/{export}/status", {"status": status}).status == 200
