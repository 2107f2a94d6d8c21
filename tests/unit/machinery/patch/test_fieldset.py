"""Sets of fields: their algebra, their one spelling, and reading those that others wrote."""

# Tables read better unbroken.

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery.patch import elements, fieldsv1
from pykcp.machinery.patch.fieldset import (
    Fields,
    contains,
    difference,
    from_paths,
    has,
    intersection,
    leaves,
    paths,
    recursive_difference,
    union,
)

ELEMENTS = st.sampled_from(
    ["f:a", "f:b", "f:c", 'k:{"name":"a"}', 'k:{"name":"a!"}', 'k:{"n":1,"p":2}', "v:9", "v:10",
     'v:"x"', "v:true", "i:2", "i:10"]
)  # fmt: skip
SETS = st.recursive(
    st.dictionaries(ELEMENTS, st.just({}), max_size=3),
    lambda inner: st.dictionaries(ELEMENTS, inner, max_size=3),
    max_leaves=10,
).map(fieldsv1.parse)
LOOSE: st.SearchStrategy[Any] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(ELEMENTS | st.just("."), inner, max_size=4),
    max_leaves=12,
)


def members(fields: Fields) -> set[tuple[str, ...]]:
    return set(paths(fields))


@given(SETS, SETS)
def test_set_operations_are_those_of_sets_of_paths(left: Fields, right: Fields) -> None:
    """A tree is a set of paths, whatever way it is worked on."""
    mine, other = members(left), members(right)
    assert members(union(left, right)) == mine | other
    assert members(intersection(left, right)) == mine & other
    assert members(difference(left, right)) == mine - other
    assert members(recursive_difference(left, right)) == {
        path for path in mine if not any(path[: n + 1] in other for n in range(len(path)))
    }
    assert members(leaves(left)) == {
        path for path in mine if not any(p[: len(path)] == path and p != path for p in mine)
    }
    assert all(has(left, path) for path in mine)
    assert not any(has(left, path) for path in other - mine)


@given(SETS, SETS)
def test_a_set_contains_what_a_union_does_not_add(left: Fields, right: Fields) -> None:
    assert contains(left, right) == (set(paths(right)) <= set(paths(left)))
    assert contains(union(left, right), right)


@given(SETS, SETS)
def test_results_are_canonical(left: Fields, right: Fields) -> None:
    """What comes out is spelled as if it had been read: order, dots, no empty nodes."""
    for result in (
        union(left, right),
        intersection(left, right),
        difference(left, right),
        recursive_difference(left, right),
        leaves(left),
    ):
        assert orjson.dumps(fieldsv1.parse(result)) == orjson.dumps(result)


@given(SETS, SETS)
def test_nothing_to_change_is_nothing_new(left: Fields, right: Fields) -> None:
    """Taking away what is not there gives the same object, so that callers can tell."""
    rest = difference(left, right)
    assert difference(rest, right) is rest
    assert recursive_difference(left, {}) is left


@given(LOOSE)
def test_reading_is_idempotent(fields: Any) -> None:
    """A set that was read reads as itself."""
    once = fieldsv1.parse(fields)
    again = fieldsv1.parse(orjson.loads(orjson.dumps(once)))
    assert orjson.dumps(once) == orjson.dumps(again)


READ: list[tuple[Any, Any]] = [
    (None, {}),
    ({".": {}}, {}),
    ({"f:a": {".": {}}}, {"f:a": {}}),
    ({"f:a": None}, {"f:a": {}}),
    ({"f:a": {"f:b": {}, ".": {}}}, {"f:a": {".": {}, "f:b": {}}}),
    ({"z:q": {"f:b": {}}, "f:a": {}}, {"f:a": {}}),
    ({"f:a": {"z:q": {}}}, {"f:a": {}}),
    ({'k:{"port": 80, "name":"b"}': {}}, {'k:{"name":"b","port":80}': {}}),
    ({'k:{"port":80.0}': {}}, {'k:{"port":80}': {}}),
    ({'v:"a<b"': {}}, {'v:"a\\u003cb"': {}}),
    ({'v:"\\b\\u2028"': {}}, {'v:"\\u0008\\u2028"': {}}),
    ({"v:0.0000001": {}, "v:1e21": {}}, {"v:1e-07": {}, "v:1e+21": {}}),
    ({"i:+3": {}}, {"i:3": {}}),
    ({"v:1": {}, "v:1.0": {"f:a": {}}}, {"v:1": {".": {}, "f:a": {}}}),
]


@pytest.mark.parametrize(("given_fields", "expected"), READ)
def test_reading_what_others_wrote(given_fields: Any, expected: Fields) -> None:
    """Other spellings, unknown kinds of element and nulls are understood."""
    assert fieldsv1.parse(given_fields) == expected


@pytest.mark.parametrize(
    "bad",
    [[], "x", {"nope": {}}, {"f": {}}, {"": {}}, {"v:": {}}, {"v:{": {}}, {"k:5": {}}, {"i:x": {}},
     {"f:a": []}, {"f:a": 5}],
)  # fmt: skip
def test_what_is_no_set(bad: Any) -> None:
    """A reader is told, and decides what to do."""
    with pytest.raises(fieldsv1.BadFields):
        fieldsv1.parse(bad)


def test_order_is_that_of_values() -> None:
    """Fields, then keys, then values, then indexes; numbers by size, a string before longer ones."""
    mixed = ["i:10", "i:9", 'v:"b"', "v:10", "v:9", "v:true", "v:null", 'v:"a"', 'k:{"name":"a!"}',
             'k:{"name":"a"}', 'k:{"name":"a","z":1}', "f:b", "f:a", "."]  # fmt: skip
    assert elements.in_order(mixed) == [
        ".", "f:a", "f:b", 'k:{"name":"a"}', 'k:{"name":"a","z":1}', 'k:{"name":"a!"}', "v:9",
        "v:10", 'v:"a"', 'v:"b"', "v:true", "v:null", "i:9", "i:10",
    ]  # fmt: skip


@given(st.lists(st.text(), max_size=6), st.sampled_from(["", "name"]))
def test_order_of_strings_is_that_of_strings(texts: list[str], name: str) -> None:
    """However they are escaped."""

    def element(text: str) -> str:
        if name:
            return elements.key_element([(name, text)])
        return "v:" + elements.scalar_text(text)

    unique = sorted(set(texts))
    assert elements.in_order(map(element, reversed(unique))) == [element(t) for t in unique]


@given(st.text() | st.integers(-(2**53), 2**53) | st.booleans() | st.none())
def test_elements_hold_their_value(value: Any) -> None:
    """The text is JSON of the value, and canonical."""
    element = "v:" + elements.scalar_text(value)
    assert orjson.loads(element[2:]) == value
    assert elements.canonical_element(element) == element


SHOWN = [
    (
        ("f:spec", "f:containers", 'k:{"name":"web"}', "f:image"),
        '.spec.containers[name="web"].image',
    ),
    (('k:{"port":8080,"x":true}',), "[port=8080,x=true]"),
    (('k:{"port":1000000}',), "[port=1e+06]"),
    (('v:"a\\u003cb\\n"',), '[="a<b\\n"]'),
    (("v:null", "i:3"), "[=null][3]"),
]


@pytest.mark.parametrize(("path", "text"), SHOWN)
def test_paths_as_people_read_them(path: tuple[str, ...], text: str) -> None:
    """As conflicts name them; numbers as upstream reads them back."""
    assert elements.path_text(path) == text


def test_members_come_before_what_is_below_them() -> None:
    """The order in which conflicts are listed."""
    fields: Fields = {"f:a": {".": {}, "f:x": {}}, "f:b": {}, "f:c": {"f:y": {}}}
    assert [elements.path_text(p) for p in paths(fields)] == [".a", ".b", ".a.x", ".c.y"]


def test_sets_from_paths() -> None:
    """For those who know the fields by name."""
    assert from_paths([("spec",), ("metadata", "labels"), ("metadata",)]) == {
        "f:metadata": {".": {}, "f:labels": {}},
        "f:spec": {},
    }
