"""A cluster that is registered on one shard serves workspaces on others that bind its export."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from pykcp.multicluster.names import shared_name
from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.syncers import (
    SyncerProcess,
    config_map,
    deployment,
    running,
    serve_workloads,
)
from pykcp.testing.multicluster.workloads import WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object, is_ready
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, inside, make_workspace
from pykcp.types import Object

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
DEPLOYMENTS_OF_ALL = "/apis/apps/v1/deployments"
MINE = "internal.workloads.kcp.dev/cluster"


@pytest.fixture(scope="module")
def physical(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhysicalCluster]:
    with own_cluster("physical", tmp_path_factory.mktemp("physical")) as found:
        yield found


def _workspace(root: TestClient, shard: str, name: str) -> TestClient:
    selector = {"location": {"selector": {"matchLabels": {"name": shard}}}}
    make_workspace(root, name, type={"name": "universal", "path": "root"}, **selector)
    return inside(root, name)


def _provider(root: TestClient, physical: PhysicalCluster) -> tuple[TestClient, str]:
    """A workspace of the root shard with a Cluster and an export, and its logical cluster."""
    made = _exporting(root, kubeconfig=physical.kubeconfig_text())
    eventually(lambda: is_ready(made[0], "east"), 30)
    return made


def _exporting(root: TestClient, **spec: str) -> tuple[TestClient, str]:
    provider = _workspace(root, "root", "compute")
    bind_workload(provider)
    types = ["deployments.apps", "configmaps"]
    east = cluster_object("east", syncResources=types, **spec)
    assert provider.post(CLUSTERS, east).status == 201
    export = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": "compute"},
        "spec": {},
    }
    assert provider.post(EXPORTS, export).status == 201
    home = provider.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/cluster"]
    return provider, home


def _begin(client: TestClient, replicas: int) -> None:
    """A workload in a workspace that the Cluster serves."""
    bind_workload(client)
    serve_workloads(client, "deployments.apps", "pods")
    eventually(partial(_binds, client))
    created = client.post(DEPLOYMENTS, deployment("web", replicas=replicas))
    assert created.status == 201, created


def test_workloads_of_tenants_on_two_shards_run_side_by_side(
    shared_fleet: Fleet, root: TestClient, physical: PhysicalCluster
) -> None:
    near, far = _workspace(root, "root", "near"), _workspace(root, "shard-1", "far")
    stranger = _workspace(root, "shard-1", "stranger")
    provider, home = _provider(root, physical)
    label = shared_name(home, "east")
    with WorkloadController(physical.client, makes_pods=True):
        for number, client in enumerate((near, far), 2):
            _begin(client, number)
        labelled = stranger.post(CONFIG_MAPS, config_map("settings", label, of="stranger"))
        assert labelled.status == 201, labelled
        for number, client in enumerate((near, far), 2):
            eventually(partial(_has_ready, client, number), 60)
        copies = _copies(physical, DEPLOYMENTS_OF_ALL)
        assert sorted(one["spec"]["replicas"] for one in copies) == [2, 3]
        assert {one["metadata"]["name"] for one in copies} == {"web"}
        assert len({one["metadata"]["namespace"] for one in copies}) == 2
        for number, client in enumerate((near, far), 2):
            eventually(partial(_has_pods, client, number))
        _check_pods(far, stranger, physical, label)
        _check_credentials(shared_fleet, home, physical.kubeconfig_text())
        _check_deletion(provider, (near, far), physical)
    assert not stranger.get(f"{CONFIG_MAPS}/settings").json["metadata"].get("finalizers")


@pytest.mark.slow
def test_a_syncer_outside_of_the_servers_serves_tenants_of_all_shards(
    tmp_path: pathlib.Path, physical: PhysicalCluster
) -> None:
    """Mode None: the shard of the Cluster passes requests for other workspaces on."""
    with fleet(tmp_path) as shards, WorkloadController(physical.client):
        root = shards.client(cluster="root")
        near, far = _workspace(root, "root", "near"), _workspace(root, "shard-1", "far")
        provider, home = _exporting(root, mode="None")
        access = replace(shards.client("root").access, path=f"/clusters/{home}")
        syncer = SyncerProcess(tmp_path, "east", access, physical.kubeconfig_text())
        with running(syncer):
            eventually(lambda: is_ready(provider, "east"), 60)
            for number, client in enumerate((near, far), 2):
                _begin(client, number)
            for number, client in enumerate((near, far), 2):
                eventually(partial(_has_ready, client, number), 60)
            copies = _copies(physical, DEPLOYMENTS_OF_ALL)
            assert sorted(one["spec"]["replicas"] for one in copies) == [2, 3]
            assert far.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}}).status == 200
            eventually(partial(_has_ready, far, 5), 60)
            shards["shard-1"].kill()  # its copies stay while nobody can be asked about them
            assert near.delete(f"{DEPLOYMENTS}/web").status == 200
            eventually(lambda: len(_copies(physical, DEPLOYMENTS_OF_ALL)) == 1, 30)
            shards["shard-1"].start()
            assert far.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}}).status == 200
            eventually(partial(_has_ready, far, 4), 90)
            _check_deletion(provider, (far,), physical)


def _binds(client: TestClient) -> bool:
    """Once the export is known on the shard of the workspace."""
    return client.post(BINDINGS, binding("compute", "compute", "root:compute")).status == 201


def _has_ready(client: TestClient, wanted: int) -> bool:
    status = client.get(f"{DEPLOYMENTS}/web").json.get("status") or {}
    return bool(status.get("readyReplicas") == wanted)


def _has_pods(client: TestClient, wanted: int) -> bool:
    return len(client.get(PODS).json["items"]) == wanted


def _copies(physical: PhysicalCluster, path: str) -> list[Object]:
    found: list[Object] = physical.client.get(path, labelSelector=MINE).json["items"]
    return found


def _check_pods(
    far: TestClient, stranger: TestClient, physical: PhysicalCluster, label: str
) -> None:
    """Pods are asked for at the workspace, and found by way of the shard of the Cluster."""
    pods = far.get(PODS).json["items"]
    assert {one["metadata"]["labels"]["workloads.kcp.dev/cluster"] for one in pods} == {label}
    name = pods[0]["metadata"]["name"]
    assert far.get(f"{PODS}/{name}").status == 200
    assert far.delete(f"{PODS}/{name}").status == 200
    assert stranger.get(f"{PODS}/{name}").status == 404
    assert not [
        one
        for one in _copies(physical, "/api/v1/configmaps")
        if (one.get("data") or {}).get("of") == "stranger"
    ]


def _check_credentials(shards: Fleet, home: str, kubeconfig: str) -> None:
    """Other shards know the Cluster, but not how to reach it; they are let through, others not."""
    cache = shards.client("cache")
    path = "/services/cache/shards/root/clusters/*/apis/workload.kcp.dev/v1alpha1/clusters"
    known = eventually(lambda: cache.get(path).json.get("items"))
    east = next(one for one in known if one["metadata"]["name"] == "east")
    assert "kubeconfig" not in east["spec"]
    token = next(line for line in kubeconfig.splitlines() if "token" in line or "key-data" in line)
    assert token.partition(":")[2].strip()[:40] not in str(known)
    way = f"/services/syncer/{home}/east/{east['metadata']['uid']}/cluster/api/v1/namespaces"
    assert shards.client("root").get(way).status == 200
    assert shards.client("root", user="kcp-admin").get(way).status == 403
    assert shards.client().get(way).status in (403, 404)


def _check_deletion(
    provider: TestClient, tenants: tuple[TestClient, ...], physical: PhysicalCluster
) -> None:
    """A Cluster is gone when nothing of any shard is left in it."""
    assert provider.delete(f"{CLUSTERS}/east").status == 200
    eventually(lambda: provider.get(f"{CLUSTERS}/east").status == 404, 30)
    assert _copies(physical, DEPLOYMENTS_OF_ALL) == []
    for client in tenants:
        names = [one["metadata"]["name"] for one in client.get(DEPLOYMENTS).json["items"]]
        assert names == ["web"]


@pytest.mark.slow
def test_while_the_shard_of_the_cluster_is_down_copies_stay_as_they_are(
    tmp_path: pathlib.Path, physical: PhysicalCluster
) -> None:
    with fleet(tmp_path) as shards, WorkloadController(physical.client):
        root = shards.client(cluster="root")
        far = _workspace(root, "shard-1", "far")
        _provider(root, physical)
        _begin(far, 3)
        eventually(partial(_has_ready, far, 3), 60)
        before = _copies(physical, DEPLOYMENTS_OF_ALL)
        path = far.prefix.rpartition("/")[2]
        shards["root"].kill()
        direct = shards.client("shard-1", cluster=_logical_cluster(shards, path))
        assert direct.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}}).status == 200
        assert _copies(physical, DEPLOYMENTS_OF_ALL) == before
        shards["root"].start()
        eventually(partial(_has_ready, direct, 5), 90)
        assert [one["spec"]["replicas"] for one in _copies(physical, DEPLOYMENTS_OF_ALL)] == [5]


def _logical_cluster(shards: Fleet, path: str) -> str:
    """The name of a logical cluster of shard-1 by its path."""
    found = (
        shards.client("shard-1", cluster="*")
        .get("/apis/core.kcp.io/v1alpha1/logicalclusters")
        .json["items"]
    )
    marks = (one["metadata"]["annotations"] for one in found)
    return str(next(one["kcp.io/cluster"] for one in marks if one.get("kcp.io/path") == path))
