"""Registration of clusters: kubeconfigs, Secrets, modes, heartbeats, deletion."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import pytest
import yaml

from pykcp.machinery.meta import now_rfc3339
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster, own_cluster
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

SECRETS = "/api/v1/namespaces/default/secrets"
REFERENCE = {"namespace": "default", "name": "east"}
FEW = ["configmaps"]


def ready(client: TestClient, name: str = "east") -> Object:
    return condition_of(client, CLUSTERS, name, "Ready")


def has(client: TestClient, name: str = "east", **wanted: str) -> bool:
    """Whether the condition Ready has these fields; a message need only contain the text."""
    found = ready(client, name)
    message = wanted.pop("message", "")
    return bool(found) and found | wanted == found and message in found.get("message", "")


def register(client: TestClient, name: str = "east", **spec: Any) -> None:
    made = client.post(CLUSTERS, cluster_object(name, **{"syncResources": FEW, **spec}))
    assert made.status == 201, made


def changed(text: str, **user: Any) -> str:
    document = yaml.safe_load(text)
    document["users"][0]["user"] = user
    return yaml.safe_dump(document)


def test_a_secret_has_the_kubeconfig(
    workspace: TestClient, physical: PhysicalCluster, shard: ServerProcess
) -> None:
    register(workspace, kubeconfigSecretRef=REFERENCE)
    eventually(lambda: has(workspace, reason="InvalidKubeConfig", message="does not exist"))
    secret: Object = {"metadata": {"name": "east"}, "stringData": {"other": "x"}}
    assert workspace.post(SECRETS, secret).status == 201
    eventually(lambda: has(workspace, message='has no key "kubeconfig"'))
    good = physical.kubeconfig_text()
    assert "token" in good
    bad = changed(good, token="expired-token")
    for text, reason in ((bad, "CredentialsRejected"), (good, "ClusterReady")):
        patch = {"stringData": {"kubeconfig": text}}
        assert workspace.patch(f"{SECRETS}/east", patch).status == 200
        eventually(lambda reason=reason: has(workspace, reason=reason), 10)
    # A token that expires, and a new one: no restart, and no recovery time.
    for text, reason in ((bad, "CredentialsRejected"), (good, "ClusterReady")):
        patch = {"stringData": {"kubeconfig": text}}
        assert workspace.patch(f"{SECRETS}/east", patch).status == 200
        eventually(lambda reason=reason: has(workspace, reason=reason), 10)
    found = workspace.get(f"{CLUSTERS}/east").json
    secret_token = yaml.safe_load(good)["users"][0]["user"]["token"]
    assert secret_token not in str(found)
    assert secret_token not in shard.log()
    assert "expired-token" not in shard.log()


def test_what_cannot_be_used_is_a_condition(
    workspace: TestClient, physical: PhysicalCluster, shard: ServerProcess
) -> None:
    good = physical.kubeconfig_text()
    cases = {
        "exec": (changed(good, exec={"command": "touch-me"}), "InvalidKubeConfig", "exec"),
        "file": (changed(good, tokenFile="/etc/passwd"), "InvalidKubeConfig", "tokenFile"),
        "text": ("hello", "InvalidKubeConfig", "not a kubeconfig"),
        "nowhere": (
            good.replace(str(physical.port), "1"),
            "ClusterUnreachable",
            "connection refused",
        ),
        "metadata": (
            good.replace("127.0.0.1", "169.254.169.254"),
            "ErrorCreatingClient",
            "not allowed",
        ),
    }
    for name, (text, _, _) in cases.items():
        register(workspace, name, kubeconfig=text)
    register(workspace, "without")
    for name, (_, reason, message) in cases.items():
        eventually(
            lambda name=name, reason=reason, message=message: has(
                workspace, name, reason=reason, message=message
            )
        )
        taints = workspace.get(f"{CLUSTERS}/{name}").json["status"]["taints"]
        assert [one["effect"] for one in taints] == ["NoSchedule"]
    eventually(lambda: has(workspace, "without", reason="NoKubeConfig"))
    # None of them keeps a Cluster from being deleted, or from being repaired.
    assert workspace.delete(f"{CLUSTERS}/nowhere").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/nowhere").status == 404)
    patch = {"spec": {"kubeconfig": good}}
    assert workspace.patch(f"{CLUSTERS}/exec", patch).status == 200
    eventually(lambda: is_ready(workspace, "exec"))
    assert "taints" not in workspace.get(f"{CLUSTERS}/exec").json["status"]
    token = yaml.safe_load(good)["users"][0]["user"]["token"]
    assert token not in shard.log()


def beat(client: TestClient, at: float, **syncer: Any) -> None:
    """A heartbeat of a syncer whose clock says `at`."""
    status = {"lastSyncerHeartbeatTime": now_rfc3339(at), "syncer": syncer}
    answer = client.patch(f"{CLUSTERS}/east/status", {"status": status})
    assert answer.status == 200, answer


def test_a_cluster_without_mode_reports_by_itself(workspace: TestClient) -> None:
    register(workspace, mode="None")
    eventually(lambda: has(workspace, status="Unknown", reason="ClusterStatusUnknown"))
    # Clocks of syncers differ from that of the control plane: they do not matter.
    beat(workspace, time.time() - 600, downstreamReady=True)
    eventually(lambda: has(workspace, status="True"))
    assert condition_of(workspace, CLUSTERS, "east", "HeartbeatHealthy")["status"] == "True"
    synced = workspace.get(f"{CLUSTERS}/east").json["status"]["syncedResources"]
    assert [(one["resource"], one["state"]) for one in synced] == [("configmaps", "Accepted")]
    # Silence.
    eventually(lambda: has(workspace, status="Unknown", reason="ErrorHeartbeat"))
    (taint,) = workspace.get(f"{CLUSTERS}/east").json["status"]["taints"]
    assert taint["key"] == "workload.kcp.dev/unreachable"
    # Back again, but only after a while.
    numbers = iter(range(10_000))

    def is_back() -> bool:
        beat(workspace, time.time() + 600 + next(numbers), downstreamReady=True)
        return is_ready(workspace, "east")

    eventually(is_back)

    def is_failing() -> bool:
        beat(workspace, time.time() + 20_000 + next(numbers), downstreamReady=False,
             downstreamMessage="etcd failed")  # fmt: skip
        return has(workspace, status="False", reason="ClusterNotReady", message="etcd failed")

    eventually(is_failing)


def test_deletion_waits_for_a_cluster_that_cannot_be_reached_for_a_while(
    workspace: TestClient,
) -> None:
    register(workspace, mode="None")
    beat(workspace, time.time(), downstreamReady=True)
    labels = {"workloads.kcp.dev/cluster": "east"}
    finalizer = "workloads.kcp.dev/syncer-east"
    path = "/api/v1/namespaces/default/configmaps"
    for name in ("one", "two"):
        metadata = {"name": name, "labels": labels, "finalizers": [finalizer]}
        assert workspace.post(path, {"metadata": metadata}).status == 201
    eventually(lambda: has(workspace, reason="ErrorHeartbeat"))
    assert workspace.delete(f"{CLUSTERS}/east").status == 200
    eventually(lambda: has(workspace, message="2 objects may have copies in the cluster"))
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    for name in ("one", "two"):
        left = workspace.get(f"{path}/{name}").json["metadata"]
        assert "finalizers" not in left
        assert not left.get("labels")


def test_a_syncer_that_falls_silent_does_not_block_the_deletion(workspace: TestClient) -> None:
    register(workspace, mode="None")
    beat(workspace, time.time(), downstreamReady=True)
    eventually(lambda: is_ready(workspace, "east"))
    finalizer = "workloads.kcp.dev/syncer-east"
    path = "/api/v1/namespaces/default/configmaps"
    assert (
        workspace.post(path, {"metadata": {"name": "c", "finalizers": [finalizer]}}).status == 201
    )
    assert workspace.delete(f"{CLUSTERS}/east").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    assert "finalizers" not in workspace.get(f"{path}/c").json["metadata"]


def test_deletion_can_be_forced(workspace: TestClient) -> None:
    register(workspace, mode="None")
    finalizer = "workloads.kcp.dev/syncer-east"
    path = "/api/v1/namespaces/default/configmaps"
    assert (
        workspace.post(path, {"metadata": {"name": "c", "finalizers": [finalizer]}}).status == 201
    )
    beat(workspace, time.time(), downstreamReady=True)
    eventually(lambda: is_ready(workspace, "east"))
    assert workspace.delete(f"{CLUSTERS}/east").status == 200
    annotations = {"workloads.kcp.dev/force-delete": "true"}
    patch = {"metadata": {"annotations": annotations}}
    assert workspace.patch(f"{CLUSTERS}/east", patch).status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    assert "finalizers" not in workspace.get(f"{path}/c").json["metadata"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_written_to_another_cluster(
    workspace: TestClient, tmp_path: pathlib.Path
) -> None:
    """The address stays the same, and another cluster answers there."""
    with own_cluster("changing", tmp_path) as physical:
        register(workspace, kubeconfig=physical.kubeconfig_text())
        eventually(lambda: is_ready(workspace, "east"), 30)
        labels = {"workloads.kcp.dev/cluster": "east"}
        path = "/api/v1/namespaces/default/configmaps"
        made = workspace.post(path, {"metadata": {"name": "registered-settings", "labels": labels}})
        assert made.status == 201
        eventually(lambda: "registered-settings" in names(physical), 30)
        process = physical.process
        assert process is not None
        process.kill()
        for file in process.root.glob("*.db*"):
            file.unlink()
        process.start()
        changed = {"reason": "ClusterIdentityChanged", "message": "leads to the cluster"}
        eventually(lambda: has(workspace, **changed), 30)
        again = workspace.post(path, {"metadata": {"name": "more", "labels": labels}})
        assert again.status == 201
        uid = workspace.get(f"{CLUSTERS}/east").json["status"]["uid"]
        assert not {"registered-settings", "more"} & names(physical)
        assert workspace.patch(f"{CLUSTERS}/east", {"spec": {"adopt": True}}).status == 200
        eventually(lambda: {"registered-settings", "more"} <= names(physical), 60)
        assert workspace.get(f"{CLUSTERS}/east").json["status"]["uid"] != uid


def names(physical: PhysicalCluster) -> set[str]:
    items = physical.client.get("/api/v1/configmaps").json["items"]
    return {one["metadata"]["name"] for one in items}
