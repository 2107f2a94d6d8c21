"""Offering an API in one logical cluster and binding it in another, for tests."""

from __future__ import annotations

from typing import Any

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, binding, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import name_of
from pykcp.types import Object

COWBOYS = "/apis/wild.west/v1/namespaces/default/cowboys"


def made(client: TestClient, path: str, obj: Object) -> Object:
    answer = client.post(path, obj)
    assert answer.status == 201, answer
    found: Object = answer.json
    return found


def offer(provider: TestClient, name: str = "cowboys", **spec: Any) -> Object:
    """A schema and an export of it, with an identity."""
    provider.post(SCHEMAS, schema())
    made(provider, EXPORTS, export(name, resources=[RESOURCE], **spec))
    found: Object = eventually(
        lambda: (
            (e := provider.get(f"{EXPORTS}/{name}").json).get("status", {}).get("identityHash")
            and e
        )
    )
    return found


def bind(client: TestClient, provider: TestClient, name: str = "cowboys", **more: Any) -> None:
    made(client, BINDINGS, binding(name, more.pop("export", name), name_of(provider), **more))


def condition(client: TestClient, name: str, kind: str) -> Object:
    status = client.get(f"{BINDINGS}/{name}").json.get("status") or {}
    found: Object = next((c for c in status.get("conditions") or () if c["type"] == kind), {})
    return found


def is_bound(client: TestClient, name: str = "cowboys") -> bool:
    status = client.get(f"{BINDINGS}/{name}").json.get("status") or {}
    return status.get("phase") == "Bound" and condition(client, name, "BindingUpToDate") != {}


def cowboy(name: str = "jesse", **metadata: Any) -> Object:
    return {
        "apiVersion": "wild.west/v1",
        "kind": "Cowboy",
        "metadata": {"name": name, **metadata},
        "spec": {},
    }
