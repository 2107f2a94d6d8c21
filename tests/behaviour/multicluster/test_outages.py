"""Restarts of the control plane, workspaces that go, clusters that are registered again."""

from __future__ import annotations

import time

import pytest

from pykcp.machinery.meta import now_rfc3339
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.multicluster.reporting import (
    PATHS,
    beat,
    deployment,
    register,
    shares,
    workspace_with,
)
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import inside, make_workspace
from pykcp.types import Object

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
FINALIZER = "workloads.kcp.dev/syncer-east"
LABELS = {"workloads.kcp.dev/cluster": "east"}


def ready(client: TestClient) -> Object:
    return condition_of(client, CLUSTERS, "east", "Ready")


def test_a_restart_is_no_outage(physical: PhysicalCluster) -> None:
    with server("--cluster-heartbeat-threshold=5s", "--cluster-probe-interval=1s") as shard:
        root = shard.client(cluster="root")
        bind_workload(root)
        obj = cluster_object(
            "east", kubeconfig=physical.kubeconfig_text(), syncResources=["configmaps"]
        )
        assert root.post(CLUSTERS, obj).status == 201
        assert root.post(CLUSTERS, cluster_object("west", mode="None")).status == 201
        status = {"lastSyncerHeartbeatTime": now_rfc3339(time.time())}
        assert root.patch(f"{CLUSTERS}/west/status", {"status": status}).status == 200
        eventually(lambda: is_ready(root, "east") and is_ready(root, "west"))
        before = ready(root)["lastTransitionTime"]
        shard.kill()
        shard.start()
        root = shard.client(cluster="root")
        # Silence of the other cluster counts from the start, so both are Ready at first.
        assert is_ready(root, "east")
        assert is_ready(root, "west")
        eventually(
            lambda: condition_of(root, CLUSTERS, "west", "Ready").get("reason") == "ErrorHeartbeat"
        )
        assert (ready(root)["status"], ready(root)["lastTransitionTime"]) == ("True", before)
        # What is assigned now is synchronized without any further step.
        metadata = {"name": "after-restart", "labels": LABELS}
        assert root.post(CONFIG_MAPS, {"metadata": metadata}).status == 201
        eventually(lambda: "after-restart" in copies(physical))

        # A deletion that a crash interrupts goes on: the syncer starts again for it.
        assert root.delete(f"{CLUSTERS}/east").status == 200
        shard.kill()
        shard.start()
        root = shard.client(cluster="root")
        eventually(lambda: root.get(f"{CLUSTERS}/east").status == 404, 30)
        assert "after-restart" not in copies(physical)
        assert "finalizers" not in root.get(f"{CONFIG_MAPS}/after-restart").json["metadata"]


SILENCE = 8.0
"""Seconds after which a cluster counts as lost."""


@pytest.mark.slow
def test_a_restart_moves_nothing_away_from_fifty_clusters() -> None:
    """All heartbeats are too old when the control plane is back; they count from its start."""
    names = [f"c{number}" for number in range(50)]
    flags = (f"--cluster-heartbeat-threshold={SILENCE:.0f}s", "--cluster-recovery=0s")
    with server(*flags, "--eviction-toleration=0s") as shard:
        client = workspace_with(make_cluster(shard, "fifty"))
        for name in names:
            register(client, name, types=["deployments.apps"])
        for name in names:
            beat(client, name)
        eventually(lambda: all(is_ready(client, name) for name in names))
        path = PATHS["deployments.apps"]
        assert client.post(path, deployment(replicas=50)).status == 201
        before = eventually(lambda: len(shares(client)) == 50 and shares(client))
        shard.kill()
        until = time.monotonic() + SILENCE
        eventually(lambda: time.monotonic() > until)
        shard.start()
        client = shard.client(cluster="fifty")
        assert all(is_ready(client, name) for name in names)
        for name in names:
            beat(client, name)
        until = time.monotonic() + SILENCE / 2
        eventually(lambda: time.monotonic() > until)
        assert all(is_ready(client, name) for name in names)
        assert shares(client) == before
        events = client.get("/api/v1/namespaces/default/events").json["items"]
        assert "Evicted" not in {one["reason"] for one in events}


def copies(physical: PhysicalCluster) -> list[str]:
    items = physical.client.get("/api/v1/configmaps").json["items"]
    return [one["metadata"]["name"] for one in items]


def test_a_workspace_with_an_unreachable_cluster_can_be_deleted(shard: ServerProcess) -> None:
    root = shard.client(cluster="root")
    make_workspace(root, "leaving")
    workspace = inside(root, "leaving")
    bind_workload(workspace)
    assert workspace.post(CLUSTERS, cluster_object("east", mode="None")).status == 201
    eventually(lambda: ready(workspace))
    metadata = {"name": "assigned", "labels": LABELS, "finalizers": [FINALIZER]}
    assert workspace.post(CONFIG_MAPS, {"metadata": metadata}).status == 201
    eventually(
        lambda: "syncedResources" in workspace.get(f"{CLUSTERS}/east").json.get("status", {})
    )
    path = "/apis/tenancy.kcp.io/v1alpha1/workspaces/leaving"
    assert root.delete(path).status == 200
    eventually(lambda: root.get(path).status == 404, 30)


def test_a_cluster_that_is_registered_again_revives_nothing(
    workspace: TestClient, physical: PhysicalCluster
) -> None:
    obj = cluster_object(
        "east", kubeconfig=physical.kubeconfig_text(), syncResources=["configmaps"]
    )
    assert workspace.post(CLUSTERS, obj).status == 201
    metadata = {"name": "registered-once", "labels": LABELS}
    assert workspace.post(CONFIG_MAPS, {"metadata": metadata}).status == 201
    eventually(lambda: "registered-once" in copies(physical))
    assert workspace.delete(f"{CLUSTERS}/east").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    assert "registered-once" not in copies(physical)
    assert workspace.post(CLUSTERS, obj).status == 201
    eventually(lambda: is_ready(workspace, "east"))
    # The object is not assigned any longer; with the label it runs there again, once.
    assert "labels" not in workspace.get(f"{CONFIG_MAPS}/registered-once").json["metadata"]
    patch = {"metadata": {"labels": LABELS}}
    assert workspace.patch(f"{CONFIG_MAPS}/registered-once", patch).status == 200
    eventually(lambda: copies(physical).count("registered-once") == 1)
