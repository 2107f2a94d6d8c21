"""Managers that wrote in several versions, and schemas that changed under them."""

# Tables read better unbroken.

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import StatusError

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
TEXT = Schema(type="string")


def kind(**spec: Schema) -> Schema:
    meta = Schema(type="object", properties={"name": TEXT, "uid": TEXT})
    return Schema(
        type="object",
        properties={
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": meta,
            "spec": Schema(type="object", properties=spec),
        },
    )


class Renamed:
    """v1 calls a field `old`, v2 calls it `new`; v0 is gone."""

    def __init__(self, **schemas: Schema) -> None:
        self.schemas = schemas or {
            "v1": kind(old=TEXT, other=TEXT),
            "v2": kind(new=TEXT, other=TEXT),
        }

    def schema(self, api_version: str) -> Schema | None:
        return self.schemas.get(api_version.removeprefix("g/"))

    def convert(self, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
        names = {"old": "new"} if api_version == "g/v2" else {"new": "old"}
        spec = {names.get(k, k): v for k, v in (obj.get("spec") or {}).items()}
        return {**obj, "apiVersion": api_version, **({"spec": spec} if "spec" in obj else {})}

    def manager(self, version: str) -> FieldManager:
        return FieldManager(self.schemas[version], f"g/{version}", "Thing", versions=self)


def body(version: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": f"g/{version}", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def entry(manager: str, version: str, fields: dict[str, Any], operation: str = "Update") -> Any:
    return {
        "manager": manager, "operation": operation, "apiVersion": f"g/{version}", "time": NOW,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }  # fmt: skip


def live(version: str, managed: list[Any], **spec: str) -> dict[str, Any]:
    out = body(version, **spec)
    return {**out, "metadata": {"name": "x", "uid": "u", "managedFields": managed}}


def test_an_update_is_seen_in_the_version_of_each_manager() -> None:
    """What v2 calls new, the manager of v1 loses as old."""
    stored = [entry("one", "v1", {"f:spec": {"f:old": {}, "f:other": {}}})]
    now = live("v2", stored, new="1", other="1")
    made = (
        Renamed()
        .manager("v2")
        .on_update(now, {**now, "spec": {"new": "2", "other": "1"}}, "me", LATER)
    )
    assert made == [
        entry("one", "v1", {"f:spec": {"f:other": {}}}),
        {**entry("me", "v2", {"f:spec": {"f:new": {}}}), "time": LATER},
    ]


def test_a_conflict_is_named_in_the_version_of_its_owner() -> None:
    """The owner's name of the field, not the applier's."""
    now = live("v2", [entry("one", "v1", {"f:spec": {"f:old": {}}})], new="1")
    with pytest.raises(StatusError) as caught:
        Renamed().manager("v2").on_apply(now, body("v2", new="2"), "me", LATER)
    assert caught.value.message == (
        'Apply failed with 1 conflict: conflict with "one" using g/v1: .spec.old'
    )


def test_an_applier_may_change_its_version() -> None:
    """It is the same one, and what it said in the old version is taken back."""
    stored = [entry("me", "v1", {"f:spec": {"f:old": {}, "f:other": {}}}, "Apply")]
    now = live("v2", stored, new="1", other="1")
    out = Renamed().manager("v2").on_apply(now, body("v2", new="1"), "me", LATER)
    assert out["spec"] == {"new": "1"}
    assert out["metadata"]["managedFields"] == [
        {**entry("me", "v2", {"f:spec": {"f:new": {}}}, "Apply"), "time": LATER}
    ]


def test_what_another_version_owns_stays() -> None:
    """Taking back looks at every owner in its version."""
    stored = [
        entry("me", "v2", {"f:spec": {"f:new": {}, "f:other": {}}}, "Apply"),
        entry("one", "v1", {"f:spec": {"f:old": {}}}, "Apply"),
    ]
    now = live("v2", stored, new="1", other="1")
    out = Renamed().manager("v2").on_apply(now, body("v2"), "me", LATER)
    assert out["spec"] == {"new": "1"}


def test_managers_of_versions_that_are_gone_go() -> None:
    """With them their conflicts."""
    stored = [
        entry("ancient", "v0", {"f:spec": {"f:new": {}}}),
        entry("one", "v1", {"f:spec": {"f:other": {}}}),
    ]
    now = live("v2", stored, new="1", other="1")
    manager = Renamed().manager("v2")
    assert [e["manager"] for e in manager.on_update(now, now, "me", LATER)] == ["one"]
    out = manager.on_apply(now, body("v2", new="2"), "me", LATER)
    assert [e["manager"] for e in out["metadata"]["managedFields"]] == ["me", "one"]


def test_what_has_become_atomic_is_owned_whole() -> None:
    """Sets from before a schema changed mean what they can mean now."""
    sealed = Schema(type="object", map_type="atomic", properties={"a": TEXT})
    items = Schema(type="array", items=TEXT, list_type="atomic")
    manager = Renamed(v1=kind(sealed=sealed, items=items)).manager("v1")
    stored = [
        entry(
            "one", "v1", {"f:spec": {"f:items": {'v:"x"': {}}, "f:sealed": {".": {}, "f:a": {}}}}
        ),
        entry("two", "v1", {"f:spec": {"f:sealed": {}}}),
    ]
    now = {**live("v1", stored), "spec": {"sealed": {"a": "1"}, "items": ["x"]}}
    assert manager.on_update(now, now, "me", LATER) == [
        entry("one", "v1", {"f:spec": {"f:items": {}, "f:sealed": {}}}),
        stored[1],
    ]


def test_what_has_become_granular_needs_nothing() -> None:
    """The field itself stays owned."""
    granular = Schema(type="object", properties={"a": TEXT, "b": TEXT})
    manager = Renamed(v1=kind(part=granular)).manager("v1")
    stored = [entry("one", "v1", {"f:spec": {"f:part": {}}}, "Apply")]
    now = {**live("v1", stored), "spec": {"part": {"a": "1", "b": "1"}}}
    assert manager.on_update(now, now, "me", LATER) is stored
