"""What holds of every apply, whatever is applied by whom."""

# Tables read better unbroken.

from __future__ import annotations

import copy
from typing import Any

import orjson
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pykcp.machinery.patch import checking, fieldsv1, ownership
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.fieldset import paths
from pykcp.machinery.patch.shapes import Untypable
from pykcp.machinery.status import StatusError

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"

SMALL = st.sampled_from(["a", "b", "c"])
FREE = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | SMALL,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SMALL, inner, max_size=2),
    max_leaves=4,
)
ITEM = st.fixed_dictionaries(
    {"name": SMALL},
    optional={
        "port": st.sampled_from([80, 81]),
        "v": SMALL,
        "deep": st.dictionaries(st.sampled_from("ab"), SMALL, max_size=2),
    },
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(1, 2),
        "s": SMALL,
        "set": st.lists(SMALL, unique=True, max_size=3),
        "atomic": st.lists(SMALL, max_size=2),
        "map": st.lists(ITEM, unique_by=lambda i: (i["name"], i.get("port", 80)), max_size=3),
        "nested": st.dictionaries(st.sampled_from("ab"), SMALL, max_size=2),
        "sealed": st.dictionaries(st.sampled_from("ab"), SMALL, max_size=2),
        "extra": st.dictionaries(SMALL, SMALL, max_size=2),
        "free": st.dictionaries(SMALL, FREE, max_size=2),
        "any": st.integers(0, 1) | SMALL,
    },
)
WRITE = st.tuples(st.sampled_from(["apply", "force", "update"]), st.sampled_from("xyz"), SPEC)


def body(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def replayed(fields: FieldManager, writes: list[Any]) -> dict[str, Any] | None:
    """The object after a history of writes, conflicts left out."""
    live: dict[str, Any] | None = None
    for kind, who, spec in writes:
        if kind == "update":
            new = body(copy.deepcopy(spec))
            owners = fields.on_update(live, new, who, NOW)
            live = {**new, "metadata": {"name": "x", "uid": "u", "managedFields": owners}}
            continue
        try:
            live = fields.on_apply(live, body(spec), who, NOW, force=kind == "force")
        except StatusError as conflict:
            assert conflict.code == 409  # noqa: PT017
    return live


@settings(max_examples=25, deadline=None)
@given(st.lists(WRITE, max_size=4), SPEC)
def test_applying_twice_is_applying_once(
    fields: FieldManager, writes: list[Any], spec: Any
) -> None:
    """The second time nothing changes, not even a time.

    Unless no one owns anything yet: then the second apply is the first one to an object
    that exists, and finds owners for what is there.
    """
    once = fields.on_apply(replayed(fields, writes), body(spec), "me", NOW, force=True)
    assume("managedFields" in once["metadata"])
    again = fields.on_apply(once, body(spec), "me", LATER, force=True)
    assert orjson.dumps(again, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        once, option=orjson.OPT_SORT_KEYS
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(WRITE, max_size=4), SPEC)
def test_what_is_applied_is_in_the_result(
    fields: FieldManager, writes: list[Any], spec: Any
) -> None:
    """Every leaf of the configuration has its value, and its applier owns it."""
    shape = fields._shape
    out = fields.on_apply(replayed(fields, writes), body(spec), "me", NOW, force=True)
    claims = ownership.claimed(shape, {"spec": spec})
    entries = {e["manager"]: e for e in out["metadata"].get("managedFields", [])
               if e["operation"] == "Apply"}  # fmt: skip
    assert (entries["me"]["fieldsV1"] if claims else {}) == claims
    _, removed = shape.compare({"spec": spec}, {"spec": out.get("spec")}) or (None, None)
    assert removed is None


@settings(max_examples=25, deadline=None)
@given(st.lists(WRITE, min_size=1, max_size=5))
def test_owners_own_what_is_there(fields: FieldManager, writes: list[Any]) -> None:
    """No entry is empty, none is spelled oddly, and what updaters own is there.

    An applier may own an empty map that taking back its other fields has removed.
    """
    out = replayed(fields, writes)
    assert out is not None
    shape = fields._shape
    there = set(paths(shape.own({k: v for k, v in out.items() if k != "metadata"})))
    for entry in out["metadata"].get("managedFields", []):
        assert entry["fieldsV1"]
        assert orjson.dumps(fieldsv1.parse(entry["fieldsV1"])) == orjson.dumps(entry["fieldsV1"])
        if entry["operation"] == "Update":
            assert set(paths(entry["fieldsV1"])) <= there


@settings(max_examples=25, deadline=None)
@given(st.lists(WRITE, max_size=3), SPEC)
def test_a_conflict_is_about_what_another_owns(
    fields: FieldManager, writes: list[Any], spec: Any
) -> None:
    """Without force an apply either conflicts or leaves others what they own."""
    live = replayed(fields, writes)
    try:
        free = fields.on_apply(live, body(spec), "me", NOW)
    except StatusError as conflict:
        assert all(cause.field.startswith(".spec") for cause in conflict.causes)  # noqa: PT017
        return
    forced = fields.on_apply(live, body(spec), "me", NOW, force=True)
    assert free == forced


NAMES = st.sampled_from(["spec", "metadata", "map", "set", "free", "name", "finalizers", "labels",
                         "managedFields", "apiVersion", "kind", "status", "ownerReferences"])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(-2, 2) | st.sampled_from(["a", "Thing", "g/v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_any_configuration_is_applied_or_refused(fields: FieldManager, config: Any) -> None:
    """Nothing but a status comes out of bad input."""
    for given_config in (config, {**config, "apiVersion": "g/v1", "kind": "Thing"}):
        try:
            fields.on_apply(None, given_config, "me", NOW)
        except StatusError as refusal:
            assert refusal.code in {400, 500}  # noqa: PT017


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=4), st.dictionaries(NAMES, JSON, max_size=3))
def test_any_object_is_tracked_or_not(fields: FieldManager, new: Any, metadata: Any) -> None:
    """An object that does not fit is stored without owners; it does not stop the write."""
    entries = fields.on_update(None, {**new, "metadata": metadata}, "me", NOW)
    assert all(e["fieldsV1"] for e in entries)


@given(st.dictionaries(NAMES, JSON, max_size=4))
def test_checking_has_words_for_everything(fields: FieldManager, value: Any) -> None:
    """Whatever the value, it fits or the reason can be said."""
    try:
        checking.check(fields._shape, value, allow_duplicates=False)
    except Untypable as error:
        assert str(error)  # noqa: PT017
