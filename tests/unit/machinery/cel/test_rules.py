"""Rules of a schema on objects: violations, messages, transitions, ratcheting, budgets."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from pykcp.machinery.cel.rules.schema_rules import OBJECT_BUDGET, SchemaRules
from pykcp.machinery.schema.openapi_json import from_json


def rule_set(spec: dict[str, Any], **root: Any) -> SchemaRules:
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}, **root}
    return SchemaRules(from_json(schema))


def rules(*texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": t, **more} for t in texts]


def obj(spec: Any, name: str = "x") -> dict[str, Any]:
    return {"apiVersion": "e/v1", "kind": "K", "metadata": {"name": name}, "spec": spec}


def texts(found: SchemaRules, new: Any, old: Any = None, **more: Any) -> list[str]:
    return [e.text() for e in found.validate(new, old, **more)]


PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}


def on_pair(**rule: Any) -> SchemaRules:
    return rule_set({**PAIR, "x-kubernetes-validations": [rule]})


def test_rule_that_holds_says_nothing() -> None:
    assert texts(on_pair(rule="self.a > 1"), obj({"a": 2})) == []


def test_schema_without_rules_is_empty() -> None:
    empty = rule_set(PAIR)
    assert not empty
    assert texts(empty, obj({"a": 1})) == []


VIOLATIONS = [
    ({"rule": "self.a > 5"}, "spec: Invalid value: failed rule: self.a > 5"),
    ({"rule": "self.a > 5", "message": " too small "}, "spec: Invalid value: too small"),
    (
        {"rule": "self.a > 5", "messageExpression": "'got ' + string(self.a)"},
        "spec: Invalid value: got 3",
    ),
    (
        {"rule": "self.a > 5", "message": "m", "messageExpression": "string(1 / (self.a - 3))"},
        "spec: Invalid value: m",
    ),
    (
        {"rule": "self.a > 5", "message": "m", "messageExpression": "'  '"},
        "spec: Invalid value: m",
    ),
    (
        {"rule": "self.a > 5", "message": "m", "messageExpression": "'a\\nb'"},
        "spec: Invalid value: m",
    ),
    (
        {
            "rule": "self.a > 5",
            "message": "m",
            "messageExpression": "lists.range(600).map(x, '0123456789').join()",
        },
        "spec: Invalid value: m",
    ),
    ({"rule": "false", "reason": "FieldValueForbidden"}, "spec: Forbidden: failed rule: false"),
    ({"rule": "false", "reason": "FieldValueRequired"}, "spec: Required value: failed rule: false"),
    ({"rule": "false", "reason": "FieldValueDuplicate", "message": "m"}, "spec: Duplicate value"),
    ({"rule": "false", "fieldPath": ".a"}, "spec.a: Invalid value: failed rule: false"),
    (
        {"rule": "self.zz == 1"},
        (
            'spec: Invalid value: "object": rule compile error: compilation failed: '
            "ERROR: <input>:1:5: undefined field 'zz'\n | self.zz == 1\n | ....^"
        ),
    ),
    (
        {"rule": "self.b == 'x'"},
        "spec: Invalid value: \"object\": no such key: b evaluating rule: self.b == 'x'",
    ),
    (
        {"rule": "self.a / 0 == 1", "message": "m"},
        'spec: Invalid value: "object": division by zero evaluating rule: m',
    ),
    (
        {"rule": "dyn(self.a) + 'x' == 'y'"},
        (
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a "
            "supported operator, function or macro signature for rule: dyn(self.a) + 'x' == 'y'"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "text"), VIOLATIONS)
def test_violation(rule: dict[str, Any], text: str) -> None:
    assert texts(on_pair(**rule), obj({"a": 3})) == [text]


def test_scalars_are_shown_and_null_is_left_alone() -> None:
    found = rule_set(
        {
            "type": "object",
            "properties": {
                "s": {"type": "string", "nullable": True, "x-kubernetes-validations": rules("self == 'x'")},
                "n": {"type": "number", "x-kubernetes-validations": rules("self / 2.0 > 1.0")},
                "d": {
                    "type": "string",
                    "format": "date-time",
                    "x-kubernetes-validations": rules("self.getFullYear() == 2020"),
                },
            },
        }
    )  # fmt: skip
    assert texts(found, obj({"s": "y", "n": 1, "d": "2021-01-01T00:00:00Z"})) == [
        "spec.s: Invalid value: \"y\": failed rule: self == 'x'",
        "spec.n: Invalid value: 1: failed rule: self / 2.0 > 1.0",
        'spec.d: Invalid value: "2021-01-01T00:00:00Z": failed rule: self.getFullYear() == 2020',
    ]
    assert texts(found, obj({"s": None, "n": 4})) == []


def test_paths_through_lists_and_maps() -> None:
    positive = {"type": "integer", "x-kubernetes-validations": rules("self > 0")}
    found = rule_set(
        {
            "type": "object",
            "properties": {
                "l": {"type": "array", "items": positive},
                "m": {"type": "object", "additionalProperties": positive},
            },
        }
    )
    assert [e.path for e in found.validate(obj({"l": [1, 0], "m": {"k": -1}}))] == [
        "spec.l[1]",
        "spec.m[k]",
    ]


def test_root_sees_the_names_of_the_object() -> None:
    found = rule_set(PAIR, **{"x-kubernetes-validations": rules("self.metadata.name == 'x'")})
    assert texts(found, obj({})) == []
    assert texts(found, obj({}, name="y")) == [
        "<nil>: Invalid value: failed rule: self.metadata.name == 'x'"
    ]


def test_rules_of_all_of_see_the_type_around_them() -> None:
    spec = {**PAIR, "allOf": [{"x-kubernetes-validations": rules("self.a > 1")}]}
    assert len(texts(rule_set(spec), obj({"a": 1}))) == 1
    assert texts(rule_set(spec), obj({"a": 2})) == []


class TestTransitions:
    GROW: ClassVar[dict[str, Any]] = {
        "type": "integer",
        "x-kubernetes-validations": rules("self >= oldSelf"),
    }

    def test_only_run_when_there_is_an_old_value(self) -> None:
        found = rule_set({"type": "object", "properties": {"n": self.GROW}})
        assert found.uses_old
        assert texts(found, obj({"n": 1})) == []
        assert texts(found, obj({"n": 1}), obj({})) == []
        assert len(texts(found, obj({"n": 1}), obj({"n": 2}))) == 1

    def test_items_follow_those_with_the_same_keys(self) -> None:
        item = {
            "type": "object",
            "properties": {"k": {"type": "string"}, "v": self.GROW},
            "required": ["k"],
        }
        keyed = {
            "type": "array",
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        }
        found = rule_set({"type": "object", "properties": {"l": keyed}})
        old = obj({"l": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]})
        new = obj({"l": [{"k": "b", "v": 1}, {"k": "c", "v": 0}, {"k": "a", "v": 4}]})
        assert [e.path for e in found.validate(new, old)] == ["spec.l[2].v"]

    def test_optional_old_self(self) -> None:
        rule = {
            "rule": "oldSelf.hasValue() ? self > oldSelf.value() : self == 1",
            "optionalOldSelf": True,
            "messageExpression": "'not ' + string(self)",
        }
        found = rule_set(
            {
                "type": "object",
                "properties": {"n": {"type": "integer", "x-kubernetes-validations": [rule]}},
            }
        )
        assert texts(found, obj({"n": 2})) == ["spec.n: Invalid value: 2: not 2"]
        assert texts(found, obj({"n": 1})) == []
        assert texts(found, obj({"n": 2}), obj({"n": 1})) == []
        assert len(texts(found, obj({"n": 1}), obj({"n": 1}))) == 1

    def test_message_may_mention_the_old_value(self) -> None:
        found = on_pair(rule="self.a >= oldSelf.a", messageExpression="'was ' + string(oldSelf.a)")
        assert texts(found, obj({"a": 1}), obj({"a": 2})) == ["spec: Invalid value: was 2"]


class TestRatcheting:
    LIST: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "items": {"type": "integer", "x-kubernetes-validations": rules("self > 0")},
            },
            "other": {"type": "integer"},
        },
    }

    def test_what_did_not_change_is_only_warned_about(self) -> None:
        found = rule_set(self.LIST)
        warnings: list[str] = []
        errors = found.validate(
            obj({"l": [0], "other": 2}), obj({"l": [0], "other": 1}), warnings=warnings
        )
        assert errors == []
        assert warnings == ["spec.l[0]: Invalid value: 0: failed rule: self > 0"]

    def test_what_changed_is_not_spared(self) -> None:
        found = rule_set(self.LIST)
        assert len(texts(found, obj({"l": [0, 1]}), obj({"l": [0]}))) == 1
        assert len(texts(found, obj({"l": [0]}), obj({"l": [0]}), ratchet=False)) == 1
        assert len(texts(found, obj({"l": [0]}))) == 1

    def test_transition_rules_are_never_spared(self) -> None:
        found = on_pair(rule="self.a > oldSelf.a")
        assert len(texts(found, obj({"a": 1}), obj({"a": 1}))) == 1


class TestBudget:
    SQUARE: ClassVar[dict[str, Any]] = {
        "type": "array",
        "items": {"type": "integer"},
        "x-kubernetes-validations": rules("self.all(a, self.all(b, a + b >= 0))"),
    }

    def spec(self, count: int) -> SchemaRules:
        names = [f"s{i}" for i in range(count)]
        return rule_set({"type": "object", "properties": dict.fromkeys(names, self.SQUARE)})

    def test_one_call_too_expensive(self) -> None:
        assert texts(self.spec(1), obj({"s0": list(range(400))})) == [
            (
                "spec.s0: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': "
                "no further validation rules will be run due to call cost exceeds limit for rule: "
                "self.all(a, self.all(b, a + b >= 0))"
            )
        ]

    def test_all_calls_together_too_expensive(self) -> None:
        value = obj({f"s{i}": list(range(300)) for i in range(20)})
        found = texts(self.spec(20), value)
        assert found == [
            (
                'spec.s15: Invalid value: "array": validation failed due to running out of cost '
                "budget, no further validation rules will be run"
            )
        ]

    def test_small_objects_are_not_counted(self) -> None:
        found = self.spec(1)
        assert texts(found, obj({"s0": [1, 2, 3]})) == []
        assert found.most_cost(3 << 20) > OBJECT_BUDGET
        assert any(cost <= OBJECT_BUDGET for cost in found._most.values())

    def test_counting_does_not_change_the_answer(self) -> None:
        found, value = self.spec(1), obj({"s0": [-1, 0]})
        assert texts(found, value) == texts(found, value, limit=999_999)


def test_wrong_data_is_an_error_and_no_crash() -> None:
    found = on_pair(rule="self.b.startsWith('a') && self.a > 1")
    (text,) = texts(found, obj({"a": "text", "b": 5}))
    assert "evaluating rule" in text
