"""Workspaces for tests: made, waited for, entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"


def post_workspace(parent: TestClient, name: str, **spec: Any) -> Object:
    """Ask for a workspace; what was created."""
    made = parent.post(
        WORKSPACES,
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": spec,
        },
    )
    assert made.status == 201, made
    found: Object = made.json
    return found


def is_ready(parent: TestClient, name: str) -> Callable[[], Object | None]:
    """For `eventually`: the workspace once it is ready."""

    def look() -> Object | None:
        found: Object = parent.get(f"{WORKSPACES}/{name}").json
        return found if (found.get("status") or {}).get("phase") == "Ready" else None

    return look


def make_workspace(parent: TestClient, name: str, **spec: Any) -> Object:
    """Ask for a workspace and wait until it is ready."""
    post_workspace(parent, name, **spec)
    found: Object = eventually(is_ready(parent, name))
    return found


def inside(parent: TestClient, name: str) -> TestClient:
    """The same user in a workspace of a parent, by its path."""
    path = parent.prefix.removeprefix("/clusters/")
    return parent.in_cluster(f"{path}:{name}")
