"""Merge patch: nulls, arrays, and bodies that are no patch."""

# Tables of exact messages read better unbroken.

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery.patch import mergepatch
from pykcp.machinery.status import StatusError

MERGED: list[tuple[Any, Any, Any]] = [
    ({"a": "1"}, {"a": None}, {}),
    ({"a": "1"}, {"b": None}, {"a": "1"}),
    ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
    ({}, {"a": {"x": None, "y": {"z": None}}}, {"a": {"y": {}}}),
    ({"a": "1"}, {"a": {"x": None}}, {"a": {}}),
    ({"a": None}, {"a": {"x": None}}, {"a": {}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": [1]}, {"a": [None, {"x": None}]}, {"a": [None, {}]}),
    ({"a": {}}, {"a": [{"x": None}]}, {"a": [{"x": None}]}),
    ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
    ({"a": 1}, {}, {"a": 1}),
    ({"a": 1}, [{"x": None}, None], [{}, None]),
]


@pytest.mark.parametrize(("document", "patch", "expected"), MERGED)
def test_merging(document: Any, patch: Any, expected: Any) -> None:
    """Objects merge, everything else replaces, null removes."""
    before = orjson.dumps([document, patch])
    assert mergepatch.apply(document, patch) == expected
    assert orjson.dumps([document, patch]) == before


BODIES: list[tuple[bytes, bool, str]] = [
    (b"[]", True, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    (b'"x"', True, "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    (b"true", True, "error decoding patch: json: cannot unmarshal bool into Go value of type map[string]interface {}"),
    (b"{", True, "error decoding patch: unexpected end of JSON input"),
    (b"{", False, "Invalid JSON Patch"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "strict", "message"), BODIES)
def test_a_body_that_is_no_patch(body: bytes, strict: bool, message: str) -> None:
    """400, in Go's words when validation asked for them."""
    with pytest.raises(StatusError) as caught:
        mergepatch.decode(body, strict=strict)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize("body", [b"null", b"5", b'"x"'])
def test_a_value_that_cannot_be_merged(body: bytes) -> None:
    """null is read as a patch and then is none."""
    patch, _ = mergepatch.decode(body, strict=False)
    with pytest.raises(StatusError) as caught:
        mergepatch.apply({}, patch)
    assert (caught.value.code, caught.value.message) == (400, "Invalid JSON Patch")


def test_repeated_keys_are_reported_by_path() -> None:
    """A key given twice is a problem of strict decoding only."""
    body = b'{"a":1,"a":2,"b":[{"c":1,"c":2}]}'
    patch, problems = mergepatch.decode(body, strict=True)
    assert patch == {"a": 2, "b": [{"c": 2}]}
    assert problems == ['duplicate field "a"', 'duplicate field "b[0].c"']


OBJECT = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(-2, 2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.none(), max_size=3),
    max_leaves=8,
)


@given(OBJECT, OBJECT)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    """A merge patch says how things are to be, not what to do."""
    once = mergepatch.apply(document, patch)
    assert mergepatch.apply(once, patch) == once
    assert all((key in once) == (value is not None) for key, value in patch.items())
