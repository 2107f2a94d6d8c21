"""Moving a logical cluster to another shard: who may ask for it, and what it means meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess

MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
MAPS = "/api/v1/namespaces/default/configmaps"
BINDING = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIBinding",
    "metadata": {"name": "migration"},
    "spec": {"reference": {"export": {"path": "root", "name": "migration.kcp.io"}}},
}


def status(client: TestClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{MIGRATIONS}/{name}").json.get("status") or {}
    return found


def migrate(client: TestClient, name: str, cluster: str, shard: str) -> None:
    body = {
        "apiVersion": "migration.kcp.io/v1alpha1",
        "kind": "LogicalClusterMigration",
        "metadata": {"name": name},
        "spec": {"logicalCluster": cluster, "destinationShard": shard},
    }
    made = client.post(MIGRATIONS, body)
    assert made.status == 201, made


@pytest.fixture(scope="module")
def admin(shard: ServerProcess) -> TestClient:
    """Where migrations are asked for; there is a second shard, at least by name."""
    client = make_cluster(shard, "migrations")
    assert client.post(BINDINGS, BINDING).status == 201
    eventually(lambda: client.get(MIGRATIONS).status == 200)
    body = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "Shard",
        "metadata": {"name": "beta"},
        "spec": {"baseURL": "https://beta.example"},
    }
    assert shard.client(cluster="root").post(SHARDS, body).status == 201
    return client


def test_only_those_who_may_bind_it(cluster: TestClient) -> None:
    grant(cluster, "alice", "*", "apibindings", "apis.kcp.io")
    refused = cluster.with_token("alice-token").post(BINDINGS, BINDING)
    assert refused.status == 403
    assert "no permission to bind to export root:migration.kcp.io" in refused.json["message"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("gamma", 'shard "gamma" not found'),
        ("root", 'logical cluster is on shard "root" already'),
    ],
)
def test_migrations_to_nowhere_fail(
    shard: ServerProcess, admin: TestClient, target: str, expected: str
) -> None:
    moved = make_cluster(shard, f"moved-to-{target}")
    migrate(admin, f"to-{target}", f"moved-to-{target}", target)
    eventually(lambda: status(admin, f"to-{target}").get("phase") == "Failed")
    (condition,) = status(admin, f"to-{target}")["conditions"]
    assert (condition["type"], condition["status"]) == ("OriginReady", "False")
    assert condition["message"] == expected
    assert moved.get(MAPS).status == 200


def test_what_moves_is_used_meanwhile(shard: ServerProcess, admin: TestClient) -> None:
    """The other shard is not there, so the migration does not get on, and can be cancelled."""
    moved = make_cluster(shard, "moved")
    made = moved.post(MAPS, {"metadata": {"name": "first"}}).json
    version = made["metadata"]["resourceVersion"]
    events = moved.watch(MAPS, resourceVersion=version, labelSelector="seen")
    migrate(admin, "move", "moved", "beta")
    eventually(lambda: status(admin, "move").get("phase") == "Migrating")
    assert status(admin, "move")["originShard"] == "root"
    assert moved.get(MAPS).status == 200
    assert moved.post(MAPS, {"metadata": {"name": "second", "labels": {"seen": ""}}}).status == 201
    assert next(events)["object"]["metadata"]["name"] == "second"
    mark = moved.get(CLUSTER).json["metadata"]["annotations"]["internal.kcp.io/migrating"]
    assert mark == "migrations:move"

    migrate(admin, "again", "moved", "beta")
    eventually(lambda: status(admin, "again").get("phase") == "Failed")
    (condition,) = status(admin, "again")["conditions"]
    assert condition["reason"] == "LogicalClusterAlreadyMigrating"
    admin.delete(f"{MIGRATIONS}/again")

    admin.delete(f"{MIGRATIONS}/move")
    eventually(lambda: admin.get(f"{MIGRATIONS}/move").status == 404)
    annotations = moved.get(CLUSTER).json["metadata"]["annotations"]
    assert "internal.kcp.io/migrating" not in annotations
    assert moved.post(MAPS, {"metadata": {"name": "third", "labels": {"seen": ""}}}).status == 201
    assert next(events)["object"]["metadata"]["name"] == "third"
    events.close()
