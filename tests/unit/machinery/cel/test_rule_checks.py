"""Rules at the door of a CRD: which are refused, where and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.cel.rules.rule_checks import check_rules, cost_message
from pykcp.machinery.schema.openapi_json import from_json

AT = "spec.versions[0].schema.openAPIV3Schema"
ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)


def check(spec: dict[str, Any]) -> list[str]:
    schema = from_json({"type": "object", "properties": {"spec": spec}})
    return [e.text().removeprefix(f"{AT}.properties[spec].") for e in check_rules(schema, AT)]


def one(**rule: Any) -> list[str]:
    properties = {
        "a": {"type": "integer"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    return check({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]})


def test_long_rules_are_refused_together() -> None:
    rules = [{"rule": f"self.a != {n} || " + "true || " * 1000 + "true"} for n in range(200)]
    properties = {"a": {"type": "integer"}}
    found = check({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
    why = "expressions of all validation rules must have at most 1000000 characters"
    assert found == [f"{AT}: Forbidden: {why}"]


def test_thousands_of_rules() -> None:
    rules = [{"rule": f"self.a != {n}"} for n in range(3000)]
    properties = {"a": {"type": "integer"}}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    assert check(spec) == []


FIELDS = [
    ({"rule": " "}, "rule: Required value: rule is not specified"),
    ({"message": "m"}, "rule: Required value: rule is not specified"),
    ({"rule": "true", "message": " "}, 'message: Invalid value: " ": must be non-empty if specified'),
    ({"rule": "true", "message": "a\nb"}, 'message: Invalid value: "a\\nb": must not contain line breaks'),
    ({"rule": "true\n|| false"}, "message: Required value: message must be specified if rule contains line breaks"),
    ({"rule": "true", "messageExpression": " "}, "messageExpression: Required value: messageExpression must be non-empty if specified"),
    ({"rule": "true", "reason": "Nope"}, 'reason: Unsupported value: "Nope": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'),
    ({"rule": "true", "fieldPath": ".zz"}, 'fieldPath: Invalid value: ".zz": must be a valid path'),
    ({"rule": "true", "fieldPath": "a"}, 'fieldPath: Invalid value: "a": must be a valid path'),
    ({"rule": "true", "fieldPath": ".a[0]"}, 'fieldPath: Invalid value: ".a[0]": must be a valid path'),
    ({"rule": "true", "optionalOldSelf": True}, "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), FIELDS)
def test_fields_of_a_rule(rule: dict[str, Any], text: str) -> None:
    assert one(**rule) == [f"x-kubernetes-validations[0].{text}"]


GOOD: list[dict[str, Any]] = [
    {"rule": "self.a > 1"},
    {"rule": "true\n|| false", "message": "m"},
    {"rule": "true", "fieldPath": ".m['k']"},
    {"rule": "true", "fieldPath": ".m.k"},
    {"rule": "true", "fieldPath": "['a']"},
    {"rule": "self.a > oldSelf.a", "optionalOldSelf": False},
    {"rule": "!oldSelf.hasValue()", "optionalOldSelf": True},
    {"rule": "true", "reason": "FieldValueRequired", "messageExpression": "'x' + 'y'"},
]


@pytest.mark.parametrize("rule", GOOD)
def test_good_rules(rule: dict[str, Any]) -> None:
    assert one(**rule) == []


def refused(text: str, message: str = "", expression: str = "") -> str:
    return (
        f'{{"Rule":"{text}","Message":"{message}","MessageExpression":"{expression}",'
        '"Reason":null,"FieldPath":"","OptionalOldSelf":null}'
    )


def test_rule_that_does_not_compile() -> None:
    shown = refused("self.zz \\u003c 1")
    assert one(rule="self.zz < 1") == [
        (
            f"x-kubernetes-validations[0].rule: Invalid value: {shown}: "
            "compilation failed: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz < 1\n | ....^"
        )
    ]


def test_rule_of_the_wrong_type() -> None:
    assert one(rule="self.a") == [
        (
            f"x-kubernetes-validations[0].rule: Invalid value: {refused('self.a')}: "
            "cel expression must evaluate to a bool"
        )
    ]


def test_rule_without_a_program() -> None:
    shown = refused("int('x') == 1")
    assert one(rule="int('x') == 1") == [
        (
            f"x-kubernetes-validations[0].rule: Invalid value: {shown}: "
            "program instantiation failed: type conversion error from 'string' to 'int'"
        )
    ]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1", "messageExpression must evaluate to a string"),
        (
            "zz",
            (
                "messageExpression compilation failed: ERROR: <input>:1:1: undeclared reference to "
                "'zz' (in container '')\n | zz\n | ^"
            ),
        ),
    ],
)
def test_message_expression(expression: str, why: str) -> None:
    shown = refused("true", expression=expression)
    assert one(rule="true", messageExpression=expression) == [
        f"x-kubernetes-validations[0].messageExpression: Invalid value: {shown}: {why}"
    ]


def on(kind: str, *rules: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more, "x-kubernetes-validations": [{"rule": r} for r in rules]}


def test_rule_that_is_too_expensive() -> None:
    quadratic = on("array", "self.all(x, self.all(y, x == y))", items={"type": "string"})
    assert check(quadratic) == [
        (
            "x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by "
            f"factor of more than 100x {ADVICE}"
        ),
        (
            "x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total "
            "exceeding cost limit for entire OpenAPIv3 schema"
        ),
        (
            f"{AT}: Forbidden: x-kubernetes-validations estimated rule cost total for entire "
            f"OpenAPIv3 schema exceeds budget by factor of more than 100x {ADVICE}"
        ),
    ]


def test_bounds_make_it_affordable() -> None:
    items = {"type": "string", "maxLength": 10}
    rule = "self.all(x, self.all(y, x == y))"
    assert check(on("array", rule, maxItems=100, items=items)) == []


def test_cost_counts_for_every_place_in_a_list() -> None:
    inner = on("string", "self.matches('a.*b')")
    assert check(inner) == []
    assert "estimated rule cost" in check({"type": "array", "items": inner})[0]
    bounded = on("string", "self.matches('a.*b')", maxLength=50)
    assert check({"type": "array", "maxItems": 100, "items": bounded}) == []


def test_many_cheap_rules_are_too_expensive_together() -> None:
    items = on("string", *["self.contains('x')"] * 20, maxLength=100)
    found = check({"type": "array", "maxItems": 150_000, "items": items})
    assert len(found) == 5
    assert found[-1].startswith(f"{AT}: Forbidden: x-kubernetes-validations estimated rule cost")


@pytest.mark.parametrize(
    ("cost", "shown"),
    [(11, "1.100000x"), (15, "1.5x"), (1000, "100.0x"), (1001, "more than 100x")],
)
def test_factor(cost: int, shown: str) -> None:
    assert cost_message("c", cost, 10) == f"c exceeds budget by factor of {shown} {ADVICE}"


def test_old_values_need_lists_with_keys() -> None:
    item = on("object", "self.v == oldSelf.v", properties={"k": {"type": "string"}, "v": {"type": "integer"}})  # fmt: skip
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    assert check({"type": "array", "maxItems": 9, "items": item, **keyed}) == []
    assert check({"type": "array", "maxItems": 9, "items": item}) == [
        (
            'items.x-kubernetes-validations[0].rule: Invalid value: "self.v == oldSelf.v": oldSelf '
            "cannot be used on the uncorrelatable portion of the schema within "
            f"{AT}.properties[spec]"
        )
    ]


def test_types_that_cel_cannot_see() -> None:
    spec = {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "self == 1"}]}  # fmt: skip
    assert check(spec) == [
        (
            "x-kubernetes-validations: Internal error: internal error: failed to construct type "
            "information for x-kubernetes-validations rules: unable to convert structural schema to "
            "CEL declarations"
        )
    ]


def test_a_broken_rule_below_silences_those_above() -> None:
    spec = on("object", "self.zz", properties={"a": on("string", " ")})
    assert check(spec) == [
        "properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
    ]


def test_nodes_that_are_invalid_otherwise_are_left_alone() -> None:
    schema = from_json({"type": "object", "properties": {"spec": on("string", "self.zz")}})
    assert check_rules(schema, AT, invalid_nodes={id(schema.properties["spec"])}) == []
