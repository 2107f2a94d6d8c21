"""Bindings that a workspace type makes, and keeps if it says so."""

from __future__ import annotations

import pytest

from pykcp.testing.apis import BINDINGS, EXPORTS
from pykcp.testing.binding import offer
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import name_of
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object

TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"


def _made(root: TestClient, path: str, kind: str, name: str, spec: Object) -> None:
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    answer = root.post(path, body)
    assert answer.status == 201, answer


@pytest.mark.parametrize("lifecycle", ["Maintain", "InitializeOnly"])
def test_claims_are_accepted_anew(root: TestClient, provider: TestClient, lifecycle: str) -> None:
    offer(provider)
    name = f"{lifecycle.lower()}-type"
    spec = {
        "defaultAPIBindings": [{"path": name_of(provider), "export": "cowboys"}],
        "defaultAPIBindingLifecycle": lifecycle,
    }
    _made(root, TYPES, "WorkspaceType", name, spec)
    _made(root, WORKSPACES, "Workspace", name, {"type": {"path": "root", "name": name}})
    ready = eventually(
        lambda: (
            (w := root.get(f"{WORKSPACES}/{name}").json).get("status", {}).get("phase") == "Ready"
            and w
        )
    )
    inside = root.in_cluster(ready["spec"]["cluster"])

    def accepted() -> list[str]:
        (binding,) = inside.get(BINDINGS).json["items"]
        assert binding["status"]["phase"] == "Bound"
        return [c["resource"] for c in binding["spec"].get("permissionClaims") or ()]

    assert accepted() == []
    claim = {"group": "", "resource": "configmaps", "verbs": ["get"]}
    change = {"spec": {"permissionClaims": [claim]}}
    assert provider.patch(f"{EXPORTS}/cowboys", change).status == 200
    eventually(
        lambda: inside.get(BINDINGS).json["items"][0]["status"].get("exportPermissionClaims")
    )
    if lifecycle == "Maintain":
        eventually(lambda: accepted() == ["configmaps"])
    else:
        assert accepted() == []
