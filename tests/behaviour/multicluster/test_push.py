"""A Cluster of the mode Push: it becomes ready, and its types are served by the workspace."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.downstream import PhysicalCluster
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    IMPORTS,
    NEGOTIATED,
    cluster_object,
    condition_of,
    is_ready,
)

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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
    eventually(lambda: condition_of(workspace, IMPORTS, "deployments.east.v1.apps", "Compatible"))
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
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    }
    answer = workspace.post(DEPLOYMENTS, deployment)
    assert answer.status == 201, answer
    assert answer.json["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
