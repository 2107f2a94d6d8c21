"""Whatever is written as an expression: a program, or a complaint. Never a crash."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.machinery.cel.check.constants import ProgramError
from pykcp.machinery.cel.check.declared import declare, name_types
from pykcp.machinery.cel.check.environment import EXTENDED, Variable
from pykcp.machinery.cel.front.escaping import escape, unescape
from pykcp.machinery.cel.front.source import CompileError
from pykcp.machinery.cel.program import compile_expression
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.cel.runtime.values import CostExceeded, EvalError
from pykcp.machinery.schema.openapi_json import from_json

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "t": {"type": "string", "format": "date-time"},
        "x": {"x-kubernetes-int-or-string": True},
    },
}
_VALUE = {"s": "abc", "i": 3, "l": ["a", "b"], "m": {"k": 1}, "t": "2020-01-01T00:00:00Z", "x": "1"}
_SELF = declare(from_json(_SCHEMA), root=False)
assert _SELF is not None
name_types(_SELF, "selfType")
_ENV = EXTENDED.with_variables({"self": Variable(_SELF.type, _SELF)})

_PIECES = st.sampled_from(
    [
        "self",
        "self.s",
        "self.i",
        "self.l",
        "self.m",
        "self.t",
        "self.x",
        ".",
        ".?",
        "?",
        ":",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "!",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "<=",
        "in",
        "true",
        "false",
        "null",
        "1",
        "2u",
        "1.5",
        "'a'",
        "b'a'",
        "x",
        "y",
        "has",
        "size",
        "all",
        "exists",
        "map",
        "filter",
        "matches",
        "contains",
        "string",
        "int",
        "duration",
        "timestamp",
        "optional",
        "of",
        "none",
        "orValue",
        "hasValue",
        "cel",
        "bind",
        "dyn",
        "type",
        "quantity",
        "ip",
        "cidr",
        "url",
        "semver",
        "format",
        "sort",
        "sortBy",
        "join",
        "split",
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("silmtx"), inner, max_size=4)
    ),
    max_leaves=8,
)


def try_out(text: str) -> None:
    try:
        program = compile_expression(text, _ENV)
    except (CompileError, ProgramError):
        return
    estimate = program.estimate(_SELF)
    assert estimate.least >= 0
    assert 0 <= estimate.most < 2**64
    _, failure, cost = program.tracked({"self": _VALUE}, 10_000)
    if isinstance(failure, CostExceeded):
        return
    assert cost >= 0
    if failure is None:
        program.evaluate({"self": _VALUE})
        return
    with pytest.raises(EvalError):
        program.evaluate({"self": _VALUE})


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    try_out(text)


@settings(max_examples=600, deadline=None)
@given(st.lists(_PIECES, max_size=14))
def test_any_tokens(pieces: list[str]) -> None:
    try_out(" ".join(pieces))
    try_out("".join(pieces))


_EXPRESSIONS = [
    "self.s + 'x'", "self.i / 2 > 1", "self.l.all(e, e.size() > 0)", "self.m.all(k, self.m[k] > 0)",
    "self.t > timestamp('2000-01-01T00:00:00Z')", "self.x == 1", "self.l.sort() == self.l",
    "self.l.map(e, {'k': e})[0].k == 'a'", "self.?s.orValue('').matches('a')", "dyn(self) == self",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(_EXPRESSIONS), _JSON)
def test_any_value(text: str, value: Any) -> None:
    program = compile_expression(text, _ENV)
    with contextlib.suppress(EvalError):
        program.evaluate({"self": value})
    program.tracked({"self": value}, 10_000)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(_EXPRESSIONS), min_size=1, max_size=3), _JSON, _JSON)
def test_any_object_under_rules(texts: list[str], new: Any, old: Any) -> None:
    schema = {**_SCHEMA, "x-kubernetes-validations": [{"rule": t} for t in texts]}
    found = SchemaRules(from_json(schema), root=False)
    for error in found.validate(new, old):
        assert error.text()


@given(st.text(alphabet="ab_-./7", max_size=8))
def test_escaping_can_be_undone(name: str) -> None:
    identifier = escape(name)
    if identifier is not None:
        assert unescape(identifier) == name


def test_nesting_is_limited_and_does_not_break_the_compiler() -> None:
    for depth in (10, 60, 120, 200, 300, 3000):
        try_out("(" * depth + "1" + ")" * depth)
        try_out("self.l.all(x, " * depth + "true" + ")" * depth)
        try_out("(self.i > 1 || " * depth + "true" + ")" * depth)
        try_out("(" * depth + "self.i > 1" + " && self.i / 0 == 1)" * depth)
        try_out("self.i > 1 ? 1 : " * depth + "2")
        try_out("[" * depth + "self.i" + "]" * depth)
        try_out("-(" * depth + "self.i" + ")" * depth)
        try_out(" + ".join(["self.s"] * depth))
        try_out(" || ".join(["self.s == 'x'"] * depth))
        try_out("self.m" + "[?'k'].m" * depth)
