"""MutatingAdmissionPolicy: applied configurations and patches that expressions say."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient

ROOT = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
]  # fmt: skip


def _add(cluster: TestClient, expression: str, name: str = "p", **spec: Any) -> None:
    is_patch = expression.startswith("[")
    mutation = {
        "patchType": "JSONPatch" if is_patch else "ApplyConfiguration",
        "jsonPatch" if is_patch else "applyConfiguration": {"expression": expression},
    }
    body = {
        "matchConstraints": {"resourceRules": RULES},
        "reinvocationPolicy": "Never",
        "mutations": [mutation],
        **spec,
    }
    made = cluster.post(
        f"{ROOT}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": body}
    )
    assert made.status == 201, made
    made = cluster.post(
        f"{ROOT}/mutatingadmissionpolicybindings",
        {"metadata": {"name": name}, "spec": {"policyName": name}},
    )
    assert made.status == 201, made


def _create(cluster: TestClient, name: str = "x", **query: Any) -> Any:
    body = {"metadata": {"name": name, "labels": {"l": "1"}}, "data": {"a": "1"}}
    return cluster.post(CONFIG_MAPS, body, **query)


CHANGES = {
    "merge": ('Object{data: {"d": object.metadata.name}}', {"a": "1", "d": "x"}),
    "nothing": ("Object{}", {"a": "1"}),
    "add": ('[JSONPatch{op: "add", path: "/data/j", value: "1"}]', {"a": "1", "j": "1"}),
    "remove": ('[JSONPatch{op: "remove", path: "/data/a"}]', None),
    "failing test": (
        '[JSONPatch{op: "test", path: "/data/a", value: "2"}, JSONPatch{op: "remove", path: "/data"}]',
        {"a": "1"},
    ),
    "move": ('[JSONPatch{op: "move", from: "/data/a", path: "/data/b"}]', {"b": "1"}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_expressions_change_the_object(cluster: TestClient, case: str) -> None:
    expression, data = CHANGES[case]
    _add(cluster, expression)
    made = _create(cluster)
    assert made.status == 201
    assert made.json.get("data") == data


def test_lists_and_maps_are_merged_by_their_schema(cluster: TestClient) -> None:
    _add(cluster, 'Object{metadata: Object.metadata{labels: {"m": "2"}, finalizers: ["a.b/c"]}}')
    made = _create(cluster).json["metadata"]
    assert (made["labels"], made["finalizers"]) == ({"l": "1", "m": "2"}, ["a.b/c"])


FAILURES = {
    "null": (
        "Object{data: null}",
        (
            "error applying patch: failed to convert patch object to typed object: "
            ".data: expected map, got &{NULL_VALUE}"
        ),
    ),
    "unknown": (
        'Object{zz: "1"}',
        (
            "error applying patch: failed to convert patch object to typed object: "
            ".zz: field not declared in schema"
        ),
    ),
    "error": (
        'Object{data: {"d": object.data.zz}}',
        "expression 'Object{data: {\"d\": object.data.zz}}' resulted in error: no such key: zz",
    ),
    "patch": (
        '[JSONPatch{op: "remove", path: "/data/none"}]',
        (
            "JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: "
            "none: missing value"
        ),
    ),
    "name": (
        'Object{data: Object.spec{d: "1"}}',
        (
            'type mismatch: unexpected type name "Object.spec", expected "Object.data", which matches '
            "field name path from root Object type"
        ),
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_deny_or_are_ignored(cluster: TestClient, case: str) -> None:
    expression, why = FAILURES[case]
    _add(cluster, expression)
    refused = _create(cluster)
    message = f"policy 'p' with binding 'p' denied request: {why}"
    assert (refused.status, refused.json["reason"]) == (403, "Invalid")
    assert refused.json["message"] == message
    assert refused.json["details"]["causes"] == [{"message": message}]
    path = f"{ROOT}/mutatingadmissionpolicies/p"
    assert cluster.patch(path, {"spec": {"failurePolicy": "Ignore"}}).status == 200
    assert _create(cluster).json["data"] == {"a": "1"}


def test_lists_that_belong_together_cannot_be_mutated_in_part(cluster: TestClient) -> None:
    rules = [
        {**RULES[0], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    ]
    _add(
        cluster,
        'Object{rules: [Object.rules{verbs: ["get"]}]}',
        matchConstraints={"resourceRules": rules},
    )
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    refused = cluster.post(path, {"metadata": {"name": "x"}, "rules": []})
    assert refused.status == 403
    assert refused.json["message"].endswith(
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or "
        "structs: .rules, .rules[0].verbs"
    )


def test_what_is_no_such_object_is_an_internal_error(cluster: TestClient) -> None:
    _add(cluster, '[JSONPatch{op: "add", path: "/data", value: "text"}]')
    refused = _create(cluster)
    assert refused.status == 500
    assert refused.json["message"] == (
        "Internal error occurred: json: cannot unmarshal string into Go struct field "
        "ConfigMap.data of type map[string]string"
    )


def test_policies_see_each_others_changes_and_are_asked_again(cluster: TestClient) -> None:
    count = 'Object{data: {"%s": string(object.data.size())}}'
    _add(cluster, count % "first", "a", reinvocationPolicy="IfNeeded")
    _add(cluster, count % "second", "b")
    assert _create(cluster).json["data"] == {"a": "1", "first": "3", "second": "2"}


def test_conditions_keep_a_policy_out(cluster: TestClient) -> None:
    condition = {"name": "named", "expression": "object.metadata.name == 'y'"}
    _add(cluster, 'Object{data: {"d": "1"}}', matchConditions=[condition])
    assert _create(cluster).json["data"] == {"a": "1"}
    assert _create(cluster, "y").json["data"] == {"a": "1", "d": "1"}


def test_updates_are_changed_and_validated(cluster: TestClient) -> None:
    _create(cluster)
    _add(cluster, '[JSONPatch{op: "add", path: "/data/bad key", value: "1"}]')
    refused = cluster.patch(f"{CONFIG_MAPS}/x", {"data": {"b": "1"}})
    assert refused.status == 422
    assert cluster.get(f"{CONFIG_MAPS}/x").json["data"] == {"a": "1"}


def test_expressions_are_compiled_when_a_policy_is_written(cluster: TestClient) -> None:
    for expression, why in (
        ('[JSONPatch{op: 1, path: "/a"}]', "expected type of field 'op' is 'string'"),
        ("[1]", "must evaluate to list(JSONPatch) but got list(int)"),
        ("'x'", "must evaluate to Object but got string"),
    ):
        kind, field = ("JSONPatch", "jsonPatch")
        if not expression.startswith("["):
            kind, field = ("ApplyConfiguration", "applyConfiguration")
        spec = {
            "matchConstraints": {"resourceRules": RULES},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": kind, field: {"expression": expression}}],
        }
        refused = cluster.post(
            f"{ROOT}/mutatingadmissionpolicies", {"metadata": {"name": "q"}, "spec": spec}
        )
        assert refused.status == 422
        assert why in refused.json["message"]
