"""Workspaces that bind the kinds of multi-cluster."""

from __future__ import annotations

from typing import Any

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.binding import made
from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

EXPORT = "workload.kcp.dev"
CLUSTERS = "/apis/workload.kcp.dev/v1alpha1/clusters"
IMPORTS = "/apis/apiresource.kcp.dev/v1alpha1/apiresourceimports"
NEGOTIATED = "/apis/apiresource.kcp.dev/v1alpha1/negotiatedapiresources"


def bind_workload(client: TestClient) -> None:
    """Bring the kinds of multi-cluster to a logical cluster."""
    made(client, BINDINGS, binding(EXPORT, EXPORT, "root"))
    eventually(lambda: client.get(CLUSTERS).status == 200)


def cluster_object(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "workload.kcp.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": spec,
    }
