"""Which roles and bindings other shards must know, and how that is written."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.kcp.replicate_marks import (
    ANNOTATION,
    APIS,
    CORE,
    TENANCY,
    binding_reasons,
    mark,
    marked_value,
    role_reasons,
    rule_reasons,
)
from pykcp.steps import at_once

RBAC = "rbac.authorization.k8s.io"


def role(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "rules": list(rules)}


def rule(groups: str, resources: str, verbs: str) -> dict[str, Any]:
    return {
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
        "verbs": verbs.split(","),
    }


def path_rule(path: str, verbs: str) -> dict[str, Any]:
    return {"nonResourceURLs": path.split(","), "verbs": verbs.split(",")}


EVERYTHING = (rule("*", "*", "*"), path_rule("*", "*"))


@pytest.mark.parametrize(
    ("rules", "in_marked", "expected"),
    [
        ([], True, set()),
        ([rule("apis.kcp.io", "apiexports", "bind")], False, {APIS}),
        ([rule("apis.kcp.io", "apiexports", "*")], False, {APIS}),
        ([rule("*", "apiexports", "get,bind")], False, {APIS}),
        ([rule("apis.kcp.io", "apiexports", "get")], False, set()),
        ([rule("apis.kcp.io", "apiexports/content", "get")], False, {APIS}),
        ([rule("apis.kcp.io", "*", "get")], False, {APIS}),
        ([rule("apps", "apiexports", "bind")], False, set()),
        ([rule("tenancy.kcp.io", "workspacetypes", "use")], False, {TENANCY}),
        ([rule("tenancy.kcp.io", "workspacetypes", "initialize")], False, {TENANCY}),
        ([rule("tenancy.kcp.io", "workspacetypes", "terminate")], False, {TENANCY}),
        ([rule("tenancy.kcp.io", "workspacetypes", "get")], False, set()),
        ([rule("tenancy.kcp.io", "workspaces", "use")], False, set()),
        ([path_rule("/", "access")], False, set()),
        ([path_rule("/", "access")], True, {CORE}),
        ([path_rule("/*", "*")], True, {CORE}),
        ([path_rule("/metrics", "access")], True, set()),
        ([path_rule("/", "get")], True, set()),
        (EVERYTHING, False, {APIS, TENANCY}),
        (EVERYTHING, True, {APIS, TENANCY, CORE}),
    ],
)
def test_rules(rules: list[dict[str, Any]], in_marked: bool, expected: set[str]) -> None:
    assert at_once(rule_reasons(role(*rules), in_marked=in_marked)) == expected


def binding(*subjects: dict[str, Any]) -> dict[str, Any]:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"}
    return {"metadata": {"name": "b"}, "roleRef": reference, "subjects": list(subjects)}


CONSUMER = {"kind": "User", "apiGroup": RBAC, "name": "apis.kcp.io:binding:bob"}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (CONSUMER, {APIS}),
        ({**CONSUMER, "kind": "Group"}, {APIS}),
        ({**CONSUMER, "kind": "ServiceAccount"}, set()),
        ({**CONSUMER, "apiGroup": ""}, set()),
        ({**CONSUMER, "name": "bob"}, set()),
    ],
)
def test_consumers(subject: dict[str, Any], expected: set[str]) -> None:
    """A maximal permission policy is published with its roles, whatever they grant."""
    assert binding_reasons(binding(subject), frozenset()) == expected
    assert at_once(role_reasons(role(), [binding(subject)], in_marked=True)) == expected


def test_bindings_follow_their_role() -> None:
    of_role = at_once(rule_reasons(role(*EVERYTHING), in_marked=False))
    assert binding_reasons(binding(), of_role) == {
        APIS,
        TENANCY,
    }
    assert binding_reasons(binding(), frozenset()) == set()


@pytest.mark.parametrize(
    ("value", "reasons", "expected"),
    [
        ("", set(), ""),
        ("", {TENANCY, APIS}, "apis.kcp.io,tenancy.kcp.io"),
        ("apis.kcp.io", set(), ""),
        ("apis.kcp.io,other", set(), "other"),
        ("other", {CORE}, "core.kcp.io,other"),
    ],
)
def test_values(value: str, reasons: set[str], expected: str) -> None:
    assert marked_value(value, reasons) == expected


def test_mark() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "x"}}
    mark(obj, "a")
    assert obj["metadata"]["annotations"] == {ANNOTATION: "a"}
    mark(obj, "")
    assert obj == {"metadata": {"name": "x"}}


def test_a_role_of_many_rules_is_looked_at_in_steps() -> None:
    rules = [rule("*", "configmaps", "get")] * 20_000
    steps = rule_reasons(role(*rules, *EVERYTHING), in_marked=True)
    assert sum(1 for _ in steps) > 10_000
