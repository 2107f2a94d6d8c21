"""A cluster of one workspace serves others that bind an API of it, and no workspace beside them."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from functools import partial

from pykcp.multicluster.names import shared_name
from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.binding import made
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.multicluster.syncers import (
    SyncerProcess,
    config_map,
    deployment,
    running,
    serve_workloads,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object, is_ready
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER, inside, make_workspace

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"


def test_objects_of_consumers_are_synchronized_and_of_others_not(
    shard: ServerProcess, physical: PhysicalCluster
) -> None:
    root = shard.client(cluster="root")
    for name in ("provider", "consumer", "stranger"):
        make_workspace(root, name)
    workspace, consumer, stranger = (
        inside(root, name) for name in ("provider", "consumer", "stranger")
    )
    bind_workload(workspace)
    registered = cluster_object(
        "east", kubeconfig=physical.kubeconfig_text(), syncResources=["configmaps"]
    )
    assert workspace.post(CLUSTERS, registered).status == 201
    eventually(lambda: is_ready(workspace, "east"), 30)
    provider = workspace.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]
    export = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": "compute"},
        "spec": {},
    }
    assert workspace.post(EXPORTS, export).status == 201
    made(consumer, BINDINGS, binding("compute", "compute", "root:provider"))
    name = shared_name(provider, "east")
    for client, text in ((stranger, "stranger"), (consumer, "consumer"), (workspace, "own")):
        label = "east" if client is workspace else name
        created = client.post(CONFIG_MAPS, config_map("settings", label, of=text))
        assert created.status == 201, created
    eventually(lambda: _texts(physical) == ["consumer", "own"])
    _check_pods(consumer, stranger, physical, name)
    assert consumer.delete(f"{CONFIG_MAPS}/settings").status == 200
    eventually(lambda: consumer.get(f"{CONFIG_MAPS}/settings").status == 404)
    assert _texts(physical) == ["own"]
    assert not stranger.get(f"{CONFIG_MAPS}/settings").json["metadata"].get("finalizers")


def _check_pods(
    consumer: TestClient, stranger: TestClient, physical: PhysicalCluster, name: str
) -> None:
    """Pods in the consumer's namespace of the cluster are seen in its workspace, and only there."""
    for client in (consumer, stranger):
        serve_workloads(client, "pods")
    copies = physical.client.get("/api/v1/configmaps").json["items"]
    place = next(
        item["metadata"]["namespace"]
        for item in copies
        if (item.get("data") or {}).get("of") == "consumer"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    assert physical.client.post(f"/api/v1/namespaces/{place}/pods", pod).status == 201
    seen = consumer.get("/api/v1/namespaces/default/pods").json["items"]
    assert [one["metadata"]["labels"] for one in seen] == [{"workloads.kcp.dev/cluster": name}]
    assert consumer.get("/api/v1/namespaces/default/pods/web").status == 200
    assert stranger.get("/api/v1/namespaces/default/pods").json["items"] == []


def _texts(physical: PhysicalCluster) -> list[str]:
    items = physical.client.get("/api/v1/configmaps").json["items"]
    return sorted(item["data"]["of"] for item in items if "of" in (item.get("data") or {}))


def test_workloads_of_consumers_with_equal_names_run_side_by_side(
    shard: ServerProcess, physical: PhysicalCluster
) -> None:
    root = shard.client(cluster="root")
    names = ("compute", "team-a", "team-b")
    for name in names:
        make_workspace(root, name)
    provider, first, second = (inside(root, name) for name in names)
    bind_workload(provider)
    text = physical.kubeconfig_text()
    east = cluster_object("east", kubeconfig=text, syncResources=["deployments.apps"])
    assert provider.post(CLUSTERS, east).status == 201
    eventually(lambda: is_ready(provider, "east"), 30)
    export = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": "compute"},
        "spec": {},
    }
    assert provider.post(EXPORTS, export).status == 201
    with WorkloadController(physical.client):
        for number, client in enumerate((first, second), 2):
            bind_workload(client)
            serve_workloads(client, "deployments.apps")
            made(client, BINDINGS, binding("compute", "compute", "root:compute"))
            created = client.post(DEPLOYMENTS, deployment("web", replicas=number))
            assert created.status == 201, created
        for number, client in enumerate((first, second), 2):
            eventually(partial(_has_ready, client, number), 30)
    copies = physical.client.get(
        "/apis/apps/v1/deployments", labelSelector="internal.workloads.kcp.dev/cluster"
    ).json["items"]  # the cluster is shared with other tests
    assert sorted(one["spec"]["replicas"] for one in copies) == [2, 3]
    assert {one["metadata"]["name"] for one in copies} == {"web"}
    assert len({one["metadata"]["namespace"] for one in copies}) == 2


def _has_ready(client: TestClient, wanted: int) -> bool:
    status = client.get(f"{DEPLOYMENTS}/web").json.get("status") or {}
    return bool(status.get("readyReplicas") == wanted)


def test_a_syncer_outside_of_the_server_serves_consumers_too(
    shard: ServerProcess, physical: PhysicalCluster, tmp_path: pathlib.Path
) -> None:
    """Mode None; a consumer that unbinds keeps what it has, and its deletion reaches the cluster."""
    root = shard.client(cluster="root")
    names = ("agents", "tenant", "passer-by")
    for name in names:
        make_workspace(root, name)
    provider, consumer, stranger = (inside(root, name) for name in names)
    bind_workload(provider)
    east = cluster_object("east", mode="None", syncResources=["deployments.apps", "configmaps"])
    assert provider.post(CLUSTERS, east).status == 201
    body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "spec": {}}
    assert provider.post(EXPORTS, {**body, "metadata": {"name": "agents"}}).status == 201
    home = provider.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]
    label = shared_name(home, "east")
    access = replace(provider.access, path=provider.prefix)
    syncer = SyncerProcess(tmp_path, "east", access, physical.kubeconfig_text())
    with running(syncer), WorkloadController(physical.client):
        eventually(lambda: is_ready(provider, "east"), 30)
        bind_workload(consumer)
        serve_workloads(consumer, "deployments.apps")
        made(consumer, BINDINGS, binding("agents", "agents", "root:agents"))
        assert consumer.post(DEPLOYMENTS, deployment("web", replicas=4)).status == 201
        for client, text in ((stranger, "passer-by"), (consumer, "tenant")):
            created = client.post(CONFIG_MAPS, config_map("settings", label, of=text))
            assert created.status == 201, created
        eventually(partial(_has_ready, consumer, 4), 60)
        eventually(lambda: "tenant" in _texts(physical), 30)
        assert "passer-by" not in _texts(physical)
        assert consumer.delete(f"{BINDINGS}/agents").status == 200
        eventually(lambda: consumer.get(f"{BINDINGS}/agents").status == 404)
        assert consumer.post(CONFIG_MAPS, config_map("late", label, of="late")).status == 201
        assert consumer.delete(f"{CONFIG_MAPS}/settings").status == 200
        eventually(lambda: consumer.get(f"{CONFIG_MAPS}/settings").status == 404, 30)
        assert not {"tenant", "late", "passer-by"} & set(_texts(physical))
        view = f"/services/syncer/{home}/east/{_uid(provider)}"
        _check_view(shard, view, consumer, stranger)


def _uid(provider: TestClient) -> str:
    return str(provider.get(f"{CLUSTERS}/east").json["metadata"]["uid"])


def _check_view(
    shard: ServerProcess, view: str, consumer: TestClient, stranger: TestClient
) -> None:
    """What the syncer still holds is seen, and nothing of other workspaces."""
    client = shard.client()
    answer = client.get(f"{view}/consumers")
    assert (answer.status, answer.json) == (200, {"workspaces": []})
    assert client.post(f"{view}/consumers", {}).status == 405
    way = "/clusters/{}/apis/apps/v1/deployments"
    held = client.get(view + way.format(_logical_cluster(consumer)))
    assert [one["metadata"]["labels"]["kcp.dev/owned-by"] for one in held.json["items"]] == ["web"]
    for nobody in (_logical_cluster(stranger), "1234567890abcdef"):
        assert client.get(f"{view}/clusters/{nobody}/api/v1/configmaps").status == 404


def _logical_cluster(client: TestClient) -> str:
    return str(client.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"])
