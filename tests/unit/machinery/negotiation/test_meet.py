"""The common schema of two: every construct, the laws of the operation, and its soundness."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.machinery.negotiation.findings import Severity, problems, text_of
from pykcp.machinery.negotiation.meet import ANYTHING, meet, meet_all
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.pruning import compile_pruner
from pykcp.machinery.schema.validation import compile_check
from pykcp.types import Object

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EITHER: Object = {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
CONFLICT, NARROWED, SAME = "conflict", "narrowed", "same"


def obj(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}
NUMBER: Object = {"type": "number"}
ARRAY: Object = {"type": "array", "items": STRING}
RULE_A, RULE_B = {"rule": "self.a > 1"}, {"rule": "self.b > 1"}

CASES: list[tuple[str, Object, Object, str, Object | None]] = [
    # type
    ("equal types", STRING, STRING, SAME, STRING),
    ("integer, number", INTEGER, NUMBER, SAME, INTEGER),
    ("number, integer", NUMBER, INTEGER, NARROWED, INTEGER),
    ("other types", STRING, INTEGER, CONFLICT, None),
    ("object, array", {"type": "object"}, ARRAY, CONFLICT, None),
    # unknown fields
    ("both preserve", {"type": "object", PRESERVE: True}, {"type": "object", PRESERVE: True}, SAME, {"type": "object", PRESERVE: True}),
    ("preserve, not", {"type": "object", PRESERVE: True}, {"type": "object"}, NARROWED, {"type": "object"}),
    ("not, preserve", {"type": "object"}, {"type": "object", PRESERVE: True}, SAME, {"type": "object"}),
    ("anything, typed", ANYTHING, STRING, NARROWED, STRING),
    ("typed, anything", STRING, ANYTHING, SAME, STRING),
    # properties
    ("more properties", obj(a=STRING), obj(a=STRING, b=STRING), SAME, obj(a=STRING)),
    ("less properties", obj(a=STRING, b=STRING), obj(a=STRING), NARROWED, obj(a=STRING)),
    ("a property of another type", obj(a=STRING), obj(a=INTEGER), CONFLICT, None),
    ("a property that is preserved", obj(a=STRING), {"type": "object", PRESERVE: True}, SAME, obj(a=STRING)),
    ("the removed property is required", {**obj(a=STRING), "required": ["a"]}, obj(), CONFLICT, None),
    ("a new one is required", obj(), {**obj(a=STRING), "required": ["a"]}, CONFLICT, None),
    # a map that preserves what it does not know: the schema of its values holds
    ("map that preserves", {"type": "object", PRESERVE: True, "additionalProperties": STRING}, {"type": "object", PRESERVE: True, "additionalProperties": STRING}, SAME, {"type": "object", PRESERVE: True, "additionalProperties": STRING}),
    ("maps of other values", {"type": "object", PRESERVE: True, "additionalProperties": STRING}, {"type": "object", PRESERVE: True, "additionalProperties": INTEGER}, CONFLICT, None),
    ("map that preserves, preserve", {"type": "object", PRESERVE: True, "additionalProperties": STRING}, {"type": "object", PRESERVE: True}, SAME, {"type": "object", PRESERVE: True, "additionalProperties": STRING}),
    ("map that preserves, properties", {"type": "object", PRESERVE: True, "additionalProperties": STRING}, {**obj(a=STRING), PRESERVE: True}, NARROWED, obj(a=STRING)),
    # properties and additionalProperties
    ("properties, map", obj(a=STRING), {"type": "object", "additionalProperties": STRING}, SAME, obj(a=STRING)),
    ("map, properties", {"type": "object", "additionalProperties": STRING}, obj(a=STRING), NARROWED, obj(a=STRING)),
    ("properties, map of others", obj(a=STRING), {"type": "object", "additionalProperties": INTEGER}, CONFLICT, None),
    ("properties, any map", obj(a=STRING), {"type": "object", "additionalProperties": True}, SAME, obj(a=STRING)),
    ("maps", {"type": "object", "additionalProperties": NUMBER}, {"type": "object", "additionalProperties": INTEGER}, NARROWED, {"type": "object", "additionalProperties": INTEGER}),
    ("any map, map", {"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": STRING}, NARROWED, {"type": "object", "additionalProperties": STRING}),
    ("map, nothing", {"type": "object", "additionalProperties": STRING}, {"type": "object"}, NARROWED, {"type": "object"}),
    # required
    ("required of both", {**obj(a=STRING, b=STRING), "required": ["a"]}, {**obj(a=STRING, b=STRING), "required": ["b"]}, NARROWED, {**obj(a=STRING, b=STRING), "required": ["a", "b"]}),
    # enums
    ("enum of more", {**STRING, "enum": ["a"]}, {**STRING, "enum": ["a", "b"]}, SAME, {**STRING, "enum": ["a"]}),
    ("enum of less", {**STRING, "enum": ["a", "b"]}, {**STRING, "enum": ["a"]}, NARROWED, {**STRING, "enum": ["a"]}),
    ("no enum, enum", STRING, {**STRING, "enum": ["a"]}, NARROWED, {**STRING, "enum": ["a"]}),
    ("enum, no enum", {**STRING, "enum": ["a"]}, STRING, SAME, {**STRING, "enum": ["a"]}),
    ("other enums", {**STRING, "enum": ["a"]}, {**STRING, "enum": ["b"]}, CONFLICT, None),
    ("enums of numbers", {**INTEGER, "enum": [1, 2]}, {**INTEGER, "enum": [2, 3]}, NARROWED, {**INTEGER, "enum": [2]}),
    ("enums of objects", {"type": "object", "enum": [{"a": 1}]}, {"type": "object", "enum": [{"a": 1}]}, SAME, {"type": "object", "enum": [{"a": 1}]}),
    ("true is not 1", {"type": "boolean", "enum": [True]}, {"type": "boolean", "enum": [False]}, CONFLICT, None),
    # strings
    ("format added", STRING, {**STRING, "format": "date"}, NARROWED, {**STRING, "format": "date"}),
    ("format removed", {**STRING, "format": "date"}, STRING, SAME, {**STRING, "format": "date"}),
    ("other formats", {**STRING, "format": "date"}, {**STRING, "format": "uuid"}, CONFLICT, None),
    ("pattern added", STRING, {**STRING, "pattern": "a"}, NARROWED, {**STRING, "pattern": "a"}),
    ("other patterns", {**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, CONFLICT, None),
    ("lengths", {**STRING, "minLength": 1, "maxLength": 9}, {**STRING, "minLength": 2, "maxLength": 20}, NARROWED, {**STRING, "minLength": 2, "maxLength": 9}),
    ("no length is left", {**STRING, "maxLength": 1}, {**STRING, "minLength": 2}, CONFLICT, None),
    # numbers
    ("bounds", {**INTEGER, "minimum": 1, "maximum": 9}, {**INTEGER, "minimum": 0, "maximum": 5}, NARROWED, {**INTEGER, "minimum": 1, "maximum": 5}),
    ("exclusive bounds", {**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 1, "exclusiveMinimum": True}, NARROWED, {**NUMBER, "minimum": 1, "exclusiveMinimum": True}),
    ("no number is left", {**NUMBER, "minimum": 1, "exclusiveMinimum": True}, {**NUMBER, "maximum": 1}, CONFLICT, None),
    ("multiples", {**INTEGER, "multipleOf": 4}, {**INTEGER, "multipleOf": 6}, NARROWED, {**INTEGER, "multipleOf": 12}),
    ("fractions", {**NUMBER, "multipleOf": 0.5}, {**NUMBER, "multipleOf": 0.3}, CONFLICT, None),
    ("formats of integers", {**INTEGER, "format": "int64"}, {**INTEGER, "format": "int32"}, NARROWED, {**INTEGER, "format": "int32"}),
    # combinations
    ("the same anyOf", {**STRING, "anyOf": [{"minLength": 1}]}, {**STRING, "anyOf": [{"minLength": 1}]}, SAME, {**STRING, "anyOf": [{"minLength": 1}]}),
    ("anyOf on one side", {**STRING, "anyOf": [{"minLength": 1}]}, STRING, CONFLICT, None),
    ("other oneOf", {**STRING, "oneOf": [{"minLength": 1}]}, {**STRING, "oneOf": [{"minLength": 2}]}, CONFLICT, None),
    ("not on the new side", obj(), {**obj(), "not": {"required": ["a"]}}, CONFLICT, None),
    # arrays
    ("items", {"type": "array", "items": NUMBER}, {"type": "array", "items": INTEGER}, NARROWED, {"type": "array", "items": INTEGER}),
    ("other items", ARRAY, {"type": "array", "items": INTEGER}, CONFLICT, None),
    ("counts of items", {**ARRAY, "maxItems": 3}, {**ARRAY, "minItems": 1, "maxItems": 2}, NARROWED, {**ARRAY, "minItems": 1, "maxItems": 2}),
    ("unique, not", {**ARRAY, "uniqueItems": True}, ARRAY, SAME, {**ARRAY, "uniqueItems": True}),
    ("not, unique", ARRAY, {**ARRAY, "uniqueItems": True}, NARROWED, {**ARRAY, "uniqueItems": True}),
    ("list types", {**ARRAY, "x-kubernetes-list-type": "set"}, {**ARRAY, "x-kubernetes-list-type": "atomic"}, CONFLICT, None),
    ("atomic is the default", ARRAY, {**ARRAY, "x-kubernetes-list-type": "atomic"}, SAME, {**ARRAY, "x-kubernetes-list-type": "atomic"}),
    ("list keys in another order", {**ARRAY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}, {**ARRAY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]}, SAME, {**ARRAY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}),
    ("other list keys", {**ARRAY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}, {**ARRAY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]}, CONFLICT, None),
    ("map types", {**obj(), "x-kubernetes-map-type": "atomic"}, obj(), SAME, {**obj(), "x-kubernetes-map-type": "atomic"}),
    ("map types the other way", obj(), {**obj(), "x-kubernetes-map-type": "atomic"}, SAME, {**obj(), "x-kubernetes-map-type": "atomic"}),
    # the rest
    ("int or string", {INT_OR_STRING: True}, {INT_OR_STRING: True}, SAME, {INT_OR_STRING: True}),
    ("int or string, and its types", {INT_OR_STRING: True}, EITHER, SAME, EITHER),
    ("int or string, its types in another order", {INT_OR_STRING: True, "anyOf": [STRING, {"type": "integer"}]}, EITHER, SAME, EITHER),
    ("int or string, another choice", {INT_OR_STRING: True, "anyOf": [STRING]}, EITHER, CONFLICT, None),
    ("int or string, string", {INT_OR_STRING: True}, STRING, CONFLICT, None),
    ("nullable, not", {**STRING, "nullable": True}, STRING, NARROWED, STRING),
    ("not, nullable", STRING, {**STRING, "nullable": True}, SAME, STRING),
    ("counts of properties", {**obj(), "maxProperties": 3}, {**obj(), "maxProperties": 2}, NARROWED, {"type": "object", "maxProperties": 2}),
    ("rules", {**obj(), "x-kubernetes-validations": [RULE_A]}, {**obj(), "x-kubernetes-validations": [RULE_B]}, NARROWED, {"type": "object", "x-kubernetes-validations": [RULE_A, RULE_B]}),
    ("defaults", {**STRING, "default": "b"}, {**STRING, "default": "a"}, SAME, {**STRING, "default": "a"}),
    ("one default", STRING, {**STRING, "default": "a"}, SAME, {**STRING, "default": "a"}),
    ("descriptions", {**STRING, "description": "b"}, {**STRING, "description": "a"}, SAME, {**STRING, "description": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "verdict", "expected"),
    [case[1:] for case in CASES],
    ids=[c[0] for c in CASES],
)
def test_constructs(left: Object, right: Object, verdict: str, expected: Object | None) -> None:
    met = meet(left, right)
    severities = {finding.severity for finding in met.findings}
    if verdict == CONFLICT:
        assert Severity.CONFLICT in severities
        assert not met.is_possible
        return
    assert met.is_possible, met.findings
    assert (Severity.NARROWED in severities) == (verdict == NARROWED)
    assert canonical(met.schema) == canonical(expected)
    assert bool(problems(met.findings, may_narrow=False)) == (verdict == NARROWED)
    assert not problems(met.findings, may_narrow=True)


def canonical(schema: Any) -> str:
    """Without differences that mean nothing."""
    schema = copy.deepcopy(schema)
    if schema.get("properties") == {}:
        del schema["properties"]
    return text_of(schema)


def test_findings_name_their_place() -> None:
    left = obj(spec=obj(ports={"type": "array", "items": obj(port=INTEGER)}))
    right = obj(spec=obj(ports={"type": "array", "items": obj(port=STRING)}))
    (finding,) = meet(left, right).findings
    place = "schema.openAPISchema.properties[spec].properties[ports].items.properties[port].type"
    assert str(finding) == f'{place}: The type changed (was "integer", now "string")'


# --- laws and soundness

NAMES = ("a", "b", "c")
SCALARS: st.SearchStrategy[Object] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "enum": st.lists(st.sampled_from(("", "x", "yy")), min_size=1, max_size=3, unique=True),
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(0, 3),
            "pattern": st.sampled_from(("^x", "y$")),
            "nullable": st.just(True),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(("integer", "number"))},
        optional={
            "minimum": st.integers(-1, 3),
            "maximum": st.integers(-1, 3),
            "exclusiveMaximum": st.just(True),
            "multipleOf": st.sampled_from((1, 2, 3)),
            "enum": st.lists(st.integers(-1, 3), min_size=1, max_size=3, unique=True),
        },
    ),
    st.just({"type": "boolean"}),
    st.just({INT_OR_STRING: True}),
    st.just(ANYTHING),
)


def composites(inner: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    return st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from(NAMES), inner),
            },
            optional={
                "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
                PRESERVE: st.just(True),
                "maxProperties": st.integers(1, 2),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("object"), "additionalProperties": inner | st.just(True)},
            optional={"minProperties": st.integers(0, 1), PRESERVE: st.just(True)},
        ),
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"minItems": st.integers(0, 2), "maxItems": st.integers(0, 2)},
        ),
    )


SCHEMAS = st.recursive(SCALARS, composites, max_leaves=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from((None, True, False, -1, 0, 1, 2, 3, 1.5, "", "x", "yy", "xyz")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*NAMES, "d")), inner, max_size=3)
    ),
    max_leaves=6,
)


def is_served(schema: Object, value: Any) -> bool:
    """Whether a server with this schema takes the value and loses nothing of it."""
    parsed = from_json({"type": "object", "properties": {"v": schema}})
    document = {"v": copy.deepcopy(value)}
    dropped: list[str] = []
    compile_pruner(parsed)(document, None, dropped)
    return not dropped and document == {"v": value} and bool(compile_check(parsed)(document))


@settings(max_examples=600, deadline=None)
@given(SCHEMAS, SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_what_the_common_schema_takes_both_take(
    left: Object, right: Object, values: list[Any]
) -> None:
    check_soundness(left, right, values)


def check_soundness(left: Object, right: Object, values: Sequence[Any]) -> bool:
    """Whether there is a common schema that takes one of the values."""
    met = meet(left, right)
    if not met.is_possible:
        return False
    served = [value for value in values if is_served(met.schema, value)]
    for value in served:
        assert is_served(left, value), (left, met.schema, value)
        assert is_served(right, value), (right, met.schema, value)
    return bool(served)


class RandomSchemas:
    """Schemas, others that are like them, and values that often fit: many in a short time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int = 2) -> Object:
        chosen = self._random
        kind = chosen.choice(
            ("string", "number", "integer", "boolean", *("object", "array") * depth)
        )
        made: Object = {"type": kind}
        options: dict[str, Any] = {
            "string": {"enum": ["", "x", "yy"][: chosen.randint(1, 3)], "maxLength": 2},
            "number": {"minimum": chosen.randint(-1, 2), "maximum": 3},
            "integer": {"multipleOf": chosen.randint(1, 3), "enum": [0, 1, 2, 3]},
            "object": {"required": [chosen.choice(NAMES)], "minProperties": 1, PRESERVE: True},
            "array": {"minItems": chosen.randint(0, 2), "maxItems": 2},
            "boolean": {"nullable": True},
        }[kind]
        if kind == "object" and chosen.random() < 0.2:  # a map, with or without unknown content
            made["additionalProperties"] = self.schema(depth - 1)
            options.pop("required")
        elif kind == "object":
            names = chosen.sample(NAMES, chosen.randint(1, 3))
            made["properties"] = {name: self.schema(depth - 1) for name in names}
        if kind == "array":
            made["items"] = self.schema(depth - 1)
        made.update({name: one for name, one in options.items() if chosen.random() < 0.3})
        return made

    def like(self, schema: Object) -> Object:
        """Another form of it: a constraint or a property more or less."""
        chosen = self._random
        made = {k: v for k, v in schema.items() if k in ("type", "items") or chosen.random() < 0.8}
        if "additionalProperties" in schema:
            made["additionalProperties"] = self.like(schema["additionalProperties"])
        elif made["type"] == "object":
            kept = schema["properties"].items()
            made["properties"] = {k: self.like(v) for k, v in kept if chosen.random() < 0.8}
        other = self.schema(0)
        return {**other, **made} if other["type"] == made["type"] else made

    def value(self, schema: Object) -> Any:
        chosen = self._random
        match schema["type"]:
            case "object" if "additionalProperties" in schema:
                inner = schema["additionalProperties"]
                return {k: self.value(inner) for k in NAMES if chosen.random() < 0.6}
            case "object":
                parts = schema["properties"].items()
                return {k: self.value(v) for k, v in parts if chosen.random() < 0.9}
            case "array":
                return [self.value(schema["items"]) for _ in range(chosen.randint(0, 2))]
            case "string":
                return chosen.choice(("", "x", "yy", "xyz"))
            case "boolean":
                return chosen.choice((True, False, None))
        return chosen.choice((-1, 0, 1, 2, 3, 1.5))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_thousand_random_pairs_are_sound() -> None:
    made, fitting = RandomSchemas(11), 0
    for number in range(100_000):
        left = made.schema()
        right = made.like(left) if number % 4 else made.schema()
        fitting += check_soundness(left, right, [made.value(left) for _ in range(2)])
    assert fitting > 10_000  # otherwise little was tried


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_the_order_of_clusters_does_not_matter(one: Object, two: Object, three: Object) -> None:
    results = [meet_all(order) for order in itertools.permutations((one, two, three))]
    # A conflict may be met in one order and not in another, where what conflicts was removed first.
    assert len({canonical_deep(met.schema) for met in results if met.is_possible}) <= 1
    assert meet(one, two).is_possible == meet(two, one).is_possible


@given(SCHEMAS)
def test_with_itself(schema: Object) -> None:
    met = meet(schema, copy.deepcopy(schema))
    assert met.schema == schema
    assert not met.findings


def canonical_deep(schema: Any) -> str:
    def strip(node: Any) -> Any:
        if isinstance(node, list):
            return [strip(item) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: sorted(value) if key == "required" else strip(value)
            for key, value in node.items()
            if not (key in ("properties", "required") and not value)
        }

    return text_of(strip(schema))
