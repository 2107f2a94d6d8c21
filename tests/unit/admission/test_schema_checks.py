"""Defaults and rules of a CRD's schema."""

from __future__ import annotations

from pykcp.admission.schema_checks import SCHEMA_CHECKS


def test_defaults_must_fit_their_schema() -> None:
    schema = {"type": "string", "maxLength": 2, "default": "abc"}
    (error,) = SCHEMA_CHECKS.value(schema, "abc", "x.default")
    assert error.text() == "x.default: Too long: may not be more than 2 bytes"
    assert SCHEMA_CHECKS.value(schema, "ab", "x.default") == []
    (mistyped,) = SCHEMA_CHECKS.value({"type": "integer"}, "a", "x.default")
    assert mistyped.path == "x.default"


def test_defaults_must_satisfy_their_rules() -> None:
    rules = [{"rule": "self.startsWith('a')", "message": "begin with a"}]
    schema = {"type": "string", "x-kubernetes-validations": rules}
    assert SCHEMA_CHECKS.value(schema, "ab", "x.default") == []
    (error,) = SCHEMA_CHECKS.value(schema, "b", "x.default")
    assert "begin with a" in error.text()


def test_rules_must_compile_unless_nothing_changed() -> None:
    rules = [{"rule": "self.nope == 1"}]
    schema = {"type": "object", "x-kubernetes-validations": rules}
    (error,) = SCHEMA_CHECKS.rules(schema, "s", stored=frozenset(), unchanged=False)
    assert error.path == "s.x-kubernetes-validations[0].rule"
    assert "undefined field 'nope'" in error.text()
    assert SCHEMA_CHECKS.rules(schema, "s", stored=frozenset(), unchanged=True) == []


def test_the_form_of_rules_is_not_judged_twice() -> None:
    rules = [{"rule": "", "reason": "Nope"}]
    schema = {"type": "object", "x-kubernetes-validations": rules}
    assert SCHEMA_CHECKS.rules(schema, "s", stored=frozenset(), unchanged=False) == []
