"""A Cluster of the mode Push: it becomes ready, and its types are served by the workspace."""

from __future__ import annotations

import json

from pykcp.multicluster.names import CLUSTER_LABEL as LABEL
from pykcp.multicluster.names import ORIGIN_UID as ORIGIN
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.multicluster.reporting import BINDINGS
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    IMPORTS,
    NEGOTIATED,
    cluster_object,
    condition_of,
    is_ready,
)
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def synced(client: TestClient, name: str) -> dict[str, str]:
    """The states of types by their names."""
    status = client.get(f"{CLUSTERS}/{name}").json.get("status") or {}
    return {one["resource"]: one["state"] for one in status.get("syncedResources") or ()}


def test_a_registered_cluster_is_ready_and_its_types_are_served(
    workspace: TestClient, physical: PhysicalCluster
) -> None:
    made = workspace.post(CLUSTERS, cluster_object("east", kubeconfig=physical.kubeconfig_text()))
    assert made.status == 201
    eventually(lambda: is_ready(workspace, "east"))
    found = workspace.get(f"{CLUSTERS}/east").json
    assert "workload.kcp.dev/cluster" in found["metadata"]["finalizers"]
    namespaces = physical.client.get("/api/v1/namespaces/kube-system").json
    assert found["status"]["uid"] == namespaces["metadata"]["uid"]
    assert found["status"]["version"].startswith("v1.")
    eventually(
        lambda: condition_of(workspace, IMPORTS, "deployments.east.v1.apps", "Compatible"), 60
    )
    eventually(lambda: synced(workspace, "east").get("deployments") == "Accepted")
    eventually(lambda: set(synced(workspace, "east").values()) == {"Accepted"})
    assert synced(workspace, "east")["configmaps"] == "Accepted"
    kinds = [i["metadata"]["name"] for i in workspace.get(IMPORTS).json["items"]]
    assert not [name for name in kinds if name.startswith("configmaps.")]
    assert (
        condition_of(workspace, NEGOTIATED, "deployments.v1.apps", "Published")["status"] == "True"
    )
    crd = workspace.get(f"{CRDS}/deployments.apps").json
    assert crd["metadata"]["labels"] == {"apiresource.kcp.dev/negotiated": "true"}
    columns = workspace.get(DEPLOYMENTS, accept=TABLE).json["columnDefinitions"]
    assert [one["name"] for one in columns][:5] == [
        "Name", "Ready", "Up-to-date", "Available", "Age"
    ]  # fmt: skip
    answer = workspace.post(DEPLOYMENTS, deployment("pushed", {LABEL: "east"}))
    assert answer.status == 201, answer
    assert answer.json["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    copy = eventually(lambda: copies(physical, "pushed"))[0]
    status = {"status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1}}
    namespace = copy["metadata"]["namespace"]
    copied = f"/apis/apps/v1/namespaces/{namespace}/deployments/pushed"
    assert physical.client.patch(f"{copied}/status", status).status == 200
    eventually(
        lambda: (
            (workspace.get(f"{DEPLOYMENTS}/pushed").json.get("status") or {}).get("readyReplicas")
            == 1
        )
    )
    finalizers = workspace.get(f"{DEPLOYMENTS}/pushed").json["metadata"]["finalizers"]
    assert finalizers == ["workloads.kcp.dev/syncer-east"]
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").json["status"].get("syncer"))
    _label_what_is_split(workspace, physical)
    # The Cluster goes: its copies are removed, the object stays.
    assert workspace.delete(f"{CLUSTERS}/east").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/east").status == 404)
    assert copies(physical, "pushed") == copies(physical, "split") == []
    left = workspace.get(f"{DEPLOYMENTS}/pushed").json["metadata"]
    assert "finalizers" not in left
    eventually(lambda: workspace.get(IMPORTS).json["items"] == [])
    assert workspace.get(f"{DEPLOYMENTS}/pushed").status == 200
    assert condition_of(workspace, NEGOTIATED, "deployments.v1.apps", "Published")
    eventually(lambda: workspace.get(f"{NEGOTIATED}/statefulsets.v1.apps").status == 404)
    eventually(lambda: workspace.get(f"{CRDS}/statefulsets.apps").status == 404)


def _label_what_is_split(workspace: TestClient, physical: PhysicalCluster) -> None:
    """An object that is split and then labelled for a cluster replaces its part there, without a
    state of failure on the way.
    """
    made = workspace.post(DEPLOYMENTS, deployment("split"))
    assert made.status == 201, made
    uid, version = (made.json["metadata"][name] for name in ("uid", "resourceVersion"))
    part = eventually(lambda: copies(physical, "split"))[0]
    assert part["metadata"]["annotations"][ORIGIN] != uid
    workspace.patch(f"{DEPLOYMENTS}/split", {"metadata": {"labels": {LABEL: "east"}}})
    eventually(
        lambda: [c["metadata"]["annotations"][ORIGIN] for c in copies(physical, "split")] == [uid]
    )
    eventually(lambda: workspace.get(f"{BINDINGS}/deployments.apps.split").status == 404)
    owned = {"labelSelector": "kcp.dev/owned-by=split"}
    eventually(lambda: not workspace.get(DEPLOYMENTS, **owned).json["items"])
    events = workspace.watch(DEPLOYMENTS, resourceVersion=version, timeoutSeconds=1)
    assert "NameCollision" not in json.dumps(list(events))


def deployment(name: str, marks: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": marks or {}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }


def copies(physical: PhysicalCluster, name: str) -> list[Object]:
    """The copies of a Deployment; other tests use the same cluster."""
    found: list[Object] = physical.client.get("/apis/apps/v1/deployments").json["items"]
    return [one for one in found if one["metadata"]["name"] == name]
