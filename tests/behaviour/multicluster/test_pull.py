"""A cluster that pulls: the printed manifest has all that its syncer needs, and no more."""

from __future__ import annotations

import base64
import pathlib
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
import yaml

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.kubeconfig import Access, read_access
from pykcp.testing.multicluster.downstream import PhysicalCluster, write_kubeconfig
from pykcp.testing.multicluster.syncers import QUICK, SyncerProcess, running, serve_workloads
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    bind_workload,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.testing.server import ServerProcess, environment, server
from pykcp.types import Object

PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}
RESOURCES = "deployments.apps,configmaps"
TIMES = ("--cluster-heartbeat-threshold=5s", "--cluster-recovery=1s")


class Plugin:
    """`kubectl kcp workload …` in one workspace."""

    def __init__(self, shard: ServerProcess, client: TestClient) -> None:
        access = client.access
        self._server = f"https://{access.host}:{access.port}{client.prefix}"
        self._kubeconfig = str(shard.kubeconfig)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pykcp.cli.plugins", "kubectl-kcp", "workload", *words]
        flags = [f"--server={self._server}", f"--kubeconfig={self._kubeconfig}"]
        flags.append("--context=shard-base")
        return subprocess.run(
            [*command, *flags], env=environment(), capture_output=True, text=True, check=False
        )

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done
        return done.stdout


def applied(physical: PhysicalCluster, manifest: str) -> dict[str, Object]:
    """The objects of a manifest by kind, made in the cluster."""
    objects: dict[str, Object] = {}
    for obj in yaml.safe_load_all(manifest):
        path = PATHS[obj["kind"]].format(obj["metadata"].get("namespace"))
        answer = physical.client.post(path, obj)
        assert answer.status == 201, answer
        objects[obj["kind"]] = obj
    return objects


def test_the_printed_manifest_runs_a_syncer(
    workspace: TestClient, physical: PhysicalCluster, shard: ServerProcess, tmp_path: pathlib.Path
) -> None:
    plugin = Plugin(shard, workspace)
    words = ("sync", "east", "--syncer-image=syncer:1", f"--resources={RESOURCES}")
    output = tmp_path / "syncer.yaml"
    plugin(*words, f"--output-file={output}")
    assert output.stat().st_mode & 0o777 == 0o600
    manifest = output.read_text()
    assert workspace.get(f"{CLUSTERS}/east").json["spec"]["mode"] == "Pull"
    assert yaml.safe_load(plugin(*words).split("---\n")[1])["kind"] == "Namespace"
    objects = applied(physical, manifest)
    for rule in objects["ClusterRole"]["rules"]:
        assert "*" not in rule.get("apiGroups", ())

    upstream, syncer = _syncer_of(objects, physical, tmp_path)
    assert upstream.token != shard.client().access.token
    syncer.start()
    try:
        eventually(lambda: is_ready(workspace, "east"), 30)
        path = "/apis/apps/v1/namespaces/default/deployments"
        eventually(lambda: workspace.get(path).status == 200, 30)
        labels = {"workloads.kcp.dev/cluster": "east"}
        config_map = {"metadata": {"name": "pulled-settings", "labels": labels}, "data": {"a": "b"}}
        assert workspace.post("/api/v1/namespaces/default/configmaps", config_map).status == 201
        eventually(lambda: "pulled-settings" in copied(physical), 30)
        _check_pods(workspace, physical)
        _check_unassigned(workspace, physical)
        denied = [line for line in syncer.log().splitlines() if "orbidden" in line]
        assert not denied, denied
    finally:
        syncer.kill()
    with closing(TestClient(upstream)) as account:
        _check_view(account, workspace)


def _syncer_of(
    objects: dict[str, Object], physical: PhysicalCluster, folder: pathlib.Path
) -> tuple[Access, SyncerProcess]:
    """The program, with the accounts that the manifest gives it on both sides."""
    config = folder / "from"
    config.write_bytes(base64.b64decode(objects["Secret"]["data"]["kubeconfig"]))
    upstream = read_access(config, "kcp")
    account = objects["ServiceAccount"]["metadata"]
    path = f"/api/v1/namespaces/{account['namespace']}/serviceaccounts/{account['name']}/token"
    token = physical.client.post(path, {"spec": {}}).json["status"]["token"]
    to = write_kubeconfig(folder / "to", replace(physical.client.access, token=token))
    return upstream, SyncerProcess(folder, "east", upstream, to.read_text(), (), QUICK)


@pytest.mark.slow
def test_every_serving_process_finds_the_pods(
    physical: PhysicalCluster, tmp_path: pathlib.Path
) -> None:
    """The syncer is connected with one of them."""
    with server(*TIMES, "--serving-processes=3") as shard:
        workspace = make_cluster(shard, "tenant")
        bind_workload(workspace)
        words = ("sync", "east", "--syncer-image=syncer:1", f"--resources={RESOURCES}")
        objects = applied(physical, Plugin(shard, workspace)(*words))
        with running(_syncer_of(objects, physical, tmp_path)[1]):
            eventually(lambda: is_ready(workspace, "east"), 30)
            serve_workloads(workspace, "pods")
            labels = {"workloads.kcp.dev/cluster": "east"}
            config_map = {"metadata": {"name": "many", "labels": labels}}
            assert workspace.post("/api/v1/namespaces/default/configmaps", config_map).status == 201
            eventually(lambda: "many" in copied(physical), 30)
            items = physical.client.get("/api/v1/configmaps").json["items"]
            place = next(
                one["metadata"]["namespace"] for one in items if one["metadata"]["name"] == "many"
            )
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "web"},
                "spec": {"containers": [{"name": "m", "image": "i"}]},
            }
            assert physical.client.post(f"/api/v1/namespaces/{place}/pods", pod).status == 201
            eventually(lambda: workspace.get("/api/v1/pods").json["items"], 30)
            for _ in range(6):  # new connections go to the process that has the fewest
                other = shard.client(cluster="tenant")
                assert other.get("/api/v1/namespaces/default/pods/web").status == 200
                assert len(other.get("/api/v1/pods").json["items"]) == 1


def _check_pods(workspace: TestClient, physical: PhysicalCluster) -> None:
    """Pods are seen through the connections that the syncer opened."""
    serve_workloads(workspace, "pods")
    items = physical.client.get("/api/v1/configmaps").json["items"]
    place = next(
        one["metadata"]["namespace"]
        for one in items
        if one["metadata"]["name"] == "pulled-settings"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    for namespace in (place, "default"):
        made = physical.client.post(f"/api/v1/namespaces/{namespace}/pods", pod)
        assert made.status == 201, made

    def seen() -> list[Object]:
        return list(workspace.get("/api/v1/pods").json["items"])

    (found,) = eventually(seen, 30)
    assert found["metadata"]["namespace"] == "default"
    assert found["metadata"]["labels"]["workloads.kcp.dev/cluster"] == "east"
    path = "/api/v1/namespaces/default/pods/web"
    answer = workspace.get(f"{path}/log", container="none")
    assert answer.json["message"] == "container none is not valid for pod web", answer
    assert workspace.delete(path).status == 200
    eventually(lambda: workspace.get(path).status == 404)
    assert physical.client.delete("/api/v1/namespaces/default/pods/web").status == 200


def _check_unassigned(workspace: TestClient, physical: PhysicalCluster) -> None:
    """An object that goes to another cluster is let go, although its label no longer shows it."""
    path = "/api/v1/namespaces/default/configmaps/pulled-settings"
    finalizer = "workloads.kcp.dev/syncer-east"
    assert finalizer in workspace.get(path).json["metadata"]["finalizers"]
    moved = {"metadata": {"labels": {"workloads.kcp.dev/cluster": "west"}}}
    assert workspace.patch(path, moved).status == 200
    eventually(lambda: not workspace.get(path).json["metadata"].get("finalizers"), 30)
    assert "pulled-settings" not in copied(physical)


def _check_view(account: TestClient, workspace: TestClient) -> None:
    """The account of a syncer sees the objects of its own cluster, and nothing beside them."""
    maps, base = "/api/v1/namespaces/default/configmaps", account.access.path
    assert "/services/syncer/" in base
    own = {"metadata": {"name": "own", "labels": {"workloads.kcp.dev/cluster": "east"}}}
    assert workspace.post(maps, own).status == 201
    seen = account.get("/api/v1/configmaps")
    assert seen.status == 200, seen
    assert [one["metadata"]["name"] for one in seen.json["items"]] == ["own"]
    # Those of others are not there, whatever is asked.
    assert account.get(f"{maps}/pulled-settings").status == 404
    west = account.get("/api/v1/configmaps", labelSelector="workloads.kcp.dev/cluster=west")
    assert west.json["items"] == []
    assert account.get("/api/v1/secrets").json["items"] == []
    assert account.get("/apis/rbac.authorization.k8s.io/v1/clusterroles").status == 404
    assert account.get("/apis/coordination.k8s.io/v1/leases").status == 405
    # Its own objects are changed in what is the syncer's only, and none is made or deleted.
    path = f"{maps}/own"
    for change in (
        {"data": {"a": "changed"}},
        {"metadata": {"labels": {"workloads.kcp.dev/cluster": "west"}}},
        {"metadata": {"finalizers": ["example.com/other"]}},
        {"metadata": {"ownerReferences": []}, "immutable": True},
    ):
        refused = account.patch(path, change)
        assert refused.status == 403, (change, refused)
    noted = {"metadata": {"annotations": {"workloads.kcp.dev/sync-state": "{}"}}}
    assert account.patch(path, noted).status == 200
    assert account.post(maps, {"metadata": {"name": "new"}}).status == 405
    assert account.delete(path).status == 405
    # Neither the workspace nor the view of another Cluster is open to it.
    assert workspace.post(CLUSTERS, cluster_object("other", mode="Pull")).status == 201
    other = workspace.get(f"{CLUSTERS}/other").json["metadata"]
    logical = base.rpartition("/")[2]
    elsewhere = f"/services/syncer/{logical}/other/{other['uid']}/clusters/{logical}"
    stale = base.replace(base.split("/")[5], other["uid"])  # of a Cluster that was made anew
    with closing(TestClient(replace(account.access, path=""))) as outside:
        for prefix in (f"/clusters/{logical}", elsewhere):
            assert outside.get(f"{prefix}{maps}").status == 403
            assert outside.get(f"{prefix}{maps}/pulled-settings").status == 403
        assert outside.get(f"{stale}{maps}").status == 404
        assert outside.get(f"{base.rpartition('/')[0]}/root{maps}").status == 404


def test_the_control_plane_installs_the_syncer(
    workspace: TestClient, physical: PhysicalCluster
) -> None:
    obj = cluster_object(
        "south",
        mode="Pull",
        kubeconfig=physical.kubeconfig_text(),
        syncResources=RESOURCES.split(","),
    )
    assert workspace.post(CLUSTERS, obj).status == 201

    def installed() -> list[Object]:
        items = physical.client.get("/apis/apps/v1/deployments").json["items"]
        marks = {"app": "kcp-syncer", "workload.kcp.dev/cluster": "south"}
        return [one for one in items if one["metadata"].get("labels") == marks]

    (deployment,) = eventually(installed)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/syncer:1"
    eventually(
        lambda: condition_of(workspace, CLUSTERS, "south", "SyncerReady").get("status") == "True"
    )
    # The syncer has not reported yet: that alone decides whether the cluster is ready.
    assert condition_of(workspace, CLUSTERS, "south", "Ready")["reason"] == "ClusterStatusUnknown"
    assert workspace.delete(f"{CLUSTERS}/south").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/south").status == 404)
    eventually(lambda: installed() == [])


def copied(physical: PhysicalCluster) -> list[str]:
    items = physical.client.get("/api/v1/configmaps").json["items"]
    return [one["metadata"]["name"] for one in items]


def test_cordon_and_drain(workspace: TestClient, shard: ServerProcess) -> None:
    plugin = Plugin(shard, workspace)
    assert workspace.post(CLUSTERS, cluster_object("west", mode="None")).status == 201
    assert plugin("cordon", "west") == "cluster west cordoned\n"
    assert plugin("cordon", "west") == "cluster west is cordoned already\n"
    assert workspace.get(f"{CLUSTERS}/west").json["spec"]["unschedulable"] is True
    eventually(lambda: has_taint(workspace, "workload.kcp.dev/unschedulable"))
    assert plugin("uncordon", "west") == "cluster west uncordoned\n"
    eventually(lambda: not has_taint(workspace, "workload.kcp.dev/unschedulable"))
    assert plugin("drain", "west") == "cluster west drained\n"
    found = workspace.get(f"{CLUSTERS}/west").json["spec"]
    assert found["unschedulable"] is True
    assert found["evictAfter"]
    assert plugin("drain", "west") == "cluster west is drained already\n"
    assert plugin("uncordon", "west") == "cluster west uncordoned\n"
    assert "evictAfter" not in workspace.get(f"{CLUSTERS}/west").json["spec"]


def has_taint(client: TestClient, key: str) -> bool:
    status = client.get(f"{CLUSTERS}/west").json.get("status") or {}
    return any(one["key"] == key for one in status.get("taints") or ())


def test_what_users_get_wrong(cluster: TestClient, shard: ServerProcess) -> None:
    plugin = Plugin(shard, cluster)
    for words, message in (
        (("sync", "east"), "--syncer-image is required"),
        (("sync", "East", "--syncer-image=i"), "is not a name for a cluster"),
        (("sync", "east", "--syncer-image=i"), "kubectl kcp bind apiexport root:workload.kcp.dev"),
        (("cordon", "east"), "the server could not find the requested resource"),
    ):
        done = plugin.run(*words)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert message in done.stderr
