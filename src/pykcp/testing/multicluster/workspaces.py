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


def condition_of(client: TestClient, path: str, name: str, kind: str) -> Object:
    """A condition of an object; {} if it has none."""
    answer = client.get(f"{path}/{name}")
    status = answer.json.get("status") or {} if answer.status == 200 else {}
    conditions = status.get("conditions") or ()
    found: Object = next((c for c in conditions if c["type"] == kind), {})
    return found


def is_ready(client: TestClient, name: str) -> bool:
    return condition_of(client, CLUSTERS, name, "Ready").get("status") == "True"
