"""JSON patch: the laxness of upstream's library, and which status each refusal gets."""

# Tables of exact messages read better unbroken.

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.status import StatusError

DOCUMENT: dict[str, Any] = {
    "data": {"a": "1", "b": "2", "a/b": "s", "t~": "t"},
    "list": ["x", "y"],
    "gone": None,
}

APPLIED: list[tuple[str, list[Any], Any]] = [
    ("add", [{"op": "add", "path": "/data/c", "value": "3"}], {"c": "3"}),
    ("add over", [{"op": "add", "path": "/data/a", "value": "3"}], {"a": "3"}),
    ("add without a value", [{"op": "add", "path": "/data/c"}], {"c": None}),
    (
        "the head of a path is not read",
        [{"op": "add", "path": "x/data/c", "value": "3"}],
        {"c": "3"},
    ),
    ("replace what is not there", [{"op": "replace", "path": "/data/c", "value": 1}], {"c": 1}),
    ("copy what is not there", [{"op": "copy", "from": "/data/z", "path": "/data/c"}], {"c": None}),
    ("copy", [{"op": "copy", "from": "/data/a", "path": "/data/c"}], {"c": "1"}),
    ("escaped slash", [{"op": "replace", "path": "/data/a~1b", "value": "x"}], {"a/b": "x"}),
    ("escaped tilde", [{"op": "replace", "path": "/data/t~0", "value": "x"}], {"t~": "x"}),
    ("test of null and absent", [{"op": "test", "path": "/data/z", "value": None}], {}),
    ("test of a null member", [{"op": "test", "path": "/gone"}], {}),
    (
        "unknown members are not read",
        [{"op": "add", "path": "/data/c", "value": 1, "x": 2}],
        {"c": 1},
    ),
]


@pytest.mark.parametrize(("label", "patch", "data"), APPLIED, ids=[row[0] for row in APPLIED])
def test_data_after_a_patch(label: str, patch: list[Any], data: dict[str, Any]) -> None:
    """Each operation changes what it names and nothing else."""
    out = jsonpatch.apply(DOCUMENT, patch)
    assert out == {**DOCUMENT, "data": {**DOCUMENT["data"], **data}}


LISTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"op": "add", "path": "/list/-", "value": "z"}, ["x", "y", "z"]),
    ({"op": "add", "path": "/list/0", "value": "z"}, ["z", "x", "y"]),
    ({"op": "add", "path": "/list/2", "value": "z"}, ["x", "y", "z"]),
    ({"op": "add", "path": "/list/-1", "value": "z"}, ["x", "y", "z"]),
    ({"op": "add", "path": "/list/-3", "value": "z"}, ["z", "x", "y"]),
    ({"op": "add", "path": "/list/+1", "value": "z"}, ["x", "z", "y"]),
    ({"op": "remove", "path": "/list/-1"}, ["x"]),
    ({"op": "replace", "path": "/list/-2", "value": "z"}, ["z", "y"]),
    ({"op": "move", "from": "/list/0", "path": "/list/-"}, ["y", "x"]),
]


@pytest.mark.parametrize(("operation", "expected"), LISTS)
def test_list_after_an_operation(operation: dict[str, Any], expected: list[str]) -> None:
    """Indexes count from either end; a dash is the end."""
    assert jsonpatch.apply(DOCUMENT, [operation])["list"] == expected


REFUSED: list[Any] = [
    {"op": "add", "path": "/nope/deeper", "value": 1},
    {"op": "add", "path": "/gone/deeper", "value": 1},
    {"op": "add", "path": "/data/a/deeper", "value": 1},
    {"op": "add", "path": "", "value": {}},
    {"op": "add", "value": 1},
    {"op": "add", "path": 5, "value": 1},
    {"op": "add", "path": "/list/4", "value": 1},
    {"op": "add", "path": "/list/-4", "value": 1},
    {"op": "add", "path": "/list/x", "value": 1},
    {"op": "add", "path": "/list/" + "9" * 5000, "value": 1},
    {"op": "remove", "path": "/data/z"},
    {"op": "remove", "path": "/list/-"},
    {"op": "remove", "path": "/list/2"},
    {"op": "replace", "path": "/list/2", "value": 1},
    {"op": "replace", "path": "", "value": "x"},
    {"op": "test", "path": "/data/a", "value": "2"},
    {"op": "test", "path": "/data/a", "value": 1},
    {"op": "test", "path": "/data/a"},
    {"op": "test", "path": "/list/9", "value": None},
    {"op": "test", "path": "", "value": {}},
    {"op": "move", "from": "/data/z", "path": "/data/c"},
    {"op": "move", "from": "/data", "path": "/data/c"},
    {"op": "move", "path": "/data/c"},
    {"op": "copy", "from": "/zz/yy", "path": "/data/c"},
    {"op": "ADD", "path": "/data/c", "value": 1},
    {"path": "/data/c"},
    None,
]


@pytest.mark.parametrize("operation", REFUSED)
def test_an_operation_that_does_not_apply_is_unprocessable(operation: Any) -> None:
    """422, and always the same words: upstream keeps the reason to itself."""
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply(DOCUMENT, [operation])
    assert caught.value.to_json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


def test_the_whole_can_be_replaced() -> None:
    """The empty path is the document, for replace and test only."""
    assert jsonpatch.apply(DOCUMENT, [{"op": "replace", "path": "", "value": [1]}]) == [1]
    jsonpatch.apply({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}])


def test_later_operations_see_earlier_ones() -> None:
    """Operations run in order, on what the ones before left."""
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/new", "value": {"a": []}},
        {"op": "add", "path": "/new/a/-", "value": 1},
        {"op": "copy", "from": "/new", "path": "/twin"},
        {"op": "add", "path": "/new/a/-", "value": 2},
        {"op": "test", "path": "/twin/a", "value": [1]},
    ]
    out = jsonpatch.apply({}, patch)
    assert out == {"new": {"a": [1, 2]}, "twin": {"a": [1]}}
    assert patch[0]["value"] == {"a": []}


def test_copies_are_limited() -> None:
    """A small patch cannot grow an object without bound."""
    double = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 10
    with pytest.raises(StatusError) as caught:
        jsonpatch.apply({"a": ["x" * 40]}, double, jsonpatch.Budget(copied=1000))
    assert caught.value.code == 422


DECODING: list[tuple[bytes, bool, int, str]] = [
    (b"{}", True, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    (b"{}", False, 400, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
    (b'["x"]', True, 400, "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
    (b'["x"]', False, 400, "json: cannot unmarshal string into Go value of type jsonpatch.Operation"),
    (b'[{"op":1}]', True, 400, "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    (b"[", True, 400, "error decoding patch: unexpected end of JSON input"),
    (b"[1,]", False, 400, "invalid character ']' looking for beginning of value"),
    (b"[" + b",".join([b'{"op":"test","path":"/a"}'] * 10001) + b"]", True, 413,
     "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "strict", "code", "message"), DECODING)
def test_a_body_that_is_no_patch(body: bytes, strict: bool, code: int, message: str) -> None:
    """What cannot be read is the client's fault, in Go's words."""
    with pytest.raises(StatusError) as caught:
        jsonpatch.decode(body, strict=strict)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_strict_decoding_reports_what_it_would_drop() -> None:
    """Unknown and repeated members are told apart, unknown ones are not looked into."""
    body = (
        b'[{"op":"add","path":"/a","Value":1,"extra":{"a":1,"a":2},"op":"x","value":{"a":1,"a":2}}]'
    )
    operations, problems = jsonpatch.decode(body, strict=True)
    assert problems == [
        'json patch unknown field "[0].Value"',
        'json patch unknown field "[0].extra"',
        'json patch duplicate field "[0].op"',
        'json patch duplicate field "[0].value.a"',
    ]
    assert len(operations) == 1
    assert jsonpatch.decode(body, strict=False)[1] == []
    _, problems = jsonpatch.decode(b'[{"op":"add","path":"/a","op":"x","extra":1}]', strict=True)
    assert problems == [  # as they come
        'json patch duplicate field "[0].op"',
        'json patch unknown field "[0].extra"',
    ]


def test_no_patch_is_an_empty_patch() -> None:
    """null is a patch without operations."""
    assert jsonpatch.decode(b"null", strict=True) == ([], [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "0", "-", "op", "path"]), inner, max_size=3)
    ),
    max_leaves=8,
)
POINTER = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "-1", ""]), max_size=3).map(
    lambda parts: "".join("/" + part for part in parts)
)
OPERATION = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
    optional={"path": POINTER, "from": POINTER, "value": JSON},
)


@given(JSON.filter(lambda d: isinstance(d, dict)), st.lists(OPERATION | JSON, max_size=4))
def test_any_patch_applies_or_is_refused(document: Any, patch: list[Any]) -> None:
    """Nothing but a status comes out of bad input, and the arguments stay as they were."""
    before = orjson.dumps([document, patch])
    try:
        operations, _ = jsonpatch.decode(orjson.dumps(patch), strict=True)
        jsonpatch.apply(document, operations)
    except StatusError as refusal:
        assert refusal.code in {400, 422}  # noqa: PT017
    assert orjson.dumps([document, patch]) == before


@given(JSON.filter(lambda d: isinstance(d, dict)), POINTER, JSON)
def test_an_added_value_is_found_by_test(document: Any, pointer: str, value: Any) -> None:
    """What was added is there."""
    try:
        out = jsonpatch.apply(document, [{"op": "add", "path": pointer, "value": value}])
    except StatusError:
        return
    if not pointer.endswith(("/-", "/-1")):
        jsonpatch.apply(out, [{"op": "test", "path": pointer, "value": value}])
