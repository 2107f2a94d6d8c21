"""managedFields as a list: order, bounds, rules, idle writes, and the managers of scale."""

# Tables read better unbroken.

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.patch import managed
from pykcp.machinery.patch.idle import without_idle_times
from pykcp.machinery.patch.managed import ManagedEntry, identify
from pykcp.machinery.patch.scale import ScaleOwners

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def entry(manager: str, fields: Any, time: str = NOW, **more: Any) -> dict[str, Any]:
    return {
        "manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": fields, **more,
    }  # fmt: skip


def test_the_list_is_in_order() -> None:
    """Appliers first, then by time, name, version and subresource."""
    rows = [("b", "Update", "v1", "", NOW), ("a", "Update", "v2", "", NOW),
            ("a", "Update", "v1", "status", NOW), ("a", "Update", "v1", "", NOW),
            ("z", "Update", "v1", "", ""), ("c", "Apply", "v1", "", LATER)]  # fmt: skip
    table = {
        identify(name, operation, version, sub): ManagedEntry({"f:a": {}}, version, time)
        for name, operation, version, sub, time in rows
    }
    made = managed.write(table)
    assert [(e["manager"], e["apiVersion"], e.get("subresource", "")) for e in made] == [
        ("c", "v1", ""), ("z", "v1", ""), ("a", "v1", ""), ("a", "v1", "status"), ("a", "v2", ""),
        ("b", "v1", ""),
    ]  # fmt: skip
    assert managed.write(managed.read(made)) == made


def test_a_nameless_manager_has_a_name() -> None:
    """Clients without a name or an agent are unknown."""
    assert identify("", "Update", "v1", "").manager == "unknown"


def test_of_two_entries_of_one_manager_the_last_counts() -> None:
    """For appliers whatever their version."""
    one = entry("m", {"f:a": {}}, operation="Apply")
    two = entry("m", {"f:b": {}}, operation="Apply", apiVersion="apps/v2")
    (made,) = managed.write(managed.read([one, two]))
    assert made == two


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operation": ""}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "X"}, 'invalid fieldsType "X" in managed fields entry 0'),
    ],
)
def test_lists_that_cannot_be_read(change: Any, message: str) -> None:
    """In upstream's words, which an admission warning repeats."""
    with pytest.raises(managed.BadManagedFields) as caught:
        managed.read([entry("m", {}) | change])
    assert str(caught.value) == message


def test_the_bucket_of_old_updaters_is_by_version() -> None:
    """Updates of different versions are not joined."""
    table = {
        identify(f"m{n:02}", "Update", "v1" if n < 2 else "v2", ""): ManagedEntry(
            {f"f:{n}": {}}, "v1" if n < 2 else "v2", f"2026-01-01T00:00:{n:02}Z"
        )
        for n in range(12)
    }
    made = managed.write(managed.cap_updaters(table))
    names = [(e["manager"], e["apiVersion"]) for e in made]
    assert names[:2] == [("ancient-changes", "v1"), ("ancient-changes", "v2")]
    assert len(names) == 10


def test_appliers_are_not_counted() -> None:
    """Only updates are joined."""
    table = {
        identify(f"m{n}", "Apply", "v1", ""): ManagedEntry({"f:a": {}}, "v1", NOW)
        for n in range(30)
    }
    assert managed.cap_updaters(table) is table


VALIDATED: list[tuple[Any, list[str]]] = [
    (entry("m", {}), []),
    (entry("m", {}) | {"operation": "x"},
     ['metadata.managedFields[0].operation: Invalid value: "x": must be `Apply` or `Update`']),
    (entry("m", {}) | {"fieldsType": "x"},
     ['metadata.managedFields[0].fieldsType: Invalid value: "x": must be `FieldsV1`']),
    (entry("m" * 129, {}),
     ["metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"]),
    (entry("a\nb", {}),
     ['metadata.managedFields[0].manager: Invalid value: "a\\nb": invalid character U+000A (at position 1)']),
    (entry("m", {}, subresource="s" * 257),
     ["metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes"]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "errors"), VALIDATED)
def test_rules_of_metadata(given: Any, errors: list[str]) -> None:
    """What makes an object invalid, with its path."""
    assert [e.text() for e in managed.validate([given])] == errors


MANAGERS = [
    ("kubectl", []),
    ("é" * 64, []),
    ("é" * 65, ["fieldManager: Too long: may not be more than 128 bytes"]),
    ("é\x00", ['fieldManager: Invalid value: "é\\x00": invalid character U+0000 (at position 2)']),
    (
        "a\u00a0b",
        ['fieldManager: Invalid value: "a\\u00a0b": invalid character U+00A0 (at position 1)'],
    ),
]


@pytest.mark.parametrize(("manager", "errors"), MANAGERS)
def test_rules_of_a_manager_name(manager: str, errors: list[str]) -> None:
    """Printable, and 128 bytes at most."""
    assert [e.text() for e in managed.validate_manager(manager)] == errors


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.36 (linux)", "kubectl"),
        ("my agent (x)", "my agent (x)"),
        ("", ""),
        ("a\tb/c", "ab"),
        ("é" * 100, "é" * 64),
    ],
)
def test_the_manager_of_an_agent(agent: str, manager: str) -> None:
    """What stands before the first slash, printable and short enough."""
    assert managed.manager_of(agent) == manager


# -- idle writes


def obj(managed_fields: list[Any], **data: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "managedFields": managed_fields}, "data": data}


def test_a_time_alone_is_no_change() -> None:
    """The old one is put back."""
    old, new = obj([entry("m", {"f:a": {}})], a=1), obj([entry("m", {"f:a": {}}, LATER)], a=1)
    assert without_idle_times(old, new) == old


@pytest.mark.parametrize(
    "new",
    [
        obj([entry("m", {"f:a": {}}, LATER)], a=2),
        obj([entry("m", {"f:a": {}}, LATER)], a=True),
        obj([entry("m", {"f:b": {}}, LATER)], a=1),
        obj([entry("m", {"f:a": {}}, LATER), entry("n", {"f:a": {}})], a=1),
        obj([], a=1),
    ],
)
def test_any_other_change_keeps_the_time(new: dict[str, Any]) -> None:
    """The object itself comes back."""
    assert without_idle_times(obj([entry("m", {"f:a": {}})], a=1), new) is new


# -- scale

REPLICAS = {"apps/v1": ("spec", "replicas"), "apps/v2": ("spec", "size"), "apps/v3": None}


def scale_entry(manager: str, **more: Any) -> dict[str, Any]:
    return entry(manager, {"f:spec": {"f:replicas": {}}}) | {"apiVersion": "autoscaling/v1"} | more


def test_the_scale_shows_who_owns_replicas() -> None:
    """In its own version and path, whatever those of the parent are."""
    parent = [
        entry("one", {"f:spec": {"f:replicas": {}, "f:x": {}}}),
        entry("two", {"f:spec": {"f:size": {}}}, apiVersion="apps/v2"),
        entry("three", {"f:spec": {"f:x": {}}}),
        entry("four", {"f:spec": {"f:replicas": {}}}, apiVersion="apps/v3"),
        entry("five", {"f:spec": {"f:replicas": {}}}, apiVersion="apps/v9"),
    ]
    assert ScaleOwners(parent, "apps/v1", REPLICAS).for_scale() == [
        scale_entry("one"),
        scale_entry("two"),
    ]


def test_a_write_through_scale_takes_replicas() -> None:
    """From whoever owned them in the parent, whose other fields stay."""
    parent = [
        entry("gone", {"f:spec": {"f:x": {}}}, apiVersion="apps/v9"),
        entry("one", {"f:spec": {"f:replicas": {}, "f:x": {}}}, operation="Apply"),
        entry("only", {"f:spec": {"f:replicas": {}}}),
        entry("other", {"f:spec": {"f:x": {}}}),
    ]
    scale = [scale_entry("hpa", subresource="scale")]
    made = ScaleOwners(parent, "apps/v1", REPLICAS).for_parent(scale)
    assert {(e["manager"], str(e["fieldsV1"])) for e in made} == {
        ("one", str({"f:spec": {"f:x": {}}})),
        ("other", str({"f:spec": {"f:x": {}}})),
        ("hpa", str({"f:spec": {"f:replicas": {}}})),
    }
    (hpa,) = [e for e in made if e["manager"] == "hpa"]
    assert (hpa["apiVersion"], hpa["subresource"], "time" in hpa) == ("apps/v1", "scale", False)


def test_an_applier_that_keeps_replicas_is_left_alone() -> None:
    """Its entry stays as it is in the parent."""
    parent = [entry("one", {"f:spec": {"f:replicas": {}, "f:x": {}}}, operation="Apply")]
    scale = [scale_entry("one", operation="Apply")]
    assert ScaleOwners(parent, "apps/v1", REPLICAS).for_parent(scale) == parent
