"""Strategic merge: keyed lists, directives, order, and errors in upstream's words."""

# Tables of exact messages read better unbroken.

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.machinery.patch import strategic
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import StatusError

Row = tuple[str, Any, Any, Any]


def _typed(schema: Schema) -> Schema:
    """The schema as that of a built-in kind: every node has a type in Go."""
    if not schema.go_type:
        schema.go_type = "v1.T"
        inner = (*schema.properties.values(), schema.items, schema.additional)
        for node in inner:
            if node is not None:
                _typed(node)
    return schema


@pytest.fixture(scope="module")
def deployment(deployment: Schema) -> Schema:
    return _typed(deepcopy(deployment))


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


AB = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]

MERGED: list[Row] = [
    ("by key", pod(containers=AB), pod(containers=[{"name": "b", "image": "2"}]),
     pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])),
    ("new items stand where the patch has them, before the server's",
     pod(containers=AB), pod(containers=[{"name": "c"}]), pod(containers=[{"name": "c"}, *AB])),
    ("shared items keep the server's order among themselves",
     pod(containers=AB), pod(containers=[{"name": "b", "image": "2"}, {"name": "c"}]),
     pod(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}])),
    ("delete an item", pod(containers=AB), pod(containers=[{"$patch": "delete", "name": "a"}]),
     pod(containers=[{"name": "b", "image": "1"}])),
    ("delete an item that is not there", pod(containers=AB),
     pod(containers=[{"$patch": "delete", "name": "z"}]), pod(containers=AB)),
    ("replace the list", pod(containers=AB), pod(containers=[{"$patch": "replace"}, {"name": "z"}]),
     pod(containers=[{"name": "z"}])),
    ("empty the list", pod(containers=AB), pod(containers=[{"$patch": "replace"}]),
     pod(containers=[])),
    ("an empty patch list changes nothing", pod(containers=AB), pod(containers=[]),
     pod(containers=AB)),
    ("null removes", pod(containers=AB), pod(containers=None), pod()),
    ("nested lists merge too",
     pod(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}]}]),
     pod(containers=[{"name": "a", "env": [{"name": "Y", "value": "2"}]}]),
     pod(containers=[{"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}])),
    ("a list without a strategy is replaced",
     pod(containers=[{"name": "a", "args": ["x"]}]), pod(containers=[{"name": "a", "args": ["y"]}]),
     pod(containers=[{"name": "a", "args": ["y"]}])),
    ("order of the server is set by the patch", pod(containers=AB),
     pod(**{"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
     pod(containers=[AB[1], AB[0]])),
    ("order with a new item", pod(containers=AB),
     pod(**{"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [{"name": "c"}]}),
     pod(containers=[{"name": "c"}, *AB])),
    ("an item replaced beside one that only the server has",
     pod(containers=[{"name": "a"}, {"name": "side"}]),
     pod(**{"$setElementOrder/containers": [{"name": "c"}],
            "containers": [{"$patch": "delete", "name": "a"}, {"name": "c"}]}),
     pod(containers=[{"name": "side"}, {"name": "c"}])),
    ("order of a list that no one has", pod(), pod(**{"$setElementOrder/containers": [{"name": "a"}]}),
     pod()),
    ("two items that the order does not know change places", {"metadata": {}},
     {"metadata": {"$setElementOrder/finalizers": [], "finalizers": ["a", "b"]}},
     {"metadata": {"finalizers": ["b", "a"]}}),
    ("scalars merge as a set", {"metadata": {"finalizers": ["a", "b"]}},
     {"metadata": {"finalizers": ["b", "c"]}}, {"metadata": {"finalizers": ["a", "b", "c"]}}),
    ("scalars are deleted by value", {"metadata": {"finalizers": ["a", "b"]}},
     {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}},
     {"metadata": {"finalizers": ["b"]}}),
    ("deletion where there is no list", {"metadata": {"labels": {"a": "1"}}},
     {"metadata": {"$deleteFromPrimitiveList/labels": ["a"]}}, {"metadata": {"labels": {"a": "1"}}}),
    ("replace a map", {"metadata": {"labels": {"a": "1"}}},
     {"metadata": {"labels": {"$patch": "replace", "z": "9"}}}, {"metadata": {"labels": {"z": "9"}}}),
    ("delete a map", {"metadata": {"labels": {"a": "1"}}},
     {"metadata": {"labels": {"$patch": "delete"}}}, {"metadata": {"labels": {}}}),
    ("a directive in what is new is dropped with it", {"metadata": {}},
     {"metadata": {"labels": {"$patch": "replace", "z": "9"}, "annotations": {"a": None, "b": "1"}}},
     {"metadata": {"annotations": {"b": "1"}}}),
    ("retain some keys", {"spec": {"strategy": {"type": "R", "rollingUpdate": {}}}},
     {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
     {"spec": {"strategy": {"type": "Recreate"}}}),
    ("retain keys in items", pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
     pod(volumes=[{"name": "v", "emptyDir": {}, "$retainKeys": ["name", "emptyDir"]}]),
     pod(volumes=[{"name": "v", "emptyDir": {}}])),
    ("another type replaces", {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": "x"}},
     {"metadata": {"labels": "x"}}),
    ("the whole", {"metadata": {"labels": {}}}, {"$patch": "replace", "spec": {}}, {"spec": {}}),
    ("all gone", {"metadata": {"labels": {}}}, {"$patch": "delete"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "document", "patch", "expected"), MERGED, ids=[r[0] for r in MERGED]
)
def test_merging(deployment: Schema, label: str, document: Any, patch: Any, expected: Any) -> None:
    """The row's label says what is expected; nothing given is changed."""
    before = orjson.dumps([document, patch])
    assert strategic.apply(deployment, document, patch) == expected
    assert orjson.dumps([document, patch]) == before


REFUSED: list[tuple[Any, Any, int, str]] = [
    (pod(containers=AB), pod(containers=[{"image": "x"}]), 500,
     "map: map[image:x] does not contain declared merge key: name"),
    (pod(containers=AB), pod(containers=[{"$patch": "delete"}]), 500,
     "map: map[$patch:delete] does not contain declared merge key: name"),
    (pod(containers=AB), pod(containers=[{"$patch": "merge", "name": "a"}]), 500,
     "merging lists cannot yet be specified in the patch"),
    (pod(containers=AB), pod(containers=[{"$patch": 5, "name": "a"}]), 500,
     "unknown patch type: %!s(int64=5) in map: map[$patch:5 name:a]"),
    (pod(containers=AB), pod(containers=["x"]), 500,
     "list element types are not identical: [[map[image:1 name:a] map[image:1 name:b]] [x]]"),
    ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "nope"}}}, 500,
     "unknown patch type: nope in map: map[$patch:nope]"),
    ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$retainKeys": ["b"], "c": "5"}}}, 400,
     "invalid patch format of retainKeys"),
    ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$retainKeys": "b"}}}, 400,
     "invalid patch format of retainKeys"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder/finalizers": "x"}}, 500,
     "expected a []interface {}, but received a string"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder": ["x"]}}, 400,
     "invalid patch format of setElementOrder list"),
    ({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList": ["x"]}}, 400,
     "invalid patch format of primitive list"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder/labels": ["x"]}}, 500,
     "expected slice or array type, but got: struct"),
    ({"metadata": {}}, {"metadata": {"$setElementOrder/nope": ["x"]}}, 500,
     'unable to find api field in struct ObjectMeta for the json field "nope"'),
    ({"metadata": {"finalizers": ["a"]}},
     {"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["q"]}}, 500,
     "The order in patch list:\n[q]\n doesn't match $setElementOrder list:\n[a]\n"),
    ({"metadata": {"labels": {"a": {}}}}, {"metadata": {"labels": {"a": {}}}}, 500,
     "merging an object in json but data type is not struct, instead is: map"),
    ({"spec": {"matrix": [["x"]]}}, {"spec": {"matrix": [["y"]]}}, 500, "unexpected slice of slice"),
    ({"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": [["b"]]}}, 422,
     "the server rejected our request due to an error in our request"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "patch", "code", "message"), REFUSED)
def test_refusals(deployment: Schema, document: Any, patch: Any, code: int, message: str) -> None:
    """Each bad patch has its status and its words."""
    with pytest.raises(StatusError) as caught:
        strategic.apply(deployment, document, patch)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_an_error_without_a_status_has_no_reason(deployment: Schema) -> None:
    """Upstream gives such errors a bare 500."""
    with pytest.raises(StatusError) as caught:
        strategic.apply(deployment, pod(containers=AB), pod(containers=[{"image": "x"}]))
    body = caught.value.to_json()
    assert body["code"] == 500
    assert "reason" not in body
    assert "details" not in body


def test_decoding() -> None:
    """The body must be an object; null changes nothing."""
    assert strategic.decode(b"null", strict=True) == ({}, [])
    assert strategic.decode(b'{"a":1,"a":2}', strict=True)[1] == ['duplicate field "a"']
    with pytest.raises(StatusError) as caught:
        strategic.decode(b"[]", strict=True)
    assert caught.value.message == (
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    )


NAMES = st.sampled_from(["name", "containers", "metadata", "spec", "template", "labels", "env",
                         "finalizers", "$patch", "$retainKeys", "$setElementOrder/containers",
                         "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers"])  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "replace", "delete"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(NAMES, JSON, max_size=4)


@settings(max_examples=60)
@given(document=OBJECT, patch=OBJECT)
def test_any_patch_applies_or_is_refused(deployment: Schema, document: Any, patch: Any) -> None:
    """Nothing but a status comes out of bad input, and the arguments stay as they were."""
    before = orjson.dumps([document, patch])
    try:
        strategic.apply(deployment, document, patch)
    except StatusError as refusal:
        assert refusal.code in {400, 422, 500}  # noqa: PT017
    assert orjson.dumps([document, patch]) == before
