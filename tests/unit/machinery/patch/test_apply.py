"""Server-side apply: merging, ownership, conflicts, and what goes when it is no longer said."""

# Tables read better unbroken.

from __future__ import annotations

import copy
from typing import Any

import pytest

from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.fieldset import from_paths
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import StatusError

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
Body = dict[str, Any]


class Applied:
    """One object that several managers write to, as a server would keep it."""

    def __init__(self, manager: FieldManager) -> None:
        self.fields = manager
        self.live: Body | None = None

    def body(self, spec: Any = None, /, **more: Any) -> Body:
        out: Body = {
            "apiVersion": self.fields.api_version,
            "kind": self.fields.kind,
            "metadata": {"name": "x", **more.pop("meta", {})},
            **more,
        }
        return out if spec is None else {**out, "spec": spec}

    def apply(self, manager: str, body: Body, *, force: bool = False, now: str = NOW) -> Body:
        before = copy.deepcopy([self.live, body])
        self.live = self._stored(
            self.fields.on_apply(self.live, body, manager, now, force=force), before, body
        )
        return self.live

    def _stored(self, result: Body, before: list[Any], body: Body) -> Body:
        assert [self.live, body] == before, "the arguments were changed"
        return {**result, "metadata": {**result["metadata"], "uid": "u"}}

    def update(self, manager: str, body: Body, now: str = NOW) -> Body:
        new = copy.deepcopy(body)
        new["metadata"].pop("managedFields", None)
        owners = self.fields.on_update(self.live, new, manager, now)
        metadata = {**new["metadata"], "uid": "u"}
        self.live = {
            **new,
            "metadata": {**metadata, "managedFields": owners} if owners else metadata,
        }
        return self.live

    def owners(self) -> dict[str, Any]:
        assert self.live is not None
        entries = self.live["metadata"].get("managedFields", [])
        return {f"{e['manager']}/{e['operation']}": e["fieldsV1"] for e in entries}


@pytest.fixture
def things(thing: Schema) -> Applied:
    return Applied(FieldManager(thing, "g/v1", "Thing"))


@pytest.fixture
def maps(config_map: Schema) -> Applied:
    return Applied(FieldManager(config_map, "v1", "ConfigMap", zero={"metadata": {}}))


def refusal(applied: Applied, manager: str, body: Body, *, force: bool = False) -> StatusError:
    with pytest.raises(StatusError) as caught:
        applied.apply(manager, body, force=force)
    return caught.value


# -- owning


def test_an_applier_owns_what_it_says(things: Applied) -> None:
    """Declared fields are passed through; chosen keys and list items are owned themselves."""
    things.apply("me", things.body({
        "n": 1, "set": ["a"], "atomic": ["a"], "map": [{"name": "a", "v": "1"}], "nested": {"a": "1"},
        "sealed": {"a": "1"}, "extra": {"k": "1"}, "free": {"q": {"r": 1}, "l": [1]}, "any": 5,
    }))  # fmt: skip
    assert things.owners() == {
        "me/Apply": {
            "f:spec": {
                "f:any": {},
                "f:atomic": {},
                "f:extra": {"f:k": {}},
                "f:free": {"f:l": {}, "f:q": {".": {}, "f:r": {}}},
                "f:map": {'k:{"name":"a","port":80}': {".": {}, "f:name": {}, "f:v": {}}},
                "f:n": {},
                "f:nested": {"f:a": {}},
                "f:sealed": {},
                "f:set": {'v:"a"': {}},
            }
        }
    }


def test_an_empty_configuration_owns_nothing(maps: Applied) -> None:
    """There is no entry for one who says nothing but the name."""
    maps.apply("me", maps.body())
    assert maps.owners() == {}
    assert maps.live == maps.body() | {"metadata": {"name": "x", "uid": "u"}}


def test_agreement_is_shared(maps: Applied) -> None:
    """Two who want the same both own it; the second changed nothing and so has no time."""
    maps.apply("one", maps.body(data={"a": "1"}))
    live = maps.apply("two", maps.body(data={"a": "1"}), now=LATER)
    assert maps.owners() == {
        "one/Apply": {"f:data": {"f:a": {}}},
        "two/Apply": {"f:data": {"f:a": {}}},
    }
    assert ["time" in e for e in live["metadata"]["managedFields"]] == [False, True]


def test_saying_it_again_changes_nothing(maps: Applied) -> None:
    """Not even a time."""
    body = maps.body(data={"a": "1"}, meta={"labels": {"l": "1"}})
    once = maps.apply("me", body)
    assert maps.apply("me", body, now=LATER) == once


def test_a_change_moves_the_time(maps: Applied) -> None:
    """Of the one who made it."""
    maps.apply("me", maps.body(data={"a": "1"}))
    live = maps.apply("me", maps.body(data={"a": "2"}), now=LATER)
    assert [e["time"] for e in live["metadata"]["managedFields"]] == [LATER]


def test_an_applier_may_own_what_the_schema_does_not_let_it_set(thing: Schema) -> None:
    """Fields that the write resets are merged, for the strategy to reset, and not owned."""
    reset = {"g/v1": from_paths([("status",)])}
    main = Applied(FieldManager(thing, "g/v1", "Thing", reset=reset))
    main.apply("me", main.body({"n": 1}, status={"phase": "p"}))
    assert main.owners() == {"me/Apply": {"f:spec": {"f:n": {}}}}


# -- conflicts


def test_a_conflict_with_an_applier(maps: Applied) -> None:
    """409, the field, and who owns it."""
    maps.apply("one", maps.body(data={"a": "1"}))
    assert refusal(maps, "two", maps.body(data={"a": "2"})).to_json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "one": .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "one"',
                    "field": ".data.a",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_owner(maps: Applied) -> None:
    """Updaters are named with their version, those of a subresource with that."""
    maps.update("kubectl-client-side-apply", maps.body(data={"a": "1", "b": "1"}))
    maps.apply("other", maps.body(data={"b": "1", "c": "1"}))
    caught = refusal(maps, "me", maps.body(data={"a": "2", "b": "2", "c": "1"}))
    assert caught.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "kubectl-client-side-apply" using v1:\n- .data.a\n- .data.b\n'
        'conflicts with "other":\n- .data.b'
    )
    assert [cause.field for cause in caught.causes] == [".data.a", ".data.b", ".data.b"]


def test_force_takes_what_is_in_the_way(maps: Applied) -> None:
    """The others lose it; one who is left with nothing goes."""
    maps.apply("one", maps.body(data={"a": "1"}))
    maps.apply("two", maps.body(data={"a": "1", "b": "1"}))
    maps.apply("me", maps.body(data={"a": "2"}), force=True)
    assert maps.owners() == {
        "me/Apply": {"f:data": {"f:a": {}}},
        "two/Apply": {"f:data": {"f:b": {}}},
    }


def test_one_name_is_two_managers(maps: Applied) -> None:
    """Who updates under a name is not who applies under it."""
    maps.update("me", maps.body(data={"a": "1"}))
    caught = refusal(maps, "me", maps.body(data={"a": "2"}))
    assert caught.message == 'Apply failed with 1 conflict: conflict with "me" using v1: .data.a'


CONFLICTS: list[tuple[Any, Any, str]] = [
    ({"atomic": ["a"]}, {"atomic": ["b"]}, ".spec.atomic"),
    ({"plain": ["a"]}, {"plain": ["a", "b"]}, ".spec.plain"),
    ({"sealed": {"a": "1"}}, {"sealed": {"b": "1"}}, ".spec.sealed"),
    ({"nested": {"a": "1"}}, {"nested": {"a": "2"}}, ".spec.nested.a"),
    ({"extra": {"k": "1"}}, {"extra": {"k": "2"}}, ".spec.extra.k"),
    ({"free": {"q": {"r": 1}}}, {"free": {"q": {"r": 2}}}, ".spec.free.q.r"),
    ({"free": {"q": [1]}}, {"free": {"q": [True]}}, ".spec.free.q"),
    ({"map": [{"name": "a", "v": "1"}]}, {"map": [{"name": "a", "v": "2"}]},
     '.spec.map[name="a",port=80].v'),
    ({"n": 1}, {"n": None}, ".spec.n"),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "path"), CONFLICTS)
def test_what_conflicts(things: Applied, mine: Any, theirs: Any, path: str) -> None:
    """As finely as the schema lets it be owned."""
    things.apply("one", things.body(mine))
    caught = refusal(things, "two", things.body(theirs))
    assert [cause.field for cause in caught.causes] == [path]


AGREED: list[tuple[Any, Any, Any]] = [
    ({"set": ["a", "b"]}, {"set": ["c", "b"]}, {"set": ["a", "c", "b"]}),
    ({"map": [{"name": "a"}]}, {"map": [{"name": "b"}]}, {"map": [{"name": "a"}, {"name": "b"}]}),
    ({"map": [{"name": "a"}]}, {"map": [{"name": "a", "port": 81}]},
     {"map": [{"name": "a"}, {"name": "a", "port": 81}]}),
    ({"map": [{"name": "a"}]}, {"map": [{"name": "a", "port": 80, "v": "1"}]},
     {"map": [{"name": "a", "port": 80, "v": "1"}]}),
    ({"map": [{"name": n} for n in "abc"]}, {"map": [{"name": n} for n in "cxa"]},
     {"map": [{"name": n} for n in "bcxa"]}),
    ({"nested": {"a": "1"}}, {"nested": {"b": "1"}}, {"nested": {"a": "1", "b": "1"}}),
    ({"free": {"q": {"r": 1}}}, {"free": {"q": {"s": 2}}}, {"free": {"q": {"r": 1, "s": 2}}}),
    ({"nested": {"a": "1"}}, {"nested": None}, {"nested": {"a": "1"}}),
    ({"extra": {"k": "1"}}, {"extra": {}}, {"extra": {"k": "1"}}),
    ({"any": 1}, {"any": 1.0}, {"any": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "merged"), AGREED)
def test_what_merges(things: Applied, mine: Any, theirs: Any, merged: Any) -> None:
    """Shared items stand as the last applier has them, the others around them."""
    things.apply("one", things.body(mine))
    assert things.apply("two", things.body(theirs))["spec"] == merged


# -- taking back


TAKEN_BACK: list[tuple[Any, Any, Any]] = [
    ({"n": 1, "s": "x"}, {"n": 1}, {"n": 1}),
    ({"nested": {"a": "1", "b": "1"}}, {"nested": {"a": "1"}}, {"nested": {"a": "1"}}),
    ({"extra": {"k": "1", "l": "1"}}, {"extra": {"l": "1"}}, {"extra": {"l": "1"}}),
    ({"set": ["a", "b"]}, {"set": ["b"]}, {"set": ["b"]}),
    ({"map": [{"name": "a"}, {"name": "b"}]}, {"map": [{"name": "b"}]}, {"map": [{"name": "b"}]}),
    ({"map": [{"name": "a", "v": "1"}]}, {"map": [{"name": "a"}]}, {"map": [{"name": "a"}]}),
    ({"free": {"q": {"r": 1, "s": 1}}}, {"free": {"q": {"s": 1}}}, {"free": {"q": {"s": 1}}}),
    ({"n": 1, "sealed": {"a": "1"}}, {"n": 1}, {"n": 1}),
]


@pytest.mark.parametrize(("first", "then", "left"), TAKEN_BACK)
def test_what_is_no_longer_said_goes(things: Applied, first: Any, then: Any, left: Any) -> None:
    """If no one else owns it."""
    things.apply("me", things.body(first))
    assert things.apply("me", things.body(then))["spec"] == left


def test_what_others_own_stays(things: Applied) -> None:
    """Whether they applied it or wrote it."""
    things.apply("me", things.body({"n": 1, "s": "x", "extra": {"k": "1"}}))
    things.apply("other", things.body({"n": 1}))
    live = things.update(
        "writer", {**(things.live or {}), "spec": {"n": 1, "s": "y", "extra": {"k": "1"}}}
    )
    assert live["spec"]["s"] == "y"
    assert things.apply("me", things.body({}))["spec"] == {"n": 1, "s": "y"}


def test_an_item_goes_with_what_no_one_owns_in_it(things: Applied) -> None:
    """Defaults in an item do not hold it."""
    things.apply("me", things.body({"map": [{"name": "a"}, {"name": "b"}]}))
    assert things.live is not None
    things.live["spec"]["map"][0]["deep"] = {"a": "by default"}
    assert things.apply("me", things.body({"map": [{"name": "b"}]}))["spec"] == {
        "map": [{"name": "b"}]
    }


def test_nothing_left_is_nothing(maps: Applied) -> None:
    """The field of a map goes with its last key."""
    maps.apply("me", maps.body(data={"a": "1"}))
    live = maps.apply("me", maps.body())
    assert "data" not in live
    assert maps.owners() == {}


# -- before the first apply


def test_what_no_one_was_recorded_for_has_an_owner(maps: Applied) -> None:
    """Untracked fields belong to a manager of their own from the first apply on."""
    maps.live = maps.body(data={"a": "1", "b": "1"}, meta={"uid": "u", "labels": {"l": "1"}})
    caught = refusal(maps, "me", maps.body(data={"a": "2"}))
    assert caught.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    )
    maps.apply("me", maps.body(data={"a": "2"}), force=True)
    assert maps.owners() == {
        "me/Apply": {"f:data": {"f:a": {}}},
        "before-first-apply/Update": {
            "f:data": {".": {}, "f:b": {}},
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        },
    }


# -- refusals

REQUESTS: list[tuple[Body, int, str]] = [
    ({"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
    ({"kind": None}, 400, "invalid object type: /v1, Kind="),
    ({"apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
    ({"apiVersion": "apps/v1"}, 400, "invalid object type: apps/v1, Kind=ConfigMap"),
    ({"apiVersion": "a/b/c"}, 400, "invalid object type: /, Kind="),
    ({"apiVersion": 5}, 400, "invalid object type: /, Kind=ConfigMap"),
    ({"metadata": {"name": "x", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
    ({"nope": 1}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .nope: field not declared in schema"),
    ({"data": "x"}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data: expected map, got &{x}"),
    ({"data": {"a": 1}}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:1}"),
    ({"data": {"a": {"b": ["c", None]}}}, 500, 'failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":[]interface {}{"c", interface {}(nil)}}}'),
    ({"immutable": "x"}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .immutable: expected boolean, got &{x}"),
    ({"metadata": "x"}, 500, "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got &{x}"),
    ({"metadata": {"name": "x", "namespace": "n", "generation": "1"}}, 500, "failed to create typed patch object (n/x; /v1, Kind=ConfigMap): .metadata.generation: expected numeric (int or float), got string"),
    ({"metadata": {"name": "x", "creationTimestamp": {"a": 1}}}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.creationTimestamp: expected any scalar, got &{map[a:1]}"),
    ({"metadata": {"name": "x", "finalizers": ["a", "a"]}}, 500, 'failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.finalizers: duplicate entries for key [="a"]'),
    ({"metadata": {"name": "x", "finalizers": [None]}}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.finalizers: element 0: associative list without keys has an element that's an explicit null"),
    ({"metadata": {"name": "x", "ownerReferences": [{"uid": "a", "x": 1}]}}, 500, 'failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.ownerReferences[uid="a"].x: field not declared in schema'),
    ({"metadata": {"name": "x", "ownerReferences": [{"name": "a"}]}}, 500, 'failed to create typed patch object (/x; /v1, Kind=ConfigMap): .metadata.ownerReferences: element 0: associative list with keys has an element that omits all key fields ["uid"] (and doesn\'t have default values for any key fields)'),
    ({"data": "x", "immutable": 5}, 500, "failed to create typed patch object (/x; /v1, Kind=ConfigMap): errors:\n  .data: expected map, got &{x}\n  .immutable: expected boolean, got &{5}"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "message"), REQUESTS)
def test_configurations_that_are_refused(
    maps: Applied, change: Body, code: int, message: str
) -> None:
    """In upstream's words, which people search for."""
    caught = refusal(maps, "me", maps.body() | change)
    assert (caught.code, caught.message) == (code, message)


def test_an_object_that_does_not_fit_cannot_be_applied_to(things: Applied) -> None:
    """The words tell whether it was tracked."""
    things.live = things.body({"unknown": 1}, meta={"uid": "u"})
    assert refusal(things, "me", things.body({"n": 1})).message == (
        "failed to create manager for existing fields: failed to convert new object "
        "(/x; g/v1, Kind=Thing) to smd typed: .spec.unknown: field not declared in schema"
    )


def test_depth_has_an_end(things: Applied) -> None:
    """A configuration deeper than we can follow is refused, an update of it is not tracked."""
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    body = things.body({"free": deep})
    with pytest.raises(StatusError) as caught:
        things.fields.on_apply(None, body, "me", NOW)
    assert caught.value.code == 400
    assert things.fields.on_update(None, body, "me", NOW) == []
