"""Roles and bindings: to whom they apply and where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.auth.authz import rbac
from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.rbac import ClusterPolicy, RbacObjects, RoleError
from pykcp.auth.authz.rule_index import RuleIndex
from pykcp.auth.authz.rules import Match, PolicyRule
from pykcp.auth.user import User
from pykcp.steps import Steps, at_once

ALICE = User("alice", groups=("team",))
BOT = User("system:serviceaccount:ns:bot")


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "rules": list(rules)}


def binding(
    name: str, ref: str, *subjects: dict[str, str], namespace: str = "", kind: str = "ClusterRole"
) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "metadata": metadata,
        "roleRef": {"kind": kind, "name": ref},
        "subjects": list(subjects),
    }


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


def group(name: str) -> dict[str, str]:
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "") -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
NAMED = {**READ, "resourceNames": ["one"]}
URL = {"verbs": ["get"], "nonResourceURLs": ["/x"]}


def ask(
    policy: ClusterPolicy, who: User, namespace: str = "", name: str = "", roles: Any = None
) -> rbac.RbacAnswer:
    attributes = Attributes(who, "get", namespace, "", "configmaps", name=name)
    return at_once(rbac.authorize(policy, roles or [policy], [who], attributes))


@pytest.mark.parametrize(
    ("subject", "who", "allowed"),
    [
        (user("alice"), ALICE, True),
        (user("bob"), ALICE, False),
        (group("team"), ALICE, True),
        (group("alice"), ALICE, False),
        (user("team"), ALICE, False),
        (account("bot", "ns"), BOT, True),
        (account("bot", "other"), BOT, False),
        (account("bot"), BOT, False),
        (user("system:serviceaccount:ns:bot"), BOT, True),
        ({"kind": "Other", "name": "alice"}, ALICE, False),
    ],
)
def test_subjects_of_a_cluster_role_binding(
    subject: dict[str, str], who: User, allowed: bool
) -> None:
    policy = ClusterPolicy(
        RbacObjects([role("reader", READ)], [binding("b", "reader", user("nobody"), subject)])
    )
    assert ask(policy, who).allowed is allowed
    assert ask(policy, who, "any-namespace").allowed is allowed


@pytest.mark.parametrize(
    ("subject", "who"), [(user("alice"), ALICE), (account("bot"), BOT), (account("bot", "ns"), BOT)]
)
def test_a_role_binding_counts_in_its_namespace_only(subject: dict[str, str], who: User) -> None:
    policy = ClusterPolicy(
        RbacObjects(
            [role("reader", READ, URL)],
            role_bindings=[binding("b", "reader", subject, namespace="ns")],
        )
    )
    assert ask(policy, who, "ns").allowed
    assert not ask(policy, who, "other").allowed
    assert not ask(policy, who).allowed
    asked = path_attributes(who, "get", "/x")
    assert not at_once(rbac.authorize(policy, [policy], [who], asked)).allowed


def test_roles_are_looked_up_in_the_bindings_namespace() -> None:
    objects = RbacObjects(
        roles=[role("reader", READ, namespace="ns"), role("reader", namespace="other")],
        role_bindings=[
            binding("b", "reader", user("alice"), namespace="ns", kind="Role"),
            binding("b", "reader", user("alice"), namespace="other", kind="Role"),
        ],
    )
    policy = ClusterPolicy(objects)
    assert ask(policy, ALICE, "ns").allowed
    assert not ask(policy, ALICE, "other").allowed


def test_roles_of_another_policy_can_be_bound_and_ones_own_come_first() -> None:
    admin = ClusterPolicy(RbacObjects([role("reader", READ), role("shadowed", READ)]))
    local = ClusterPolicy(
        RbacObjects(
            [role("shadowed")],
            [binding("a", "reader", user("alice")), binding("b", "shadowed", group("team"))],
        )
    )
    assert ask(local, ALICE, roles=[local, admin]).allowed
    assert not ask(local, User("x", groups=("team",)), roles=[local, admin]).allowed


@pytest.mark.parametrize(
    ("objects", "who", "namespace", "reason"),
    [
        (
            RbacObjects([role("r", READ)], [binding("b", "r", group("team"))]),
            ALICE, "",
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "team"',
        ),
        (
            RbacObjects(
                roles=[role("r", READ, namespace="ns")],
                role_bindings=[binding("b", "r", account("bot"), namespace="ns", kind="Role")],
            ),
            BOT, "ns",
            'RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "bot/ns"',
        ),
        (RbacObjects(), ALICE, "", ""),
        (
            RbacObjects([], [binding("b", "gone", user("alice"))]), ALICE, "",
            'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
        ),
        (
            RbacObjects(
                [],
                [binding("b", "x", user("alice"), kind="Odd"), binding("c", "gone", user("alice"))],
            ),
            ALICE, "",
            ('RBAC: [unsupported role reference kind: "Odd", '
            'clusterrole.rbac.authorization.k8s.io "gone" not found]'),
        ),
    ],
)  # fmt: skip
def test_reasons(objects: RbacObjects, who: User, namespace: str, reason: str) -> None:
    assert ask(ClusterPolicy(objects), who, namespace).reason == reason


@pytest.mark.parametrize(
    ("rules", "name", "allowed", "depends"),
    [
        ([READ], "one", True, False),
        ([NAMED], "one", True, True),
        ([NAMED], "two", False, True),
        ([NAMED], "", False, True),
        ([NAMED, READ], "one", True, False),
        ([URL], "one", False, False),
    ],
)
def test_whether_the_answer_holds_for_other_names(
    rules: list[dict[str, Any]], name: str, allowed: bool, depends: bool
) -> None:
    policy = ClusterPolicy(RbacObjects([role("r", *rules)], [binding("b", "r", user("alice"))]))
    answer = ask(policy, ALICE, name=name)
    assert (answer.allowed, answer.depends_on_name) == (allowed, depends)


def test_rules_for_lists_each_binding_once() -> None:
    objects = RbacObjects(
        [role("a", READ), role("b", URL)],
        [
            binding("two", "b", user("alice"), group("team")),
            binding("one", "a", group("team")),
            binding("gone", "missing", user("alice")),
        ],
        role_bindings=[binding("one", "a", user("alice"), namespace="ns")],
    )
    policy = ClusterPolicy(objects)
    rules, errors = at_once(rbac.rules_for(policy, [policy], [ALICE], "ns"))
    assert sorted(rules, key=repr) == sorted(
        [PolicyRule.from_json(READ), PolicyRule.from_json(URL), PolicyRule.from_json(READ)],
        key=repr,
    )
    assert errors == ['clusterrole.rbac.authorization.k8s.io "missing" not found']


def test_a_role_that_does_not_exist_cannot_be_resolved() -> None:
    with pytest.raises(RoleError, match=r'role\.rbac\.authorization\.k8s\.io "x" not found'):
        rbac.resolve("Role", "x", "ns", [rbac.EMPTY_POLICY])


def test_objects_with_parts_missing_grant_nothing() -> None:
    policy = ClusterPolicy(
        RbacObjects([{}], [{}, {"metadata": None, "subjects": None}], [{}], [{"subjects": [{}]}])
    )
    assert not ask(policy, User("")).allowed


# --- many rules, bindings and groups --------------------------------------------


def _some(*values: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=3)


RULE = st.builds(
    PolicyRule,
    _some("get", "list", "*"),
    _some("", "apps", "*"),
    _some("a", "b", "a/x", "*/x", "*"),
    _some("m", "n"),
    _some("/u", "/u/*", "/u/v", "*"),
)
QUESTION = st.one_of(
    st.builds(
        Attributes,
        st.just(ALICE),
        verb=st.sampled_from(["get", "list"]),
        group=st.sampled_from(["", "apps", "c"]),
        resource=st.sampled_from(["a", "b"]),
        subresource=st.sampled_from(["", "x"]),
        name=st.sampled_from(["", "m", "n"]),
    ),
    st.builds(
        path_attributes,
        st.just(ALICE),
        st.sampled_from(["get", "list"]),
        st.sampled_from(["/u", "/u/v", "/w", ""]),
    ),
)


@given(st.lists(RULE, max_size=6), QUESTION)
def test_an_index_finds_what_rules_match_one_by_one(
    rules: list[PolicyRule], attributes: Attributes
) -> None:
    combined = attributes.resource
    if attributes.subresource:
        combined += "/" + attributes.subresource
    index = RuleIndex(len(rules))
    for rule in rules:
        index.add(rule)
    expected = max((rule.match(attributes, combined) for rule in rules), default=Match.NONE)
    assert index.match(attributes, combined) is expected


def _steps(steps: Steps[Any]) -> int:
    return sum(1 for _ in steps)


def test_a_role_of_thousands_of_rules_is_one_look() -> None:
    """Tens of thousands of questions to a role of tens of thousands of rules."""
    names = [f"n{number}" for number in range(20_000)]
    rules = [{**READ, "resourceNames": [name]} for name in names]
    policy = ClusterPolicy(RbacObjects([role("r", *rules)], [binding("b", "r", user("alice"))]))
    assert all(ask(policy, ALICE, name=name).allowed for name in names)
    assert not ask(policy, ALICE, name="other").allowed
    asked = Attributes(ALICE, "get", "", "", "configmaps", name=names[-1])
    assert _steps(rbac.authorize(policy, [policy], [ALICE], asked)) < 10


def test_thousands_of_bindings_to_the_same_role() -> None:
    bindings = [binding(f"b{number}", "r", *[user("alice")] * 10) for number in range(1000)]
    policy = ClusterPolicy(RbacObjects([role("r", READ), role("x", URL)], bindings))
    asked = Attributes(ALICE, "list", "", "", "configmaps")
    answer = at_once(rbac.authorize(policy, [policy], [ALICE], asked))
    assert not answer.allowed


def test_a_policy_is_built_in_steps() -> None:
    """Each of a rule or a subject, so that none takes long."""
    objects = RbacObjects([role("r", *[READ] * 1000)], [binding("b", "r", *[user("alice")] * 1000)])
    assert _steps(ClusterPolicy.in_steps(objects)) >= 2000
    assert at_once(ClusterPolicy.in_steps(objects)).size >= 2000
