"""The default roles: what they grant, and how later starts treat them."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth.authz import rbac
from pykcp.auth.authz.aggregation import TooManyRules, aggregated_rules, is_aggregated
from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.bootstrap_policy import namespaces, objects, parse_rule
from pykcp.auth.authz.bootstrap_reconcile import RoleRefChanged, reconciled
from pykcp.auth.authz.covering import uncovered
from pykcp.auth.authz.rbac import ClusterPolicy
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.user import ANONYMOUS_USER, User
from pykcp.steps import at_once


def cluster_role(name: str) -> dict[str, Any]:
    return next(role for role in objects().cluster_roles if role["metadata"]["name"] == name)


def rules_of(name: str) -> list[PolicyRule]:
    return [PolicyRule.from_json(rule) for rule in cluster_role(name)["rules"]]


def test_every_object_has_a_name_of_its_own_and_every_binding_a_role() -> None:
    found = objects()
    for group in (
        found.cluster_roles,
        found.cluster_role_bindings,
        found.roles,
        found.role_bindings,
    ):
        keys = [(o["metadata"].get("namespace"), o["metadata"]["name"]) for o in group]
        assert len(keys) == len(set(keys))
    names = {role["metadata"]["name"] for role in found.cluster_roles}
    assert {b["roleRef"]["name"] for b in found.cluster_role_bindings} <= names
    local = {(r["metadata"]["namespace"], r["metadata"]["name"]) for r in found.roles}
    for binding in found.role_bindings:
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in local


def test_the_counts_are_those_of_a_running_kcp() -> None:
    found = objects()
    assert len(found.cluster_roles) == 75
    assert len(found.cluster_role_bindings) == 54
    assert len(found.roles) == len(found.role_bindings) == 7
    assert namespaces() == ["kube-public", "kube-system"]


def test_lists_in_rules_are_sorted_as_upstream_writes_them() -> None:
    for role in (*objects().cluster_roles, *objects().roles):
        for rule in role["rules"]:
            for values in rule.values():
                assert values == sorted(values)


def test_upstreams_defaults_are_labelled_and_kcps_are_not() -> None:
    assert cluster_role("cluster-admin")["metadata"] == {
        "name": "cluster-admin",
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    assert cluster_role("system:kcp:workspace:access")["metadata"] == {
        "name": "system:kcp:workspace:access"
    }


def test_admin_gathers_edit_and_edit_gathers_view() -> None:
    assert not uncovered(rules_of("edit"), rules_of("view"))
    assert not uncovered(rules_of("admin"), rules_of("edit"))
    assert uncovered(rules_of("edit"), rules_of("admin"))
    assert uncovered(rules_of("view"), rules_of("edit"))


@pytest.mark.parametrize(
    ("user", "attributes", "allowed"),
    [
        (ANONYMOUS_USER, ("get", "/version"), True),
        (ANONYMOUS_USER, ("get", "/api"), False),
        (User("u", groups=("system:authenticated",)), ("get", "/apis/apps/v1"), True),
        (User("u", groups=("system:authenticated",)), ("access", "/"), False),
        (User("u", groups=("system:kcp:admin",)), ("delete", "/anything"), True),
        (User("system:serviceaccount:x:y", groups=("system:serviceaccounts",)),
         ("get", "/openid/v1/jwks"), True),
        (User("e", groups=("system:kcp:external-logical-cluster-admin",)), ("access", "/"), True),
    ],
)  # fmt: skip
def test_what_the_defaults_grant_everywhere(
    user: User, attributes: tuple[str, str], allowed: bool
) -> None:
    policy = ClusterPolicy(objects())
    asked = path_attributes(user, *attributes)
    assert at_once(rbac.authorize(policy, [policy], [user], asked)).allowed is allowed


def test_controllers_are_bound_to_their_service_accounts() -> None:
    policy = ClusterPolicy(objects())
    collector = User("system:serviceaccount:kube-system:generic-garbage-collector")
    asked = Attributes(collector, "delete", "ns", "any.group", "things")
    assert at_once(rbac.authorize(policy, [policy], [collector], asked)).allowed


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("read core pods", {"verbs": ["get", "list", "watch"], "apiGroups": [""],
                            "resources": ["pods"]}),
        ("create,read a+core x,y = n,m",
         {"verbs": ["create", "get", "list", "watch"], "apiGroups": ["a", ""],
          "resources": ["x", "y"], "resourceNames": ["n", "m"]}),
        ("get /a,/b/*", {"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]}),
        ("events", {"verbs": ["create", "patch", "update"], "apiGroups": ["", "events.k8s.io"],
                    "resources": ["events"]}),
        ("* *", {"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ],
)  # fmt: skip
def test_lines_of_the_tables(line: str, rule: dict[str, Any]) -> None:
    assert parse_rule(line) == rule


# --- aggregation --------------------------------------------------------------


def labelled(name: str, value: str, *rules: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"to": value}}
    return {"metadata": metadata, "rules": [{"verbs": [rule]} for rule in rules]}


def test_aggregation_goes_by_selector_then_by_name_and_takes_each_rule_once() -> None:
    target = labelled("b", "x", "own")
    selectors = [{"matchLabels": {"to": "y"}}, {"matchLabels": {"to": "x"}}]
    target["aggregationRule"] = {"clusterRoleSelectors": selectors}
    others = [labelled("c", "x", "1", "2"), labelled("a", "x", "2", "3"), labelled("d", "y", "9"),
              target, {"metadata": {"name": "e"}}]  # fmt: skip
    assert is_aggregated(target)
    assert [rule["verbs"] for rule in at_once(aggregated_rules(target, others))] == [
        ["9"], ["2"], ["3"], ["1"],
    ]  # fmt: skip


@pytest.mark.parametrize("rule", [{}, {"clusterRoleSelectors": None}, {"clusterRoleSelectors": []}])
def test_an_empty_aggregation_gathers_nothing(rule: dict[str, Any]) -> None:
    role = {"metadata": {"name": "a"}, "aggregationRule": rule}
    assert at_once(aggregated_rules(role, [labelled("b", "x", "1")])) == []


# --- a later start ------------------------------------------------------------


def role(*verbs: str, **metadata: Any) -> dict[str, Any]:
    rules = [{"verbs": [v], "apiGroups": ["g"], "resources": ["r"]} for v in verbs]
    return {"metadata": {"name": "r", **metadata}, "rules": rules}


AUTO = "rbac.authorization.kubernetes.io/autoupdate"


@pytest.mark.parametrize(
    ("existing", "expected", "result"),
    [
        (role("a"), role("a"), None),
        (role("a", "b"), role("a"), None),
        (role("*"), role("a"), None),
        (role("a"), role("a", "b"), role("a", "b")),
        ({"metadata": {"name": "r"}, "rules": None}, role("a"), role("a")),
        (role("a", annotations={AUTO: "false"}), role("b"), None),
        (role("a"), role("a", labels={"l": "1"}), role("a", labels={"l": "1"})),
        (role("a", labels={"l": "mine", "m": "2"}), role("a", labels={"l": "1"}), None),
        ({**role("a"), "aggregationRule": {"clusterRoleSelectors": [{}]}}, role("a"), role("a")),
    ],
)
def test_roles_gain_what_they_lack_and_keep_what_was_added(
    existing: Any, expected: Any, result: Any
) -> None:
    assert reconciled(existing, expected) == result


def test_aggregated_roles_gain_selectors_and_keep_their_rules() -> None:
    expected = {
        **role(),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "1"}}]},
    }
    existing = {
        **role("x"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"b": "2"}}]},
    }
    changed = reconciled(existing, expected)
    assert changed is not None
    assert changed["rules"] == existing["rules"]
    assert changed["aggregationRule"]["clusterRoleSelectors"] == [
        {"matchLabels": {"b": "2"}}, {"matchLabels": {"a": "1"}},
    ]  # fmt: skip
    assert reconciled(changed, expected) is None


def binding(role_name: str, *subjects: str) -> dict[str, Any]:
    listed = [{"kind": "Group", "name": name} for name in subjects]
    return {"metadata": {"name": "b"}, "roleRef": {"name": role_name}, "subjects": listed}


def test_bindings_gain_subjects() -> None:
    assert reconciled(binding("r", "a"), binding("r", "a")) is None
    assert reconciled(binding("r", "x", "a"), binding("r", "a")) is None
    assert reconciled(binding("r", "x"), binding("r", "a")) == binding("r", "x", "a")


def test_a_binding_to_another_role_must_be_replaced() -> None:
    with pytest.raises(RoleRefChanged):
        reconciled(binding("other"), binding("r"))


def test_what_a_first_start_writes_a_second_leaves_alone() -> None:
    found = objects()
    for group in (
        found.cluster_roles,
        found.cluster_role_bindings,
        found.roles,
        found.role_bindings,
    ):
        assert [reconciled(one, one) for one in group] == [None] * len(group)


def test_thousands_of_selectors_and_roles_with_thousands_of_rules() -> None:
    """Each role is looked at for the label that it has, and each rule once."""
    selectors = [{"matchLabels": {"n": str(number)}} for number in range(5_000)]
    target = {"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": selectors}}
    rules = [{"verbs": ["get"], "resourceNames": [str(number)]} for number in range(5)]
    others = [
        {"metadata": {"name": f"r{number}", "labels": {"n": str(number)}}, "rules": rules}
        for number in range(5_000)
    ]
    assert at_once(aggregated_rules(target, others)) == rules
    many = [{"verbs": ["get"], "resourceNames": [str(number)]} for number in range(20_000)]
    others[0]["rules"] = many
    assert at_once(aggregated_rules(target, others)) == many
    others[0]["rules"] = [{"verbs": [str(number) * 1000]} for number in range(5_000)]
    with pytest.raises(TooManyRules):
        at_once(aggregated_rules(target, others))
