"""What a syncer keeps of objects, and in which order events count."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.syncer.projections import CopyStore, LeafStore, reported_status
from pykcp.multicluster.syncer.render import CopyName
from pykcp.multicluster.syncer.settings import Registration
from pykcp.multicluster.syncer.state import SyncState, parse_state
from pykcp.multicluster.syncer.types import WantedType, parse_type
from pykcp.types import Object

REGISTRATION = Registration("tenant", "east", "uid-of-cluster", "tenant")
KIND = ("", "configmaps")


def leaf(name: str, version: int, uid: str = "u", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    annotations = fields.pop("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": {"kcp.io/cluster": "tenant", **annotations}},
        **fields,
    }


def store() -> tuple[LeafStore, list[ObjectKey]]:
    changed: list[ObjectKey] = []
    return LeafStore(KIND, REGISTRATION, changed.append), changed


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    leaves, changed = store()
    leaves.note(leaf("a", 5, data={"x": "new"}))
    found = leaves.note(leaf("a", 4, data={"x": "old"}))
    assert found.version == "5"
    assert len(changed) == 1


def test_an_object_that_was_created_anew_releases_the_first_one() -> None:
    leaves, _ = store()
    leaves.note(leaf("a", 5, "first"))
    leaves.note(leaf("a", 6, "second"))
    (released,) = leaves.released.values()
    assert released.uid == "first"


def test_objects_that_a_full_list_lacks_are_released() -> None:
    leaves, _ = store()
    for name in ("a", "b"):
        leaves.note(leaf(name, 5))
    leaves.begin_replacing()
    leaves.note(leaf("a", 5))
    list(leaves.end_replacing())
    assert [key.name for key in leaves.released] == ["b"]
    assert len(leaves) == 1


def test_objects_of_other_workspaces_are_not_part_of_a_full_list() -> None:
    leaves, _ = store()
    leaves.note(leaf("a", 5, annotations={"kcp.io/cluster": "consumer"}))
    leaves.begin_replacing()
    list(leaves.end_replacing())
    assert len(leaves) == 1


def test_the_first_of_two_objects_has_a_name_until_it_goes() -> None:
    leaves, changed = store()
    first = leaves.note(leaf("web", 1, "first"))
    named = {"annotations": {"workloads.kcp.dev/downstream-name": "web"}}
    second = leaves.note(leaf("web--east", 2, "second", **named))
    assert first.target == second.target
    owner = leaves.owner(first.target)
    assert owner is not None
    assert owner.uid == "first"
    changed.clear()
    leaves.remove(b'{"metadata":{"name":"web","namespace":"default"}}')
    owner = leaves.owner(first.target)
    assert owner is not None
    assert owner.uid == "second"
    assert second.key in changed


def test_what_the_server_writes_differently_is_accepted_once_applied() -> None:
    leaves, _ = store()
    made = leaves.note(leaf("a", 1, data={"x": "1"}))
    copies = CopyStore(leaves, lambda _: None)
    live: Object = {
        "metadata": {
            "name": made.target.name,
            "namespace": made.target.namespace,
            "uid": "copy",
            "resourceVersion": "1",
            "annotations": {
                "workloads.kcp.dev/applied-hash": made.hash,
                "workloads.kcp.dev/origin-uid": "u",
            },
        },
        "data": {"x": "one"},
    }
    assert not copies.note(live).is_intact
    assert copies.note(live, is_applied=True).is_intact
    live["metadata"]["resourceVersion"] = "2"
    live["data"] = {"x": "two"}
    assert not copies.note(live).is_intact
    copies.drop(CopyName(made.target.namespace, made.target.name))
    assert len(copies) == 0


@pytest.mark.parametrize(
    ("generation", "observed", "applied", "shown"),
    [(4, 4, "7", 7), (5, 4, "7", 6), (4, 4, "", 4)],
)
def test_generations_are_those_of_the_origin(
    generation: int, observed: int, applied: str, shown: int
) -> None:
    notes = {"workloads.kcp.dev/origin-generation": applied} if applied else {}
    live = {
        "metadata": {"generation": generation, "annotations": notes},
        "status": {"observedGeneration": observed},
    }
    assert reported_status(live) == {"observedGeneration": shown}
    assert reported_status({"metadata": {}, "status": {}}) is None


def test_the_state_of_an_object_is_noted_once() -> None:
    state = SyncState(3, "Forbidden", "no")
    text = state.to_json("2026-01-01T00:00:00Z")
    assert state.is_noted_in(text)
    assert not SyncState(4).is_noted_in(text)
    assert parse_state("{") is None
    assert parse_state('{"appliedGeneration":"3"}') is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("configmaps", WantedType("", "configmaps")),
        ("deployments.apps", WantedType("apps", "deployments")),
        ("deployments.v1.apps", WantedType("apps", "deployments", "v1")),
        ("widgets.v1beta2.example.io", WantedType("example.io", "widgets", "v1beta2")),
        ("widgets.vehicles.example.io", WantedType("vehicles.example.io", "widgets")),
    ],
)
def test_types_are_named_with_or_without_a_version(text: str, expected: WantedType) -> None:
    assert parse_type(text) == expected
    assert str(expected) == text
