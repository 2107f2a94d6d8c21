"""Type checking of policies: warnings for the kinds that their rules name."""

from __future__ import annotations

from typing import Any

from pykcp.admission.typechecking import CheckedKind, kinds_to_check, status_of, type_warnings
from pykcp.machinery.schema.model import Schema
from pykcp.steps import at_once

DEPLOYMENT = CheckedKind("apps", "v1", "Deployment")
CONFIG_MAP = CheckedKind("", "v1", "ConfigMap")
KINDS = {("apps", "v1", "deployments"): DEPLOYMENT, ("", "v1", "configmaps"): CONFIG_MAP}
_TEXT = Schema(type="string")
SCHEMAS = {
    DEPLOYMENT: Schema(
        type="object",
        properties={
            "spec": Schema(type="object", properties={"replicas": Schema(type="integer")}),
        },
    ),
    CONFIG_MAP: Schema(type="object", properties={"data": Schema(type="object", additional=_TEXT)}),
}


def _find(group: str, version: str, resource: str) -> CheckedKind | None:
    return KINDS.get((group, version, resource))


def _policy(expression: str, *rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    named = rules or (_rule("apps", "deployments"),)
    body = {
        "matchConstraints": {"resourceRules": list(named)},
        "validations": [{"expression": expression}],
        **spec,
    }
    return {"metadata": {"name": "p", "generation": 3}, "spec": body}


def _rule(group: str, *resources: str, version: str = "v1") -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": list(resources)}


def _warnings(policy: dict[str, Any]) -> list[Any]:
    return at_once(type_warnings(policy, _find, SCHEMAS.get))


def test_a_sound_policy_has_no_warnings() -> None:
    policy = _policy("object.spec.replicas < 5 && object.metadata.name != ''")
    assert at_once(status_of(policy, _find, SCHEMAS.get)) == {
        "observedGeneration": 3,
        "typeChecking": {},
    }


def test_fields_and_types_are_checked() -> None:
    (missing,) = _warnings(_policy("object.spec.replica < 5"))
    assert missing["fieldRef"] == "spec.validations[0].expression"
    assert missing["warning"] == (
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n"
        " | object.spec.replica < 5\n"
        " | ...........^\n"
    )
    (mistyped,) = _warnings(_policy("object.spec.replicas == 'x'"))
    assert "found no matching overload for '_==_' applied to '(int, string)'" in mistyped["warning"]


def test_each_kind_has_its_say() -> None:
    rules = _rule("apps", "deployments"), _rule("", "configmaps")
    (warning,) = _warnings(_policy("object.spec.replicas > object.data.size()", *rules))
    first, second = warning["warning"].split("\n\n")
    assert first.startswith("/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'spec'")
    assert second.startswith(
        "apps/v1, Kind=Deployment: ERROR: <input>:1:30: undefined field 'data'"
    )


def test_variables_and_parameters_have_types() -> None:
    variables = [{"name": "r", "expression": "object.spec.replicas"}]
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    sound = _policy("variables.r < int(params.data['max'])", variables=variables, paramKind=kind)
    assert _warnings(sound) == []
    (bad,) = _warnings(_policy("variables.r == params.spec", variables=variables, paramKind=kind))
    assert "undefined field 'spec'" in bad["warning"]


def test_wildcards_and_subresources_name_no_kind() -> None:
    def kinds(*rules: dict[str, Any]) -> list[CheckedKind]:
        return kinds_to_check(_policy("true", *rules)["spec"], _find)

    assert kinds(_rule("*", "deployments")) == []
    assert kinds(_rule("apps", "deployments", version="*")) == []
    assert kinds(_rule("apps", "*", "deployments/status")) == []
    assert kinds(_rule("apps", "*", "deployments"), _rule("", "configmaps")) == [
        CONFIG_MAP,
        DEPLOYMENT,
    ]
