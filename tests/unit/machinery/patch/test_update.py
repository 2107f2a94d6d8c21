"""managedFields after creates, updates and patches other than apply."""

# Tables read better unbroken.

from __future__ import annotations

import copy
from typing import Any

import pytest

from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.fieldset import from_paths
from pykcp.machinery.schema.model import Schema

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


ZERO_DEPLOYMENT: dict[str, Any] = {
    "metadata": {},
    "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": None}}},
    "status": {},
}
"""The zero value of the Go type; containers are always printed."""


def manager_of(schema: Schema, **more: Any) -> FieldManager:
    return FieldManager(schema, "v1", "ConfigMap", zero={"metadata": {}}, **more)


def entry(manager: str, fields: dict[str, Any], time: str = NOW, **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def config(data: dict[str, str] | None = None, /, **meta: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": "x", "namespace": "n", **meta}}
    return {**body, "data": data} if data is not None else body


def stored(body: dict[str, Any], managed: list[Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "uid": "u", "managedFields": managed}}


def test_a_creator_owns_what_it_sent(config_map: Schema) -> None:
    """Names, type and what the server fills in are no one's."""
    new = config({"b": "1", "a": "2"}, labels={"l": "1"}, finalizers=["f/x"], uid="u", generation=1)
    new.update(apiVersion="v1", kind="ConfigMap")
    assert manager_of(config_map).on_update(None, new, "me", NOW) == [
        entry(
            "me",
            {
                "f:data": {".": {}, "f:a": {}, "f:b": {}},
                "f:metadata": {
                    "f:finalizers": {".": {}, 'v:"f/x"': {}},
                    "f:labels": {".": {}, "f:l": {}},
                },
            },
        )
    ]


def test_keys_are_written_in_order(config_map: Schema) -> None:
    """Sets have one spelling."""
    new = config({"b": "1", "a": "2", ".": "3"})
    (made,) = manager_of(config_map).on_update(None, new, "me", NOW)
    assert list(made) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]
    assert list(made["fieldsV1"]["f:data"]) == [".", "f:.", "f:a", "f:b"]


def test_structs_held_by_value_are_there_before_creation(deployment: Schema) -> None:
    """Only what a pointer, a map or a list adds is owned itself."""
    new = {
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"type": "R", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}},
        },
        "status": {},
    }
    manager = FieldManager(deployment, "apps/v1", "Deployment", zero=ZERO_DEPLOYMENT)
    (made,) = manager.on_update(None, new, "me", NOW)
    assert made["fieldsV1"] == {
        "f:spec": {
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                'k:{"containerPort":80,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:containerPort": {},
                                },
                            },
                        },
                    }
                }
            },
        }
    }


def test_a_custom_resource_owns_all_the_way_up(thing: Schema) -> None:
    """Nothing is there before a custom resource is."""
    manager = FieldManager(thing, "g/v1", "Thing")
    new = {
        "metadata": {"name": "x"},
        "spec": {"nested": {"a": "1"}, "extra": {}, "free": {"q": {"r": 1}}},
    }
    (made,) = manager.on_update(None, new, "me", NOW)
    assert made["fieldsV1"] == {
        "f:spec": {
            ".": {},
            "f:extra": {},
            "f:free": {".": {}, "f:q": {".": {}, "f:r": {}}},
            "f:nested": {".": {}, "f:a": {}},
        }
    }


def test_an_update_takes_what_it_changes(config_map: Schema) -> None:
    """The old owner loses changed and removed fields; the new one owns changed and new ones."""
    live = stored(
        config({"a": "1", "b": "1", "c": "1"}),
        [entry("old", {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}})],
    )
    new = {**live, "data": {"a": "1", "b": "2", "d": "1"}}
    assert manager_of(config_map).on_update(live, new, "new", LATER) == [
        entry("old", {"f:data": {".": {}, "f:a": {}}}),
        entry("new", {"f:data": {"f:b": {}, "f:d": {}}}, LATER),
    ]


def test_an_update_that_changes_nothing_is_not_recorded(config_map: Schema) -> None:
    """No new entry, no new time: the stored list itself comes back."""
    managed = [entry("old", {"f:data": {".": {}, "f:a": {}}})]
    live = stored(config({"a": "1"}), managed)
    assert manager_of(config_map).on_update(live, dict(live), "new", LATER) is managed


def test_the_same_manager_keeps_one_entry(config_map: Schema) -> None:
    """What it owned and what it changed become one set with a new time."""
    live = stored(config({"a": "1"}), [entry("me", {"f:data": {".": {}, "f:a": {}}})])
    new = {**live, "data": {"a": "2", "b": "1"}}
    assert manager_of(config_map).on_update(live, new, "me", LATER) == [
        entry("me", {"f:data": {".": {}, "f:a": {}, "f:b": {}}}, LATER)
    ]


def test_whoever_is_left_with_nothing_goes(config_map: Schema) -> None:
    """An entry without fields is not kept."""
    live = stored(config({"a": "1"}), [entry("old", {"f:data": {"f:a": {}}})])
    made = manager_of(config_map).on_update(live, {**live, "data": {"a": "2"}}, "new", LATER)
    assert [e["manager"] for e in made] == ["new"]


@pytest.mark.parametrize("subresource", ["", "status"])
def test_what_a_write_cannot_change_is_neither_owned_nor_lost(
    deployment: Schema, subresource: str
) -> None:
    """Through the main resource status is as if it were not there, and the other way round."""
    hidden = "status" if not subresource else "spec"
    manager = FieldManager(
        deployment, "apps/v1", "Deployment", subresource=subresource, zero=ZERO_DEPLOYMENT,
        reset={"apps/v1": from_paths([(hidden,)])},
    )  # fmt: skip
    live = stored(
        {"metadata": {"name": "x"}, "spec": {"replicas": 1}, "status": {"replicas": 1}},
        [{**entry("old", {"f:spec": {"f:replicas": {}}, "f:status": {"f:replicas": {}}}),
          "apiVersion": "apps/v1"}],
    )  # fmt: skip
    new = {**live, "spec": {"replicas": 2}, "status": {"replicas": 2}}
    old, made = manager.on_update(live, new, "new", LATER)
    assert list(old["fieldsV1"]) == [f"f:{hidden}"]
    assert list(made["fieldsV1"]) == ["f:spec" if hidden == "status" else "f:status"]
    assert made.get("subresource", "") == subresource


def test_untracked_objects_stay_untracked(config_map: Schema) -> None:
    """Without managers on record an update does not start to keep any."""
    live = {**config({"a": "1"}), "metadata": {"name": "x", "uid": "u"}}
    assert manager_of(config_map).on_update(live, {**live, "data": {"a": "2"}}, "me", NOW) == []


@pytest.mark.parametrize("given", [[], [{}]])
def test_a_client_can_have_managers_forgotten(config_map: Schema, given: list[Any]) -> None:
    """An empty list, or one empty entry, resets; through a subresource it does not."""
    live = stored(config({"a": "1"}), [entry("old", {"f:data": {"f:a": {}}})])
    new = {**live, "metadata": {**live["metadata"], "managedFields": given}}
    assert manager_of(config_map).on_update(live, new, "me", NOW) == []
    assert manager_of(config_map, subresource="status").on_update(live, new, "me", NOW) == [
        entry("old", {"f:data": {"f:a": {}}})
    ]
    created = manager_of(config_map).on_update(
        None, config({"a": "1"}, managedFields=given), "me", NOW
    )
    assert [e["manager"] for e in created] == ["me"]


def test_a_client_can_set_managers(config_map: Schema) -> None:
    """What it sends is the record from then on, made canonical, less what it changes."""
    given = [
        entry("given", {"f:data": {"f:b": {}, "f:a": {".": {}}}}, "2025-12-31T23:00:00.5-01:00")
    ]
    live = stored(config({"a": "1", "b": "1"}), [entry("old", {"f:data": {"f:a": {}}})])
    new = {**live, "metadata": {**live["metadata"], "managedFields": given}}
    assert manager_of(config_map).on_update(live, new, "me", NOW) == [
        entry("given", {"f:data": {"f:a": {}, "f:b": {}}})
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"operation": "Nope"},
        {"apiVersion": ""},
        {"fieldsType": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"nope": {}}},
        {"fieldsV1": []},
        {"time": "yesterday"},
    ],
)
def test_managers_that_cannot_be_read_are_ignored(config_map: Schema, bad: dict[str, Any]) -> None:
    """The record is kept then."""
    managed = [entry("old", {"f:data": {"f:a": {}}})]
    live = stored(config({"a": "1"}), managed)
    given = [{**entry("given", {"f:data": {"f:a": {}}}), **bad}]
    new = {**live, "metadata": {**live["metadata"], "managedFields": given}}
    assert manager_of(config_map).on_update(live, new, "me", NOW) == managed


def test_an_object_that_does_not_fit_has_no_managers(thing: Schema) -> None:
    """Upstream logs it and goes on without managedFields."""
    manager = FieldManager(thing, "g/v1", "Thing")
    for spec in (
        {"unknown": 1},
        {"map": [{"v": "no key"}], "n": 1},
        {"set": [None]},
        {"free": "x"},
    ):
        # a list item without any key, though port has a default, is named by the default
        made = manager.on_update(None, {"metadata": {"name": "x"}, "spec": spec}, "me", NOW)
        assert bool(made) == ("map" in spec)


def test_the_oldest_updaters_become_one(config_map: Schema) -> None:
    """Ten updaters are kept; before the eleventh the oldest two are joined."""
    manager = manager_of(config_map)
    live = config({})
    managed: list[Any] = []
    for number in range(12):
        new = {**live, "data": {**live["data"], f"k{number}": "v"}}
        before = None if number == 0 else stored(live, managed)
        managed = manager.on_update(before, new, f"m{number:02}", f"2026-01-01T00:00:{number:02}Z")
        live = new
    assert [e["manager"] for e in managed] == [
        "ancient-changes",
        *(f"m{n:02}" for n in range(3, 12)),
    ]
    assert managed[0] == entry(
        "ancient-changes",
        {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}}},
        "2026-01-01T00:00:02Z",
    )


def test_unchanged_booleans_are_not_numbers(thing: Schema) -> None:
    """True and 1 are different values, 1 and 1.0 are not."""
    manager = FieldManager(thing, "g/v1", "Thing")
    owned: dict[str, Any] = {"f:spec": {"f:free": {".": {}, "f:a": {}, "f:b": {}}}}
    live = stored(
        {"metadata": {"name": "x"}, "spec": {"free": {"a": 1, "b": [1]}}},
        [{**entry("old", owned), "apiVersion": "g/v1"}],
    )
    same = {**live, "spec": {"free": {"a": 1.0, "b": [1.0]}}}
    assert [e["manager"] for e in manager.on_update(live, same, "new", LATER)] == ["old"]
    other = {**live, "spec": {"free": {"a": True, "b": [True]}}}
    _, made = manager.on_update(live, other, "new", LATER)
    assert made["fieldsV1"] == {"f:spec": {"f:free": {"f:a": {}, "f:b": {}}}}


LABELS_AND_DATA = {"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}


@pytest.mark.parametrize(
    "managed",
    [
        [entry("me", LABELS_AND_DATA)],
        [entry("me", LABELS_AND_DATA), entry("other", {"f:data": {"f:b": {}}})],
        [entry("other", {"f:data": {"f:a": {}}, "f:metadata": {"f:name": {}, "f:uid": {}}})],
        [entry("other", {"f:metadata": {".": {}, "f:generation": {}}})],
        [entry("other", {"f:kind": {}, "f:data": {"f:b": {}}})],
        [],
    ],
)
@pytest.mark.parametrize(
    "new",
    [
        config({"a": "2"}, labels={"l": "1"}),
        config({"a": "1"}, labels={"l": "1"}, uid="u", resourceVersion="7", generation=2),
        config({"a": "1", "b": "1"}, name="y", labels={"l": "2", "m": "1"}),
        config(),
        {"metadata": {}},
        {**config({"a": "2"}), "kind": "ConfigMap", "apiVersion": "v1"},
    ],
)
def test_metadata_that_nobody_owns_need_not_be_compared(
    config_map: Schema,
    monkeypatch: pytest.MonkeyPatch,
    managed: list[Any],
    new: dict[str, Any],
) -> None:
    """It is left out where that makes no difference: not if a client has given it an owner."""
    live = stored(config({"a": "1", "b": "0"}, labels={"l": "1"}, generation=1), managed)
    manager = manager_of(config_map)
    found = manager.on_update(live, copy.deepcopy(new), "me", LATER)
    created = manager.on_update(None, copy.deepcopy(new), "me", LATER)
    monkeypatch.setattr(FieldManager, "_own_the_ownable", lambda *_: False)
    assert found == manager.on_update(live, copy.deepcopy(new), "me", LATER)
    assert created == manager.on_update(None, copy.deepcopy(new), "me", LATER)
