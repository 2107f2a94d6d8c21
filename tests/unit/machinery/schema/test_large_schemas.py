"""Schemas and values so large that anything but a linear check would not come back in time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from pykcp.machinery.schema.crd_text import LARGE_SCHEMA, defined_resource, is_simple, read_crd
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.validation import compile_check, enum_check
from pykcp.machinery.schema.violations import schema_errors

MANY = 100_000


@pytest.mark.parametrize(
    "enum",
    [
        [f"v{n}" for n in range(MANY)],
        list(range(MANY)),
        [n + 0.5 for n in range(MANY)],
        [[n] for n in range(MANY)],
        [{"a": n} for n in range(MANY)],
    ],
    ids=["strings", "integers", "numbers", "lists", "objects"],
)
def test_a_large_enum_is_looked_up(enum: list[Any]) -> None:
    node = {"x-kubernetes-preserve-unknown-fields": True, "enum": enum}
    schema = from_json({"type": "array", "items": node})
    good = enum[-5_000:]
    assert compile_check(schema)(good) is True
    assert schema_errors(schema, good) == []
    assert compile_check(schema)([*good, "bad"]) is False
    (error,) = schema_errors(schema, [*good, "bad"])
    assert error.reason == "FieldValueNotSupported"


@pytest.mark.parametrize(
    ("allowed", "value", "expected"),
    [
        ((1, "a"), 1, True),
        ((1, "a"), 1.0, True),
        ((1, "a"), 1.7, True),
        ((1.5, "a"), 1.5, True),
        ((1.5, "a"), 1, False),
        ((1, "a"), True, False),
        ((True, "a"), True, True),
        ((True, "a"), 1, False),
        ((False, "a"), 0, False),
        ((None, 1), None, False),
        (([1], 1), [1], True),
        (({"a": [1]}, 1), {"a": [1.0]}, True),
        (("1", 2), 1, False),
        (("a", "b"), "b", True),
        (("a", "b"), None, False),
    ],
)
def test_values_of_an_enum(allowed: tuple[Any, ...], value: Any, expected: bool) -> None:
    assert enum_check(allowed)(value) is expected


def test_patterns_have_a_limit_for_one_value() -> None:
    pattern = "(a|b)*a(a|b){900}c"
    schema = from_json({"type": "array", "items": {"type": "string", "pattern": pattern}})
    texts = ["ab" * 50_000]
    assert compile_check(schema)(texts) is False
    (error,) = schema_errors(schema, texts)
    assert error.text().endswith("but the text is too long for this pattern'")
    (error,) = schema_errors(schema, ["ab" * 500])
    assert error.text().endswith(f"should match '{pattern}'")
    assert compile_check(schema)(["a" * 901 + "c"]) is True


def test_many_texts_and_an_ordinary_pattern() -> None:
    schema = from_json({"type": "array", "items": {"type": "string", "pattern": r"^\S{1,253}$"}})
    assert compile_check(schema)(["x" * 253] * 1_000) is True
    long = from_json({"type": "string", "pattern": "^(?:[A-Za-z0-9+/]{4})*$"})
    assert compile_check(long)("abcd" * 250_000) is True


@pytest.mark.parametrize(
    ("rules", "is_large"),
    [
        ([], False),
        ([{"rule": "self.a > 1"}] * 5, False),
        ([{"rule": "self.a > 1"}] * 20, True),
        ([{"rule": "self.a > 1 || " * 500 + "true"}], True),
        ([{"rule": "true", "messageExpression": """'"' + """ * 700 + "''"}], True),
    ],
)
def test_what_rules_weigh(rules: list[dict[str, str]], is_large: bool) -> None:
    schema = {"type": "object", "x-kubernetes-validations": rules}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    text = orjson.dumps({"spec": {"versions": [version]}})
    assert (read_crd(text).weights()["v1"] > LARGE_SCHEMA) is is_large


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", False),
        (b'{"type":"object"}', True),
        (b'{"description":"' + b"x" * 16_300 + b'"}', True),
        (b'{"description":"' + b"x" * 16_400 + b'"}', False),
        (b'{"rule":"self.a"}' * 14, True),
        (b'{"rule":"self.a"}' * 16, False),
        (b'{"rule":"' + b"x" * 2500 + b'"}', True),
        (b'{"rule":"' + b"x" * 3500 + b'"}', False),
        (b'{"rule":"a","messageExpression":"' + b"x" * 3500 + b'"}', False),
        (b'{"rule" :"self.a"}', False),
        (b'{"r\\u0075le":"self.a"}', False),
    ],
)
def test_what_is_simple(text: bytes, expected: bool) -> None:
    """What is written on the event loop although it contains schemas."""
    assert is_simple(text) is expected


@pytest.mark.parametrize("size", [1, 2_000], ids=["small", "large"])
def test_the_resource_of_a_definition_is_read_alone(size: int) -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(size)}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "names": {"plural": "widgets"}, "versions": [version]}
    text = orjson.dumps({"metadata": {}, "spec": spec})
    assert defined_resource(text) == ("example.com", "widgets")
