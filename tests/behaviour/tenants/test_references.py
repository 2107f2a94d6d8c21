"""Objects of alice's own that name a place of bob's: she learns nothing from them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pykcp.testing.apis import BINDINGS, EXPORTS, SLICES, binding, export, make
from pykcp.testing.client import MERGE, Reply, eventually
from pykcp.types import Object

from .conftest import TYPES, WORKSPACES, Place, Tenants

Made = Callable[[str, str], tuple[str, Object]]
"""From a place and the name of something there: where to create what."""


def tenancy(kind: str, spec: Object) -> Object:
    group = "tenancy.kcp.io/v1alpha1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "try"}, "spec": spec}


REFERENCES: dict[str, tuple[str, Made]] = {
    "binding": ("cowboys", lambda at, name: (BINDINGS, binding("try", name, at))),
    "slice": (
        "cowboys",
        lambda at, name: (SLICES, make(SLICES, "try", {"export": {"path": at, "name": name}})),
    ),
    "workspace of a type": (
        "mine",
        lambda at, name: (
            WORKSPACES,
            tenancy("Workspace", {"type": {"path": at, "name": name}}),
        ),
    ),
    "type that extends": (
        "mine",
        lambda at, name: (
            TYPES,
            tenancy("WorkspaceType", {"extend": {"with": [{"path": at, "name": name}]}}),
        ),
    ),
    "type with children": (
        "mine",
        lambda at, name: (
            TYPES,
            tenancy(
                "WorkspaceType", {"limitAllowedChildren": {"types": [{"path": at, "name": name}]}}
            ),
        ),
    ),
    "type that binds": (
        "cowboys",
        lambda at, name: (
            TYPES,
            tenancy("WorkspaceType", {"defaultAPIBindings": [{"path": at, "export": name}]}),
        ),
    ),
}

_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime")


def neutral(reply: Reply, *words: str) -> str:
    """An answer without what differs from one object to the next, and without what was asked."""
    text = reply.body.decode()
    if reply.status < 400:
        text = json.dumps(json.loads(text, object_hook=_without_own))
    for word in words:
        text = text.replace(word, "WORD")
    return text


def _without_own(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in _OWN}


def attempt(tenants: Tenants, made: Made, at: str, name: str) -> list[tuple[int, str]]:
    """What alice is told when she creates it, and what becomes of it."""
    path, body = made(at, name)
    replies: list[Reply] = [tenants.alice.post(path, body, dryRun="All")]
    replies.append(tenants.alice.post(path, body))
    if replies[-1].status == 201:
        replies.append(settled(tenants, f"{path}/try"))
        tenants.alice.patch(f"{path}/try", {"metadata": {"finalizers": None}}, MERGE)
        tenants.alice.delete(f"{path}/try")
        eventually(lambda: tenants.alice.get(f"{path}/try").status == 404)
    return [(reply.status, neutral(reply, at, name)) for reply in replies]


def settled(tenants: Tenants, path: str) -> Reply:
    """The object when its controllers have said what they think of it."""
    if "workspacetypes" not in path and "slices" not in path:
        return tenants.alice.get(path)

    def told() -> Reply | None:
        reply = tenants.alice.get(path)
        return reply if (reply.json.get("status") or {}).get("conditions") else None

    found: Reply = eventually(told)
    return found


@pytest.mark.parametrize("what", REFERENCES)
@pytest.mark.parametrize("way", ["path", "name", "mixed path", "home"])
def test_references_tell_nothing(tenants: Tenants, what: str, way: str) -> None:
    place: Place = tenants.places[way]
    name, made = REFERENCES[what]
    there = attempt(tenants, made, place.there, name)
    assert there == attempt(tenants, made, place.nowhere, name)
    # Nor whether something of another name is there.
    other = name[:-1] + "x"
    assert there == attempt(tenants, made, place.there, other)


def test_a_foreign_identity_opens_nothing(tenants: Tenants) -> None:
    """alice claims bob's resources by their identity, and grants that claim herself."""
    claim = {"group": "wild.west", "resource": "cowboys", "verbs": ["*"]}
    claim["identityHash"] = tenants.identity
    assert tenants.alice.post(EXPORTS, export("try", permissionClaims=[claim])).status == 201
    granted = [{**claim, "state": "Accepted", "selector": {"matchAll": True}}]
    assert tenants.alice.post(BINDINGS, binding("try", "try", claims=granted)).status == 201

    def is_bound() -> bool:
        found = tenants.alice.get(f"{BINDINGS}/try").json
        return bool((found.get("status") or {}).get("phase") == "Bound")

    eventually(is_bound)
    own = tenants.alice.get(f"{EXPORTS}/try").json["metadata"]["annotations"]["kcp.io/cluster"]
    view = tenants.without_place()
    for plural in ("cowboys", f"cowboys:{tenants.identity}"):
        path = f"/apis/wild.west/v1/{plural}"
        assert tenants.alice.get(path).status == 404
        for place in ("*", own, tenants.places["name"].there):
            view.prefix = f"/services/apiexport/{own}/try/clusters/{place}"
            reply = view.get(path)
            assert reply.status in (403, 404) or reply.json["items"] == [], (place, reply)
            assert view.get(f"{path}/hidden").status >= 400
    for path in (f"{BINDINGS}/try", f"{EXPORTS}/try"):
        assert tenants.alice.delete(path).status == 200
        eventually(lambda path=path: tenants.alice.get(path).status == 404)


def test_what_alice_can_list_of_her_own_says_nothing_of_bob(tenants: Tenants) -> None:
    """Discovery, OpenAPI and lists in her own workspace."""
    found = [
        tenants.alice.get(path)
        for path in ("/apis", "/openapi/v2", "/openapi/v3", WORKSPACES, TYPES, EXPORTS, BINDINGS)
    ]
    assert {reply.status for reply in found} == {200}
    words = ["jewels.example", "wild.west", "of-bob", "sesame", tenants.identity]
    words += [place.there for place in tenants.places.values()]
    for reply in found:
        text = json.dumps(reply.json)
        assert not [word for word in words if word in text]
