"""What the tables of expressions are evaluated with, and how their results are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.machinery.cel.check.constants import ProgramError
from pykcp.machinery.cel.check.declared import declare, name_types
from pykcp.machinery.cel.check.environment import EXTENDED, KUBERNETES, Environment, Variable
from pykcp.machinery.cel.front.source import CompileError
from pykcp.machinery.cel.library.times import duration_text, timestamp_text
from pykcp.machinery.cel.program import compile_expression
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.numbers import format_double
from pykcp.machinery.cel.runtime.values import EvalError, Optional, key_value
from pykcp.machinery.schema.openapi_json import from_json

_TEXT = {"type": "string", "maxLength": 60}
_KEYED = {
    "type": "array",
    "maxItems": 6,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {
        "type": "object",
        "required": ["k"],
        "properties": {"k": _TEXT, "v": {"type": "integer"}},
    },
}
PROPERTIES: dict[str, Any] = {
    "s": _TEXT,
    "s2": _TEXT,
    "i": {"type": "integer"},
    "j": {"type": "integer"},
    "d": {"type": "number"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "maxItems": 6, "items": _TEXT},
    "li": {"type": "array", "maxItems": 6, "items": {"type": "integer"}},
    "ld": {"type": "array", "maxItems": 6, "items": {"type": "number"}},
    "set": {"type": "array", "maxItems": 6, "items": _TEXT, "x-kubernetes-list-type": "set"},
    "lm": _KEYED,
    "m": {"type": "object", "maxProperties": 6, "additionalProperties": _TEXT},
    "o": {"type": "object", "properties": {"a": _TEXT, "n": {"type": "integer"}}},
    "dt": {"type": "string", "format": "date-time", "maxLength": 40},
    "date": {"type": "string", "format": "date", "maxLength": 20},
    "du": {"type": "string", "format": "duration", "maxLength": 20},
    "by": {"type": "string", "format": "byte", "maxLength": 40},
    "is": {"x-kubernetes-int-or-string": True, "maxLength": 20},
    "nul": {"type": "string", "nullable": True, "maxLength": 10},
    "e": {"type": "string", "enum": ["x", "y"]},
    "opt": _TEXT,
    "namespace": _TEXT,
    "x-y": _TEXT,
    "for": _TEXT,
    "a__b": _TEXT,
    "a.b": _TEXT,
}
VALUE: dict[str, Any] = {
    "s": "Hello World",
    "s2": "wor",
    "i": 7,
    "j": -3,
    "d": 2.5,
    "b": True,
    "l": ["a", "b", "c"],
    "li": [3, 1, 2],
    "ld": [1.5, 0.5],
    "set": ["p", "q"],
    "lm": [{"k": "one", "v": 1}, {"k": "two", "v": 2}],
    "m": {"k1": "v1", "k2": "v2"},
    "o": {"a": "x", "n": 4},
    "dt": "2021-03-04T05:06:07Z",
    "date": "2021-03-04",
    "du": "1h30m",
    "by": "aGVsbG8=",
    "is": "50%",
    "nul": "n",
    "e": "x",
    "namespace": "nsv",
    "x-y": "dash",
    "for": "kw",
    "a__b": "uu",
    "a.b": "dot",
}
SELF = declare(from_json({"type": "object", "properties": PROPERTIES}), root=False)
assert SELF is not None
name_types(SELF, "selfType")
_VARIABLES = {name: Variable(SELF.type, SELF) for name in ("self", "oldSelf")}
ENVIRONMENT = KUBERNETES.with_variables(_VARIABLES)
EXTENDED_ENVIRONMENT = EXTENDED.with_variables(_VARIABLES)


def show(value: Any) -> str:
    """A value as CEL would write it."""
    match kind_of(value):
        case "string":
            return repr(str(value))
        case "bool":
            return "true" if key_value(value) else "false"
        case "null_type":
            return "null"
        case "uint":
            return f"{int(value)}u"
        case "double":
            text = format_double(value)
            return text if any(c in text for c in ".eIN") else f"{text}.0"
        case "list":
            return "[" + ", ".join(show(v) for v in value) + "]"
        case "map":
            return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
        case "google.protobuf.Timestamp":
            return f"timestamp({timestamp_text(value)!r})"
        case "google.protobuf.Duration":
            return f"duration({duration_text(value)!r})"
        case "optional_type":
            assert isinstance(value, Optional)
            return f"optional.of({show(value.value)})" if value.present else "optional.none()"
        case _:
            return str(value)


def outcome(text: str, env: Environment = ENVIRONMENT) -> str:
    """What becomes of an expression: its value, type and cost, or why it has none.

    Both functions of a program are run, and must agree.
    """
    try:
        program = compile_expression(text, env)
    except CompileError as error:
        return str(error)
    except ProgramError as error:
        return f"no program: {error}"
    values = {"self": VALUE, "oldSelf": VALUE}
    estimate = program.estimate(SELF)
    value, failure, cost = program.tracked(values)
    counted = f"error: {failure}" if failure is not None else show(value)
    try:
        fast = show(program.evaluate(values))
    except EvalError as error:
        fast = f"error: {error}"
    assert fast == counted
    line = f"{program.type}, cost {estimate.least} to {estimate.most}"
    if failure is None:
        line += f", was {cost}"
    return f"{counted}\n{line}"


@pytest.fixture(scope="session", name="outcome")
def outcome_of() -> Callable[[str, bool], str]:
    return lambda text, extended: outcome(text, EXTENDED_ENVIRONMENT if extended else ENVIRONMENT)
