"""Migrations for tests: a logical cluster on one shard of a fleet, moved to another."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, is_ready, post_workspace
from pykcp.types import Object

GATE = "--feature-gates=LogicalClusterMigration=true"
MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def make_on(fleet: Fleet, name: str, shard: str) -> TestClient:
    """A workspace on a shard, seen through the proxy by the name of its logical cluster."""
    root = fleet.client(cluster="root")
    where = {"selector": {"matchLabels": {"name": shard}}}
    post_workspace(root, name, location=where, type={"path": "root", "name": "universal"})
    made: Object = eventually(is_ready(root, name))
    cluster = made["spec"]["cluster"]
    assert holder(fleet, cluster) == shard
    return fleet.client(cluster=cluster)


def cluster_of(client: TestClient) -> str:
    return client.prefix.removeprefix("/clusters/")


def holder(fleet: Fleet, cluster: str) -> str:
    """The shard that serves a logical cluster."""
    found = [
        name
        for name in fleet.shards
        if fleet.client(name, cluster).get(LOGICAL_CLUSTER).status == 200
    ]
    assert len(found) <= 1, found
    return found[0] if found else ""


def bind_migrations(fleet: Fleet) -> None:
    """Serve LogicalClusterMigrations in `root`."""
    bind_in_root(fleet, "migration.kcp.io", MIGRATIONS)


def bind_in_root(fleet: Fleet, export: str, collection: str) -> None:
    """Bind an export of `root` in `root`, unless it is bound, until its collection is served."""
    root = fleet.client(cluster="root")
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": "root", "name": export}}},
    }
    assert root.post(BINDINGS, binding).status in (201, 409)
    eventually(lambda: root.get(collection).status == 200)


def migrate(fleet: Fleet, name: str, cluster: str, shard: str) -> None:
    """Ask for a migration."""
    root = fleet.client(cluster="root")
    migration = {
        "apiVersion": "migration.kcp.io/v1alpha1",
        "kind": "LogicalClusterMigration",
        "metadata": {"name": name},
        "spec": {"logicalCluster": cluster, "destinationShard": shard},
    }
    made = root.post(MIGRATIONS, migration)
    assert made.status == 201, made


def migration(fleet: Fleet, name: str) -> Object:
    found: Object = fleet.client(cluster="root").get(f"{MIGRATIONS}/{name}").json
    return found


def phase(fleet: Fleet, name: str) -> str:
    text: str = (migration(fleet, name).get("status") or {}).get("phase") or ""
    return text


def wait_for_phase(fleet: Fleet, name: str, wanted: str, seconds: float = 30.0) -> Object:
    def look() -> bool:
        found = phase(fleet, name)
        assert found == wanted or found not in ("Completed", "Failed"), migration(fleet, name)
        return found == wanted

    eventually(look, seconds)
    return migration(fleet, name)
