"""Impersonation; the texts are those of a running kube-apiserver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.auth.authz.attributes import Attributes, Decision, Verdict, path_attributes
from pykcp.auth.impersonation import (
    Impersonator,
    check_gate,
    is_requested,
    requested_user,
    tie_to_cluster,
)
from pykcp.auth.scopes import effective_users
from pykcp.auth.user import User
from pykcp.machinery.status import BadRequest, Forbidden
from pykcp.steps import at_once

ALICE = User("alice")
SA = "system:serviceaccount:ns:sa"
MASTER = User("root", groups=("system:masters",))


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([], None),
        ([("accept", "x")], None),
        ([("impersonate-user", "bob")], User("bob")),
        (
            [("impersonate-user", "bob"), ("impersonate-group", "g"), ("impersonate-group", "h"),
             ("impersonate-uid", "7"), ("impersonate-extra-acme.com%2fScope", "x"),
             ("impersonate-extra-acme.com%2fscope", "y")],
            User("bob", "7", ("g", "h"), {"acme.com/scope": ("x", "y")}),
        ),
    ],
)  # fmt: skip
def test_headers_name_a_user(headers: Any, user: User | None) -> None:
    assert requested_user(headers) == user
    assert is_requested(headers) is (user is not None)


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        (
            [("impersonate-group", "g")],
            (
                '&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, '
                "Extra:map[string][]string(nil)}"
            ),
        ),
        (
            [("impersonate-extra-foo", "g"), ("impersonate-uid", "7")],
            (
                '&user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), '
                'Extra:map[string][]string{"foo":[]string{"g"}}}'
            ),
        ),
        (
            [("impersonate-user", ""), ("impersonate-group", "a"), ("impersonate-group", "b")],
            (
                '&user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", "b"}, '
                "Extra:map[string][]string(nil)}"
            ),
        ),
    ],
)
def test_a_name_is_needed(headers: Any, shown: str) -> None:
    with pytest.raises(BadRequest) as caught:
        requested_user(headers)
    assert caught.value.message == f"requested {shown} without impersonating a user name"


SPECIAL = [
    "system:masters",
    "system:kcp:admin",
    "system:kcp:logical-cluster-admin",
    "system:kcp:external-logical-cluster-admin",
    "system:kcp:tenancy:workspace-bootstrapper",
    "system:authenticated",
    "system:kcp:initializer:root:x",
    "system:kcp:terminator:root:x",
]
WARRANT = "authorization.kcp.io/warrant"


@pytest.mark.parametrize("group", SPECIAL)
def test_the_gatekeeper_keeps_special_groups_to_their_members(group: str) -> None:
    wanted = User("x", groups=("team", group))
    with pytest.raises(Forbidden) as caught:
        at_once(check_gate(ALICE, wanted))
    assert caught.value.message == "forbidden: impersonation is not allowed for the requestor"
    at_once(check_gate(User("alice", groups=(group,)), wanted))
    at_once(check_gate(MASTER, wanted))


def test_ordinary_groups_pass_the_gate() -> None:
    at_once(check_gate(ALICE, User("x", groups=("team", "system:nodes"))))


@pytest.mark.parametrize("group", SPECIAL)
def test_the_gatekeeper_looks_into_warrants(group: str) -> None:
    inner = json.dumps({"user": "z", "groups": [group]})
    outer = json.dumps({"user": "y", "extra": {WARRANT: [inner]}})
    wanted = User("x", extra={WARRANT: (outer,)})
    with pytest.raises(Forbidden):
        at_once(check_gate(ALICE, wanted))
    at_once(check_gate(User("alice", groups=(group,)), wanted))
    at_once(check_gate(MASTER, wanted))


def test_warrants_are_tied_to_the_cluster_with_who_carries_them() -> None:
    inner = json.dumps({"user": "z"})
    outer = json.dumps({"user": "y", "groups": ["g"], "extra": {WARRANT: [inner]}})
    wanted = User("x", extra={WARRANT: (outer, "nonsense")})
    tied = at_once(tie_to_cluster(ALICE, wanted, "ws"))
    assert [one.name for one in at_once(effective_users("ws", tied))] == ["x", "y", "z"]
    assert [one.name for one in at_once(effective_users("other", tied))] == ["system:anonymous"]


@pytest.mark.parametrize(
    ("origin", "cluster", "expected"),
    [
        ("home", "home", [SA, "system:kcp:serviceaccount:home:ns:sa"]),
        ("home", "other", ["system:kcp:serviceaccount:home:ns:sa", "system:anonymous"]),
        ("far", "home", ["system:kcp:serviceaccount:far:ns:sa", "system:anonymous"]),
        ("far", "far", ["system:anonymous"]),
        ("far", "other", ["system:anonymous"]),
    ],
)
def test_whose_service_account_somebody_acts_as(
    origin: str, cluster: str, expected: list[str]
) -> None:
    """An administrator of `home` could have a token of its accounts, but of no others."""
    account = User(SA, extra={"authentication.kcp.io/cluster-name": (origin,)})
    tied = at_once(tie_to_cluster(ALICE, account, "home"))
    assert [one.name for one in at_once(effective_users(cluster, tied))] == expected


def test_an_impersonated_user_is_tied_to_its_cluster() -> None:
    scopes = "authentication.kcp.io/scopes"
    wanted = User("bob", extra={scopes: ("cluster:a",)})
    assert at_once(tie_to_cluster(ALICE, wanted, "ws")).extra[scopes] == ("cluster:a", "cluster:ws")
    assert at_once(tie_to_cluster(MASTER, wanted, "ws")) is wanted


class Policy:
    """Allows what is listed as `verb group/resource[/subresource] [ns:]name`."""

    def __init__(self, *allowed: str) -> None:
        self.allowed, self.asked = set(allowed), list[str]()

    async def __call__(self, a: Attributes) -> Decision:
        if a.is_resource:
            resource = "/".join(
                part for part in (a.group or "core", a.resource, a.subresource) if part
            )
            what = f"{a.verb} {resource} {a.namespace + ':' if a.namespace else ''}{a.name}".strip()
        else:
            what = f"{a.verb} {a.path}"
        self.asked.append(what)
        allowed = what in self.allowed
        return Decision(Verdict.ALLOW if allowed else Verdict.NO_OPINION, "" if allowed else "why")


LIST = Attributes(ALICE, "list", "", "", "configmaps")
AUTHN = "authentication.k8s.io"
ON = "impersonate-on:user-info:list core/configmaps"
AS_BOB = f"impersonate:user-info {AUTHN}/users bob"


async def attempt(policy: Policy, wanted: User, attributes: Attributes = LIST) -> User:
    return await Impersonator().impersonate(policy, attributes, wanted)


@pytest.mark.parametrize(
    ("wanted", "allowed", "groups"),
    [
        (User("bob"), ["impersonate core/users bob"], ("system:authenticated",)),
        (User("bob", groups=("g",)), ["impersonate core/users bob", "impersonate core/groups g"],
         ("g", "system:authenticated")),
        (User("bob", groups=("system:unauthenticated",)),
         ["impersonate core/users bob", "impersonate core/groups system:unauthenticated"],
         ("system:unauthenticated",)),
        (User("system:anonymous"), ["impersonate core/users system:anonymous"],
         ("system:unauthenticated",)),
        (User("system:serviceaccount:ns:sa"), ["impersonate core/serviceaccounts ns:sa"],
         ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")),
        (User("system:serviceaccount:ns:sa", groups=("g",)),
         ["impersonate core/serviceaccounts ns:sa", "impersonate core/groups g"],
         ("g", "system:authenticated")),
        (User("bob", "7", (), {"k": ("a", "b")}),
         ["impersonate core/users bob", f"impersonate {AUTHN}/uids 7",
          f"impersonate {AUTHN}/userextras/k a", f"impersonate {AUTHN}/userextras/k b"],
         ("system:authenticated",)),
        (User("system:node:n1"), ["impersonate core/users system:node:n1"],
         ("system:authenticated",)),
        # constrained
        (User("bob"),
         [ON, AS_BOB],
         ("system:authenticated",)),
        (User("system:serviceaccount:ns:sa"),
         ["impersonate-on:serviceaccount:list core/configmaps",
          f"impersonate:serviceaccount {AUTHN}/serviceaccounts ns:sa"],
         ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")),
        (User("system:node:n1"),
         ["impersonate-on:arbitrary-node:list core/configmaps",
          f"impersonate:arbitrary-node {AUTHN}/nodes n1"],
         ("system:nodes", "system:authenticated")),
        (User("bob", groups=("a", "b", "c", "d")),
         [ON, AS_BOB,
          f"impersonate:user-info {AUTHN}/groups *"],
         ("a", "b", "c", "d", "system:authenticated")),
        (User("bob", extra={"x.io/k": ("1", "2", "3", "4")}),
         [ON, AS_BOB,
          f"impersonate:user-info {AUTHN}/userextras/* *"],
         ("system:authenticated",)),
    ],
)  # fmt: skip
async def test_who_may_act_as_whom(wanted: User, allowed: list[str], groups: Any) -> None:
    user = await attempt(Policy(*allowed), wanted)
    assert (user.name, user.uid, user.groups, dict(user.extra)) == (
        wanted.name, wanted.uid, groups, dict(wanted.extra),
    )  # fmt: skip
    for missing in allowed:  # each single permission is needed
        with pytest.raises(Forbidden):
            await attempt(Policy(*(one for one in allowed if one != missing)), wanted)


@pytest.mark.parametrize(
    ("wanted", "attributes", "message"),
    [
        (User("bob"), LIST,
         ('configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource '
         '"configmaps" in API group "" at the cluster scope: why')),
        (User("system:serviceaccount:ns:x"), LIST,
         ('configmaps is forbidden: User "alice" cannot impersonate-on:serviceaccount:list '
          'resource "configmaps" in API group "" at the cluster scope: why')),
        (User("system:serviceaccount:ns:x", groups=("g",)), LIST,
         ('serviceaccounts "x" is forbidden: User "alice" cannot impersonate resource '
         '"serviceaccounts" in API group "" in the namespace "ns": why')),
        (User("system:node:n1"), LIST,
         ('configmaps is forbidden: User "alice" cannot impersonate-on:arbitrary-node:list '
          'resource "configmaps" in API group "" at the cluster scope: why')),
        (User("bob"), path_attributes(ALICE, "get", "/version"),
         'forbidden: User "alice" cannot impersonate-on:user-info:get path "/version": why'),
    ],
)  # fmt: skip
async def test_the_first_refusal_is_told(
    wanted: User, attributes: Attributes, message: str
) -> None:
    with pytest.raises(Forbidden) as caught:
        await attempt(Policy(), wanted, attributes)
    assert caught.value.message == message


async def test_the_mode_that_worked_is_tried_first_and_told_of_first() -> None:
    impersonator = Impersonator()
    policy = Policy("impersonate core/users bob")
    await impersonator.impersonate(policy, LIST, User("bob"))
    policy.asked.clear()
    await impersonator.impersonate(policy, LIST, User("bob"))
    assert policy.asked == ["impersonate core/users bob"]
    with pytest.raises(Forbidden) as caught:
        await impersonator.impersonate(policy, LIST, User("carol"))
    assert caught.value.message == (
        'users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group '
        '"" at the cluster scope: why'
    )


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (User("bob", groups=("",)), "impersonating the empty string group is not allowed"),
        (User("bob", groups=("system:masters",)),
         "impersonating the system:masters group is not allowed"),
        (User("bob", extra={"": ("x",)}),
         "impersonating the empty string key in extra is not allowed"),
        (User("bob", extra={"plain": ("x",)}),
         ("impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "
         '"plain": must be a domain-prefixed path (such as "acme.io/foo")')),
        (User("bob", extra={"x.io/k": ("",)}),
         "impersonating the empty string value in extra is not allowed"),
    ],
)  # fmt: skip
async def test_constrained_modes_are_strict(wanted: User, reason: str) -> None:
    with pytest.raises(Forbidden) as caught:
        await attempt(Policy(ON, AS_BOB, f"impersonate:user-info {AUTHN}/groups *"), wanted)
    assert caught.value.message.endswith(reason)


async def test_a_bad_domain_and_path_are_both_told() -> None:
    with pytest.raises(Forbidden) as caught:
        await attempt(Policy(ON, AS_BOB), User("bob", extra={"X_/ä": ("v",)}))
    assert "not allowed: [extra.key: Invalid value: " in caught.value.message
