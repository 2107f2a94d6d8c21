"""The order in which rules are asked, and what the server carries over on its own."""

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.apis.kube import validation
from pykcp.apis.kube.validation.objectmeta import (
    is_plain,
    name_is_subdomain,
    validate_object_meta,
)
from pykcp.apis.kube.validation.rules import carry_system_metadata
from pykcp.machinery.status import FieldError, invalid, too_many
from pykcp.types import Object

META = {"name": "x", "namespace": "ns", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z"}


def test_unknown_kinds_are_not_built_in() -> None:
    with pytest.raises(KeyError):
        validation.strategy_for("example.com", "things")


def test_clients_cannot_change_what_is_the_servers() -> None:
    old: Object = {
        "metadata": {**META, "generation": 3, "deletionTimestamp": "2024-02-02T00:00:00Z",
                     "deletionGracePeriodSeconds": 0}
    }  # fmt: skip
    new: Object = {
        "metadata": {"name": "x", "generation": 9, "creationTimestamp": "2000-01-01T00:00:00Z"}
    }
    carry_system_metadata(new, old)
    assert new["metadata"]["generation"] == 3
    assert new["metadata"]["uid"] == "u"
    assert new["metadata"]["creationTimestamp"] == META["creationTimestamp"]
    assert new["metadata"]["deletionTimestamp"] == "2024-02-02T00:00:00Z"
    assert new["metadata"]["deletionGracePeriodSeconds"] == 0
    fresh: Object = {"metadata": {"generation": 5}}
    carry_system_metadata(fresh, {"metadata": {"name": "x"}})
    assert "generation" not in fresh["metadata"]


def test_custom_resources_count_generations_and_keep_their_status() -> None:
    rules = validation.custom_rules(True, has_status=True)
    obj: Object = {"metadata": {**META}, "spec": {"a": 1}, "status": {"b": 2}}
    assert validation.before_create(rules, obj) == ([], [])
    assert "status" not in obj
    assert obj["metadata"]["generation"] == 1

    old: Object = {**obj, "status": {"b": 1}}
    old["metadata"] = {**obj["metadata"], "resourceVersion": "5"}
    same: Object = {"metadata": {**old["metadata"]}, "spec": {"a": 1}, "status": {"b": 9}}
    assert validation.before_update(rules, same, old) == ([], [])
    assert same["status"] == {"b": 1}
    assert same["metadata"]["generation"] == 1
    other: Object = {"metadata": {**old["metadata"]}, "spec": {"a": 2}}
    assert validation.before_update(rules, other, old) == ([], [])
    assert other["metadata"]["generation"] == 2
    assert other["status"] == {"b": 1}


def test_custom_status_updates_touch_nothing_else() -> None:
    rules = validation.custom_rules(True, has_status=True).subresources["status"]
    old: Object = {
        "metadata": {**META, "resourceVersion": "5", "generation": 1, "labels": {"a": "b"},
                     "managedFields": [{"operation": "Update", "manager": "old"}]},
        "spec": {"a": 1},
    }  # fmt: skip
    managed = [{"operation": "Update", "manager": "new"}]
    new: Object = {
        "metadata": {
            **META,
            "resourceVersion": "5",
            "labels": {"c": "d"},
            "managedFields": managed,
        },
        "spec": {"a": 2},
        "status": {"ok": True},
    }
    assert validation.before_update(rules, new, old) == ([], [])
    assert new["spec"] == {"a": 1}
    assert new["status"] == {"ok": True}
    assert new["metadata"]["labels"] == {"a": "b"}
    assert new["metadata"]["managedFields"] == managed
    assert new["metadata"]["generation"] == 1
    assert old["metadata"]["managedFields"][0]["manager"] == "old"


def test_without_a_status_subresource_the_status_counts() -> None:
    rules = validation.custom_rules(True, has_status=False)
    old: Object = {
        "metadata": {**META, "resourceVersion": "5", "generation": 4},
        "status": {"a": 1},
    }
    new: Object = {"metadata": {**META, "resourceVersion": "5"}, "status": {"a": 2}}
    assert validation.before_update(rules, new, old) == ([], [])
    assert new["metadata"]["generation"] == 5


def test_custom_checks_come_after_metadata() -> None:
    def check(_: Object, old: Object | None) -> list[FieldError]:
        return [invalid("spec", 1, "create" if old is None else "update")]

    rules = validation.custom_rules(True, has_status=False, check=check)
    errors, _ = validation.before_create(rules, {"metadata": {**META, "name": "A"}})
    assert [error.path for error in errors] == ["metadata.name", "spec"]
    assert errors[1].message == "create"


@pytest.mark.parametrize(
    ("finalizer", "warnings"),
    [
        ("example.com/x", []),
        ("orphan", []),
        (
            "plain",
            [('metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid '
             "accidental conflicts with other finalizer writers")],
        ),
        (
            "a.b",
            [('metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a '
             "path (/) to avoid accidental conflicts with other finalizer writers")],
        ),
    ],
)  # fmt: skip
def test_unqualified_finalizers_of_custom_resources_are_warned_about(
    finalizer: str, warnings: list[str]
) -> None:
    rules = validation.custom_rules(True, has_status=False)
    obj: Object = {"metadata": {**META, "finalizers": [finalizer]}}
    assert validation.before_create(rules, obj) == ([], warnings)
    old: Object = {"metadata": {**obj["metadata"], "resourceVersion": "1"}}
    new: Object = {"metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert validation.before_update(rules, new, old) == ([], [])


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
         "labelSelectorPath": ".status.selector"}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"spec": {"replicas": 3}, "status": {"replicas": 1, "selector": "a=b"}}, []),
        ({}, []),
        ({"spec": {"replicas": -1}}, [(".spec.replicas: Invalid value: -1: should be a "
                                      "non-negative integer")]),
        ({"status": {"replicas": 1 << 31}}, [(".status.replicas: Invalid value: 2147483648: "
                                             "should be less than or equal to 2147483647")]),
        ({"spec": {"replicas": "x"}}, [(".spec.replicas: Invalid value: 0: .spec.replicas accessor "
                                       "error: x is of the type string, expected int64")]),
        ({"spec": []}, [(".spec.replicas: Invalid value: 0: .spec.replicas accessor error: "
                        "[] is of the type []interface {}, expected map[string]interface{}")]),
        ({"status": {"selector": 1}}, [('.status.selector: Invalid value: "": .status.selector '
                                       "accessor error: 1 is of the type int64, expected string")]),
    ],
)  # fmt: skip
def test_scale_paths(body: Object, errors: list[str]) -> None:
    rules = validation.custom_rules(True, has_status=False, scale=SCALE)
    found, _ = validation.before_create(rules, {"metadata": {**META}, **body})
    assert [error.text() for error in found] == errors


def test_signing_requests_are_stamped(created: Callable[..., Any]) -> None:
    base = {"metadata": {"name": "c"}, "spec": {"username": "forged", "groups": ["forged"]}}
    outcome = created("certificates.k8s.io", "certificatesigningrequests", base, {})
    assert outcome.obj["spec"] == {
        "username": "alice", "uid": "1", "groups": ["system:authenticated"],
    }  # fmt: skip
    assert outcome.obj["status"] == {}


def test_approval_is_timed_and_stays(
    created: Callable[..., Any], updated: Callable[..., Any]
) -> None:
    stored: Object = {"metadata": {**META}, "spec": {"usages": ["any"]}, "status": {}}
    stored["metadata"].pop("namespace")
    patch = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    group, resource = "certificates.k8s.io", "certificatesigningrequests"
    approved = updated(group, resource, stored, patch, "approval").obj
    condition = approved["status"]["conditions"][0]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    changed = {"status": {"conditions": [{"type": "Approved", "status": "False"}]}}
    again = updated(group, resource, approved, changed, "status").obj
    assert again["status"]["conditions"] == [condition]


def test_namespaces_keep_their_finalizer_until_it_is_finalised(
    created: Callable[..., Any], updated: Callable[..., Any]
) -> None:
    namespace = created("", "namespaces", {"metadata": {"name": "n"}}, {}).obj
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    patch = {"spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    assert updated("", "namespaces", namespace, patch).obj["spec"] == namespace["spec"]
    finalised = updated("", "namespaces", namespace, patch, "finalize").obj
    assert finalised["spec"] == {"finalizers": []}
    assert finalised["status"] == {"phase": "Active"}


def test_expressions_are_compiled_when_there_is_a_compiler() -> None:
    seen: list[tuple[str, str, bool, int]] = []

    def check(expression: str, use: Any) -> str | None:
        seen.append((expression, use.purpose, use.has_params, len(use.variables)))
        return "no" if expression == "bad" else None

    policy: Object = {
        "metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z", "uid": "u"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
            }]},
            "variables": [{"name": "v", "expression": "1"}, {"name": "w", "expression": "2"}],
            "validations": [{"expression": "bad", "messageExpression": "m"}],
        },
    }  # fmt: skip
    rules = validation.strategy_for("admissionregistration.k8s.io", "validatingadmissionpolicies")
    rules.default(policy)
    errors, _ = validation.before_create(rules, policy, validation.Facts(check_cel=check))
    assert [error.text() for error in errors] == [
        'spec.validations[0].expression: Invalid value: "bad": no'
    ]
    assert seen == [
        ("1", "variable", True, 0),
        ("2", "variable", True, 1),
        ("bad", "validation", True, 2),
        ("m", "messageExpression", True, 2),
    ]


_OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}
_LINKS: list[tuple[Object, bool]] = [
    ({"ownerReferences": [{**_OWNER, "controller": True}]}, True),
    ({"ownerReferences": [_OWNER, {**_OWNER, "uid": "v"}]}, False),
    ({"ownerReferences": [{**_OWNER, "controller": True}] * 2}, False),
    ({"ownerReferences": [{**_OWNER, "apiVersion": "a/b/c"}]}, False),
    ({"ownerReferences": [{**_OWNER, "apiVersion": "v1", "kind": "Event"}]}, False),
    ({"ownerReferences": [{**_OWNER, "kind": ""}]}, False),
    ({"ownerReferences": [{**_OWNER, "name": ""}]}, False),
    ({"ownerReferences": [{**_OWNER, "uid": ""}]}, False),
    ({"finalizers": ["example.io/one", "example.io/two"]}, True),
    ({"finalizers": ["foregroundDeletion", "orphan"]}, False),
    ({"finalizers": ["orphan"]}, False),
    ({"finalizers": ["example.io/one", "example.io/ "]}, False),
    ({"finalizers": ["unqualified"]}, False),
]


@pytest.mark.parametrize(("links", "expected"), _LINKS)
def test_metadata_that_are_plain_have_no_errors(links: Object, expected: bool) -> None:
    found = {**META, **links}
    assert is_plain(found, True) is expected
    errors = validate_object_meta(found, True, name_is_subdomain, kube_finalizers=True)
    assert not (expected and errors)


@pytest.mark.parametrize(
    "spec",
    [
        {"hard": {f"count/r{n}.example.com": "1" for n in range(10_001)}},
        {"hard": {"pods": "1"}, "scopes": ["BestEffort"] * 10_000},
        {
            "scopeSelector": {
                "matchExpressions": [
                    {
                        "scopeName": "PriorityClass",
                        "operator": "In",
                        "values": [f"v{n}" for n in range(10_000)],
                    }
                ]
            }
        },
    ],
)
def test_quotas_have_a_size(spec: Object) -> None:
    """One that is too large can be changed, but not its limits."""
    rules = validation.strategy_for("", "resourcequotas")
    made: Object = {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec}
    errors, _ = validation.before_create(rules, made)
    assert [str(error) for error in errors] == [str(too_many("spec", 10_001, 10_000))]
    old: Object = {"metadata": {**META, "resourceVersion": "5"}, "spec": spec}
    labelled = {"metadata": {**old["metadata"], "labels": {"a": "b"}}, "spec": spec}
    assert validation.before_update(rules, labelled, old) == ([], [])
    other = {"metadata": {**old["metadata"]}, "spec": {**spec, "scopes": ["Terminating"] * 10_001}}
    errors, _ = validation.before_update(rules, other, old)
    assert [error.path for error in errors] == ["spec"]
