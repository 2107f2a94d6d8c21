"""ValidatingAdmissionPolicy: decisions, actions, parameters, what expressions see."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

ROOT = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
]  # fmt: skip


def _add(
    cluster: TestClient, validations: list[Any], binding: dict[str, Any] | None = None, **spec: Any
) -> None:
    policy = {"matchConstraints": {"resourceRules": RULES}, "validations": validations, **spec}
    made = cluster.post(
        f"{ROOT}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": policy}
    )
    assert made.status == 201, made
    bound = {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}
    made = cluster.post(
        f"{ROOT}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}
    )
    assert made.status == 201, made


def _create(cluster: TestClient, name: str = "x", data: Any = None, **query: Any) -> Any:
    return cluster.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": data or {}}, **query)


def test_an_empty_list_is_seen_as_it_was_written(cluster: TestClient) -> None:
    """It becomes null in storage, after admission."""
    rule = {
        "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["roles"],
    }  # fmt: skip
    saying = {"expression": "false", "messageExpression": "'rules: ' + string(size(object.rules))"}
    _add(cluster, [saying], matchConstraints={"resourceRules": [rule]})
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    role = {"metadata": {"name": "x"}, "rules": []}
    refused = eventually(lambda: (r := cluster.post(path, role, dryRun="All")).status == 422 and r)
    assert refused.json["message"].endswith("denied request: rules: 0")


DENIED = (
    "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
)

DECISIONS = {
    "plain": ({"expression": "false"}, 422, "Invalid", "failed expression: false"),
    "message": ({"expression": "false", "message": " no way "}, 422, "Invalid", "no way"),
    "expression": (
        {"expression": "false", "message": "m", "messageExpression": "'hello ' + object.metadata.name"},
        422, "Invalid", "hello x",
    ),
    "failing message": (
        {"expression": "false", "message": "plain", "messageExpression": "'' + object.data.zz"},
        422, "Invalid", "plain",
    ),
    "two lines": (
        {"expression": "false", "message": "plain", "messageExpression": "'a\\nb'"},
        422, "Invalid", "plain",
    ),
    "forbidden": ({"expression": "false", "reason": "Forbidden"}, 403, "Forbidden", "failed expression: false"),
    "large": (
        {"expression": "false", "reason": "RequestEntityTooLarge"}, 413, "RequestEntityTooLarge",
        "failed expression: false",
    ),
    "error": (
        {"expression": "object.data.zz == 'x'"}, 422, "Invalid",
        "expression 'object.data.zz == 'x'' resulted in error: no such key: zz",
    ),
    "request": (
        {"expression": "request.operation != 'CREATE'", "messageExpression": "request.kind.kind + string(request.dryRun)"},
        422, "Invalid", "ConfigMapfalse",
    ),
    "namespace": (
        {"expression": "namespaceObject.metadata.name != 'default'", "message": "here"},
        422, "Invalid", "here",
    ),
    "a time that is text": (
        {"expression": "namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')"},
        422, "Invalid",
        (
            "expression 'namespaceObject.metadata.creationTimestamp < "
            "timestamp('2020-01-01T00:00:00Z')' resulted in error: no such overload"
        ),
    ),
    "authorizer": (
        {"expression": "!authorizer.requestResource.check('delete').allowed()", "message": "may"},
        422, "Invalid", "may",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECISIONS)
def test_a_validation_that_does_not_hold_denies(cluster: TestClient, case: str) -> None:
    validation, code, reason, message = DECISIONS[case]
    _add(cluster, [validation])
    refused = _create(cluster, data={"a": "1"})
    assert (refused.status, refused.json["reason"]) == (code, reason)
    assert refused.json["message"] == DENIED + message
    (cause,) = refused.json["details"]["causes"]
    assert cause == {"message": DENIED.partition("forbidden: ")[2] + message}


def test_what_holds_is_admitted_at_create_and_update(cluster: TestClient) -> None:
    _add(cluster, [{"expression": "oldObject == null || object.data.a == oldObject.data.a"}])
    assert _create(cluster, data={"a": "1"}).status == 201
    assert cluster.patch(f"{CONFIG_MAPS}/x", {"data": {"b": "1"}}).status == 200
    assert cluster.patch(f"{CONFIG_MAPS}/x", {"data": {"a": "2"}}).status == 422


def test_actions_warn_without_refusing(cluster: TestClient) -> None:
    _add(
        cluster,
        [{"expression": "false", "message": "hm"}],
        {"validationActions": ["Warn", "Audit"]},
    )
    made = _create(cluster)
    assert made.status == 201
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': hm"
    assert made.header_all("Warning") == [f'299 - "{text}"']


def test_errors_are_ignored_but_refusals_are_not(cluster: TestClient) -> None:
    broken = {"expression": "object.data.zz == 'x'"}
    strict = {"expression": "object.metadata.name != 'x'", "message": "not x"}
    _add(cluster, [broken, strict], failurePolicy="Ignore")
    assert _create(cluster, "y").status == 201
    assert _create(cluster).json["message"] == DENIED + "not x"


def test_variables_are_evaluated_when_they_are_needed(cluster: TestClient) -> None:
    variables = [
        {"name": "broken", "expression": "object.data.zz"},
        {"name": "n", "expression": "object.metadata.name"},
        {"name": "long", "expression": "variables.n.size() > 3"},
    ]
    check = {"expression": "!variables.long", "messageExpression": "'long: ' + variables.n"}
    other = {"expression": "object.data.size() == 0 || variables.broken == 'x'"}
    _add(cluster, [check, other], variables=variables)
    assert _create(cluster).json["message"].endswith("no such key: data")
    refused = _create(cluster, "longer", {"a": "1"})
    assert refused.json["message"].endswith("denied request: long: longer")
    assert _create(cluster, "x", {"a": "1"}).json["message"] == DENIED + (
        f"expression '{other['expression']}' resulted in error: "
        'composited variable "broken" fails to evaluate: no such key: zz'
    )


def test_conditions_keep_a_policy_out(cluster: TestClient) -> None:
    condition = {"name": "named", "expression": "object.metadata.name.startsWith('x')"}
    _add(cluster, [{"expression": "false"}], matchConditions=[condition])
    assert _create(cluster, "y").status == 201
    assert _create(cluster).status == 422


def test_parameters_by_name_and_by_selector(cluster: TestClient) -> None:
    for name, limit in (("s", "2"), ("l", "4")):
        cluster.post(
            CONFIG_MAPS,
            {"metadata": {"name": name, "labels": {"limits": "yes"}}, "data": {"max": limit}},
        )
    check = {
        "expression": "object.metadata.name.size() <= int(params.data.max)",
        "messageExpression": "string(params.metadata.name)",
    }
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    reference = {"name": "l", "parameterNotFoundAction": "Deny"}
    _add(cluster, [check], {"paramRef": reference}, paramKind=kind)
    binding = f"{ROOT}/validatingadmissionpolicybindings/b"
    assert _create(cluster, "four").status == 201
    assert _create(cluster, "xxxxx").json["message"].endswith("denied request: l")
    all_of_them = {"selector": {"matchLabels": {"limits": "yes"}}, "name": None}
    assert cluster.patch(binding, {"spec": {"paramRef": all_of_them}}).status == 200
    assert _create(cluster, "xxx").json["message"].endswith("denied request: s")
    cluster.patch(f"{CONFIG_MAPS}/s", {"data": {"max": "9"}})
    assert _create(cluster, "xxx").status == 201
    missing = {"name": "absent", "selector": None}
    cluster.patch(binding, {"spec": {"paramRef": missing}})
    assert _create(cluster).json["message"] == DENIED + (
        "failed to configure binding: no params found for policy binding with `Deny` "
        "parameterNotFoundAction"
    )
    cluster.patch(binding, {"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}})
    assert _create(cluster, "whatever").status == 201


def test_an_unknown_kind_of_parameters_is_told(cluster: TestClient) -> None:
    kind = {"apiVersion": "nope.example.com/v1", "kind": "Nope"}
    reference = {"name": "x", "parameterNotFoundAction": "Allow"}
    _add(cluster, [{"expression": "true"}], {"paramRef": reference}, paramKind=kind)
    assert _create(cluster).json["message"] == (
        "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to "
        "configure policy: failed to find resource referenced by paramKind: "
        "'nope.example.com/v1, Kind=Nope'"
    )


def test_deletions_are_judged_by_the_old_object(cluster: TestClient) -> None:
    _create(cluster, "keep")
    _create(cluster, "go")
    rules = [{**RULES[0], "operations": ["DELETE"]}]
    _add(
        cluster, [{"expression": "oldObject.metadata.name != 'keep'", "message": "kept"}],
        matchConstraints={"resourceRules": rules},
    )  # fmt: skip
    assert cluster.delete(f"{CONFIG_MAPS}/keep").status == 422
    assert cluster.delete(f"{CONFIG_MAPS}/go").status == 200
    everything = cluster.delete(CONFIG_MAPS, fieldSelector="metadata.name=keep")
    assert everything.json["message"].startswith('configmaps "Unknown" is forbidden')


def test_expressions_are_compiled_when_a_policy_is_written(cluster: TestClient) -> None:
    def refusal(validation: dict[str, Any], **spec: Any) -> str:
        body = {"matchConstraints": {"resourceRules": RULES}, "validations": [validation], **spec}
        refused = cluster.post(
            f"{ROOT}/validatingadmissionpolicies", {"metadata": {"name": "q"}, "spec": body}
        )
        assert refused.status == 422
        return str(refused.json["details"]["causes"][0]["message"])

    assert "undeclared reference to 'nope'" in refusal({"expression": "nope"})
    assert refusal({"expression": "1"}).endswith("must evaluate to bool but got int")
    assert refusal({"expression": "object.a"}).endswith("must evaluate to bool but got dyn")
    assert "undeclared reference to 'params'" in refusal({"expression": "params.x"})
    assert "undefined field 'zz'" in refusal({"expression": "request.zz == 'a'"})
    assert refusal({"expression": "true", "messageExpression": "1"}).endswith(
        "must evaluate to string but got int"
    )


def test_a_runaway_expression_is_stopped(cluster: TestClient) -> None:
    deep = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, true))))"
    _add(cluster, [{"expression": deep}])
    data = {f"k{i}": "v" for i in range(60)}
    refused = _create(cluster, data=data)
    assert refused.status == 422
    assert "operation cancelled: actual cost limit exceeded" in refused.json["message"]


def test_another_version_of_a_kind_is_matched_as_well(cluster: TestClient) -> None:
    def version(name: str, *, storage: bool) -> dict[str, Any]:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {
            "name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema},
        }  # fmt: skip

    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    cluster.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": names,
                "versions": [version("v1", storage=True), version("v2", storage=False)],
            },
        },
    )  # fmt: skip
    path = "/apis/example.com/v2/namespaces/default/gadgets"
    eventually(lambda: cluster.get(path).status == 200)
    rules = [{**RULES[0], "apiGroups": ["example.com"], "resources": ["gadgets"]}]
    check = {
        "expression": "false",
        "messageExpression": "object.apiVersion + request.requestKind.version",
    }
    _add(cluster, [check], matchConstraints={"resourceRules": rules})
    body = {"apiVersion": "example.com/v2", "kind": "Gadget", "metadata": {"name": "g"}}
    refused = cluster.post(path, body)
    assert refused.json["message"].endswith("denied request: example.com/v1v2")
    exact = {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}
    assert cluster.patch(f"{ROOT}/validatingadmissionpolicies/p", exact).status == 200
    assert cluster.post(path, body).status == 201
