"""Expressions that do much for little cost end soon; what is expensive is told beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.declared import declare, name_types
from pykcp.machinery.cel.check.environment import EXTENDED, KUBERNETES, Variable
from pykcp.machinery.cel.cost.expense import may_be_expensive
from pykcp.machinery.cel.program import compile_expression
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.cel.runtime.values import CostExceeded
from pykcp.machinery.schema.openapi_json import from_json

_TEXT = {"type": "string"}
_OBJECT = {"type": "object", "properties": {"k": _TEXT, "v": _TEXT}, "required": ["k"]}
PROPERTIES: dict[str, Any] = {
    "text": _TEXT,
    "duration": _TEXT,
    "texts": {"type": "array", "items": _TEXT},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "lists": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    "set": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    "objects": {"type": "array", "items": _OBJECT},
    "dates": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    "map": {"type": "object", "additionalProperties": _TEXT},
}
VALUE: dict[str, Any] = {
    "text": "ab" * 50_000,
    "duration": "1h" * 1_000,
    "texts": [f"item{n}" for n in range(20_000)],
    "numbers": list(range(20_000)),
    "lists": [list(range(1_000))] * 200,
    "set": [f"i{n}" for n in range(20_000)],
    "objects": [{"k": f"k{n}", "v": "v"} for n in range(5_000)],
    "dates": ["2020-01-01T00:00:00Z"] * 5_000,
    "map": {f"k{n}": "v" for n in range(20_000)},
}
_SELF = declare(from_json({"type": "object", "properties": PROPERTIES}), root=False)
assert _SELF is not None
name_types(_SELF, "selfType")
_ENV = EXTENDED.with_variables({"self": Variable(_SELF.type, _SELF)})

ENDED = [
    "self.texts.distinct().size() > 0",
    "self.texts.sort().size() > 0",
    "sets.contains(self.texts, self.texts)",
    "sets.equivalent(self.set, self.set)",
    "self.set + self.set == self.set",
    "self.texts.all(x, self.texts.indexOf('none') == -1)",
    "self.texts.all(x, self.texts.max() != '')",
    "self.texts.all(x, self.texts.isSorted() || true)",
    "self.texts.all(x, '%s'.format([self.texts]) != '')",
    "self.texts.all(x, '%.9999f'.format([1.0]) != '')",
    "self.texts.all(x, duration(self.duration) > duration('1s'))",
    "self.texts.all(x, isURL(self.text) || true)",
    "self.texts.all(x, dyn(self.objects).size() > 0)",
    "self.texts.all(x, dyn(self.dates).size() > 0)",
    "self.texts.all(x, [self.objects].size() > 0)",
    "self.texts.all(x, {'a': self.objects}.size() > 0)",
    "self.texts.all(x, (self.texts + self.texts).size() > 0)",
    "self.texts.all(x, self.lists.flatten().size() > 0)",
    "self.texts.all(x, math.greatest(self.numbers) > 0)",
    "self.texts.all(x, quantity('1e9999').add(quantity('1')).isGreaterThan(quantity('1e9998')))",
    "lists.range(1000).map(x, self.texts).flatten().size() > 0",
    "lists.range(1000).map(x, self.text + 'a').join('').size() > 0",
    "lists.range(100).map(x, self.text.replace('a', self.text)).size() > 0",
    "lists.range(2000000).size() > 0",
    "self.text.matches('(a|b)*a(a|b){900}c')",
    "self.text.findAll('a(.*c)?').size() > 0",
    "self.numbers.all(x, !self.text.matches('a{1,' + string(x % 900 + 1) + '}c[' + string(x) + ']'))",
]


@pytest.mark.parametrize("text", ENDED)
def test_much_work_for_little_cost_ends(text: str) -> None:
    """Each of them would take from half a minute to hours."""
    program = compile_expression(text, _ENV)
    _, failure, _ = program.tracked({"self": VALUE})
    assert isinstance(failure, CostExceeded)
    assert str(failure) == "operation cancelled: actual cost limit exceeded"


DONE = [
    ("self.set == self.set", True),
    ("self.texts == self.texts", True),
    ("self.texts.max() == 'item9999'", True),
    ("self.numbers.sum() == 199990000", True),
    ("self.map.all(k, self.map[k] == 'v')", True),
    ("dyn(self.objects).all(o, o.v == 'v')", True),
    ("!self.text.matches('^(a?){27}a{27}$')", True),
    ("self.text.findAll('[b]').size() == 50000", True),
]


@pytest.mark.parametrize(("text", "expected"), DONE)
def test_ordinary_expressions_on_large_values(text: str, expected: bool) -> None:
    program = compile_expression(text, _ENV)
    value, failure, _ = program.tracked({"self": VALUE})
    assert (value, failure) == (expected, None)
    assert program.evaluate({"self": VALUE}) is expected


def test_work_is_shared_by_all_rules_of_an_object() -> None:
    rules = [{"rule": f"{n} >= 0 && self.texts.max() != ''"} for n in range(100)]
    schema = {"type": "object", "properties": PROPERTIES, "x-kubernetes-validations": rules}
    found = SchemaRules(from_json({"type": "object", "properties": {"spec": schema}}))
    (error,) = found.validate({"spec": VALUE})
    assert "call cost exceeds limit for rule" in error.text()


def rule_set(rule: str) -> SchemaRules:
    spec = {
        "type": "object",
        "properties": PROPERTIES,
        "x-kubernetes-validations": [{"rule": rule}],
    }
    return SchemaRules(from_json({"type": "object", "properties": {"spec": spec}}))


EXPENSIVE = [
    ("self.text != ''", 3 << 20, False),
    ("self.texts.all(x, x != '')", 4 << 10, False),
    ("self.texts.all(x, x != '')", 3 << 20, True),
    ("self.texts.all(x, self.texts.exists(y, y == x))", 4 << 10, True),
    ("self.objects == oldSelf.objects", 2 << 10, False),
    ("self.objects == oldSelf.objects", 3 << 20, True),
    ("duration(self.text) > duration('1s')", 3 << 20, True),
    ("self.text.matches('^a+$')", 1 << 10, False),
    ("self.text.matches('^a+$')", 3 << 20, True),
]


@pytest.mark.parametrize(("rule", "size", "expected"), EXPENSIVE)
def test_what_may_be_expensive(rule: str, size: int, expected: bool) -> None:
    assert may_be_expensive(rule_set(rule), size) is expected


def test_policies_may_be_expensive_too() -> None:
    env = KUBERNETES.with_variables({"object": Variable(types.DYN)})
    cheap = compile_expression("object.spec.replicas <= 5", env)
    loop = compile_expression("object.spec.containers.all(c, c.image.startsWith('x'))", env)
    assert may_be_expensive(cheap, 3 << 20) is False
    assert may_be_expensive(loop, 1 << 10) is False
    assert may_be_expensive(loop, 3 << 20) is True
    assert may_be_expensive(SchemaRules(from_json({"type": "object"})), 3 << 20) is False
