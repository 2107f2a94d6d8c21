"""Who may bind an export."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.testing.apis import BINDINGS, EXPORTS, SLICES, binding, export, grant, make, role
from pykcp.testing.client import TestClient

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
GRANTS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def _slice(name: str, path: str) -> Any:
    return make(SLICES, name, {"export": {"path": path, "name": name}})


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        (BINDINGS, lambda name, at: binding(name, name, at), "APIBinding"),
        (SLICES, _slice, "APIExportEndpointSlice"),
    ],
)
def test_binding_needs_the_providers_leave(
    provider: TestClient, cluster: TestClient, path: str, body: Any, kind: str
) -> None:
    """A missing export is refused in the same words as one that may not be bound."""
    at = provider.prefix.rpartition("/")[2]
    for name in ("open", "shut"):
        assert provider.post(EXPORTS, export(name)).status == 201
    may_bind = role("binders", "apis.kcp.io", "apiexports", "bind")
    may_bind["rules"][0]["resourceNames"] = ["open"]
    provider.post(ROLES, may_bind)
    provider.post(GRANTS, grant("binders", "alice"))
    assert cluster.post(GRANTS, grant("cluster-admin", "alice")).status == 201
    alice = cluster.with_token("alice-token")
    for name in ("shut", "missing"):
        reply = alice.post(path, body(name, at))
        assert reply.status == 403
        assert reply.json["message"].endswith(
            f"is forbidden: unable to create {kind}: no permission to bind to export {at}:{name}"
        )
    nowhere = alice.post(path, body("open", "root:nowhere")).json["message"]
    assert nowhere.endswith("no permission to bind to export root:nowhere:open")
    made = alice.post(path, body("open", at))
    assert made.status == 201, made


def test_the_own_exports_are_asked_about_too(cluster: TestClient) -> None:
    cluster.post(EXPORTS, export("e"))
    cluster.post(ROLES, role("makers", "apis.kcp.io", "apibindings", "create"))
    cluster.post(GRANTS, grant("makers", "alice"))
    cluster.post(GRANTS, grant("system:kcp:workspace:access", "alice"))
    refused = cluster.with_token("alice-token").post(BINDINGS, binding("b", "e"))
    assert refused.json["message"].endswith("no permission to bind to export e")


@pytest.mark.parametrize("who", [{"user": "bob"}, {"user": "x", "groups": ["system:kcp:admin"]}])
def test_warrants_that_one_gives_oneself_are_worth_nothing_elsewhere(
    provider: TestClient, cluster: TestClient, who: dict[str, Any]
) -> None:
    """Whoever may impersonate in a workspace may not take others' rights out of it."""
    at = provider.prefix.rpartition("/")[2]
    assert provider.post(EXPORTS, export("shut")).status == 201
    provider.post(GRANTS, grant("cluster-admin", "bob"))
    assert cluster.post(GRANTS, grant("cluster-admin", "alice")).status == 201
    headers = {
        "impersonate-user": "alice",
        "impersonate-extra-authorization.kcp.io%2fwarrant": json.dumps(who),
    }
    alice = cluster.with_token("alice-token")
    reply = alice.post(BINDINGS, binding("b", "shut", at), headers=headers)
    assert reply.status == 403, reply
