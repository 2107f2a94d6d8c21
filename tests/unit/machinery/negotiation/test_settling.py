"""A common schema is one that a server accepts: defaults that fit, rules that compile."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.negotiation.findings import Findings, Severity
from pykcp.machinery.negotiation.meet import ROOT, meet
from pykcp.machinery.negotiation.settling import settled
from pykcp.types import Object

RULES = "x-kubernetes-validations"
PRESERVE = "x-kubernetes-preserve-unknown-fields"


def obj(**properties: Object) -> Object:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def with_rule(schema: Object, rule: str) -> Object:
    spec = {**schema["properties"]["spec"], RULES: [{"rule": rule}]}
    return {**schema, "properties": {"spec": spec}}


A: Object = {"type": "string", "maxLength": 5}
AB = obj(a=A, b=A)
PART: Object = {"type": "object", "properties": {"x": {"type": "string"}}}
DEFAULTED: Object = {
    "type": "object",
    "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
    "default": {"x": "1", "y": "2"},
}
CASES: dict[str, tuple[Object, Object, Any, str]] = {
    # name: both, the default of the field "a" that is left, a conflict
    "nothing to settle": (AB, obj(a=A), None, ""),
    "a default that fits": (
        obj(a={"type": "string", "default": "x"}), obj(a=A), "x", ""
    ),
    "a default that is no value any more": (
        obj(a={"type": "string", "enum": ["New", "Old"], "default": "New"}),
        obj(a={"type": "string", "enum": ["Old"]}),
        None,
        "",
    ),
    "a default that is too long": (
        obj(a={"type": "string", "default": "abcdefgh"}), obj(a=A), None, ""
    ),
    "a default with a property that is removed": (obj(a=DEFAULTED), obj(a=PART), None, ""),
    "a rule about a property that is removed": (
        with_rule(AB, "!has(self.b) || self.a != self.b"),
        obj(a=A),
        None,
        "undefined field 'b'",
    ),
    "a rule about what is left": (with_rule(AB, "self.a != 'x'"), obj(a=A), None, ""),
}  # fmt: skip


@pytest.mark.parametrize(("left", "right", "default", "conflict"), CASES.values(), ids=CASES)
def test_what_is_left_of_defaults_and_rules(
    left: Object, right: Object, default: Any, conflict: str
) -> None:
    for one, two in ((left, right), (right, left)):
        met = meet(one, two)
        assert met.is_possible, met.findings
        at = Findings(ROOT)
        found = settled(met.schema, at)
        field = found["properties"]["spec"]["properties"]["a"]
        assert field.get("default") == default
        given = [f for f in at.found if f.severity is Severity.CONFLICT]
        assert [conflict in str(f) for f in given] == ([True] if conflict else [])
        for finding in given:
            assert finding.path.startswith(f"{ROOT}.properties[spec].{RULES}[0].rule")
        removed = [f for f in at.found if f.severity is Severity.WARNING]
        was_there = any(
            "default" in side["properties"]["spec"]["properties"]["a"] for side in (left, right)
        )
        assert bool(removed) is (was_there and default is None)
