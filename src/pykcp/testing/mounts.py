"""Mounted workspaces for tests."""

from __future__ import annotations

import itertools

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object

CLUSTERS = "/apis/contrib.example.io/v1/kubeclusters"
_numbers = itertools.count(1)


def install_kind(root: TestClient) -> None:
    """A kind that can be mounted: it has an address and a phase."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made = root.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "kubeclusters.contrib.example.io"},
            "spec": {
                "group": "contrib.example.io",
                "scope": "Cluster",
                "names": {
                    "plural": "kubeclusters",
                    "singular": "kubecluster",
                    "kind": "KubeCluster",
                },
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": free},
                    }
                ],
            },
        },
    )
    assert made.status == 201, made
    eventually(lambda: root.get(CLUSTERS).status == 200)


def mount(root: TestClient, url: str = "", phase: str = "Ready") -> str:
    """A mounted workspace and what it stands for; the name of both."""
    name = f"mounted{next(_numbers)}"
    head = {"apiVersion": "contrib.example.io/v1", "kind": "KubeCluster"}
    if url:
        assert root.post(CLUSTERS, {**head, "metadata": {"name": name}}).status == 201
        report(root, name, url, phase)
    made = root.post(
        WORKSPACES,
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {"mount": {"ref": {**head, "name": name}}},
        },
    )
    assert made.status == 201, made
    assert "type" not in made.json["spec"]
    return name


def report(root: TestClient, name: str, url: str, phase: str) -> None:
    status = {"status": {"URL": url, "phase": phase}}
    assert root.patch(f"{CLUSTERS}/{name}/status", status).status == 200


def becomes(root: TestClient, name: str, phase: str) -> Object:
    def look() -> Object | None:
        found: Object = root.get(f"{WORKSPACES}/{name}").json
        return found if found["status"]["phase"] == phase else None

    workspace: Object = eventually(look)
    return workspace
