"""As whom users count in a logical cluster; cases after kcp's own documentation."""

from __future__ import annotations

import json

import pytest

from pykcp.auth.scopes import (
    effective_scopes,
    effective_users,
    has_lifecycle_group,
    is_in_scope,
    prefixed,
)
from pykcp.auth.user import User
from pykcp.steps import at_once

SCOPES = "authentication.kcp.io/scopes"
CLUSTER = "authentication.kcp.io/cluster-name"
WARRANT = "authorization.kcp.io/warrant"
SA = "system:serviceaccount:ns:sa"


def scoped(*values: str, name: str = "u", cluster: tuple[str, ...] = ()) -> User:
    extra = {SCOPES: values} if values else {}
    if cluster:
        extra[CLUSTER] = cluster
    return User(name, extra=extra)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (scoped(), True),
        (scoped(""), False),
        (scoped("cluster:this"), True),
        (scoped("cluster:another"), False),
        (scoped("cluster:this", "cluster:another"), False),
        (scoped("", "cluster:this"), False),
        (scoped("unknown:foo"), False),
        (scoped("cluster:another,cluster:this"), True),
        (scoped("cluster:another,cluster:this", "cluster:this,cluster:other"), True),
        (scoped("cluster:another,cluster:other"), False),
        (scoped("cluster:this,cluster:other", "cluster:another,cluster:jungle"), False),
        (scoped(",,cluster:this"), True),
        (scoped(name=SA, cluster=("anotherws",)), False),
        (scoped(name=SA, cluster=("this",)), True),
        (scoped(name=SA), True),
        (scoped(name=SA, cluster=("this", "this")), False),
        (scoped("cluster:this", name=SA, cluster=("this",)), True),
        (scoped("cluster:this", name=SA, cluster=("another",)), False),
        (scoped("cluster:another", name=SA, cluster=("this",)), False),
        (scoped(name="u", cluster=("another",)), True),
    ],
)
def test_a_user_is_in_scope_where_every_scope_value_allows_it(user: User, expected: bool) -> None:
    assert is_in_scope(user, "this") is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        (["cluster:a"], ["cluster:a"]),
        (["cluster:a,cluster:b"], ["cluster:a", "cluster:b"]),
        (["cluster:a,cluster:b", "cluster:b,cluster:c"], ["cluster:b"]),
        (["cluster:a", "cluster:b"], []),
    ],
)
def test_effective_scopes_are_the_intersection(values: list[str], expected: list[str]) -> None:
    assert effective_scopes(values) == expected


def warranted(user: User, *warrants: object) -> User:
    texts = [w if isinstance(w, str) else json.dumps(w) for w in warrants]
    return user.with_extra(WARRANT, *texts)


def names(user: User, cluster: str = "this") -> list[str]:
    return [one.name for one in at_once(effective_users(cluster, user))]


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("a"), ["a"]),
        (warranted(User("a"), {"user": "b"}), ["a", "b"]),
        (warranted(User("a"), {"user": "b"}, {"user": "c"}), ["a", "b", "c"]),
        (warranted(User("a"), "invalid"), ["a"]),
        (warranted(User("a"), '["a list"]'), ["a"]),
        (warranted(User("a"), {"user": 1}), ["a"]),
        (warranted(User("a"), {"user": "b", "groups": "g"}), ["a"]),
        (warranted(User("a"), {"user": "b", "extra": {"k": "v"}}), ["a"]),
        (
            warranted(User("a"), {"user": "b", "extra": {WARRANT: ['{"user":"c"}']}}),
            ["a", "b", "c"],
        ),
        (  # a scoped warrant falls, the user itself does not
            warranted(User("a"), {"user": "b", "extra": {SCOPES: ["cluster:another"]}}),
            ["a", "system:anonymous"],
        ),
        (  # a scope mismatch does not invalidate warrants
            warranted(scoped("cluster:another"), {"user": "b"}),
            ["b", "system:anonymous"],
        ),
        (warranted(User("a"), {"user": SA}), ["a"]),
        (warranted(User("a"), {"user": SA, "extra": {SCOPES: ["cluster:this"]}}), ["a"]),
        (
            warranted(User("a"), {"user": SA, "extra": {CLUSTER: ["this"]}}),
            ["a", SA, "system:kcp:serviceaccount:this:ns:sa"],
        ),
        (
            warranted(User("a"), {"user": SA, "extra": {CLUSTER: ["another"]}}),
            ["a", "system:kcp:serviceaccount:another:ns:sa", "system:anonymous"],
        ),
        (User(SA), [SA]),
        (
            scoped(name=SA, cluster=("this",)),
            [SA, "system:kcp:serviceaccount:this:ns:sa"],
        ),
        (
            scoped(name=SA, cluster=("other",)),
            ["system:kcp:serviceaccount:other:ns:sa", "system:anonymous"],
        ),
    ],
)
def test_effective_users(user: User, expected: list[str]) -> None:
    assert names(user) == expected


def test_out_of_scope_users_are_known_by_where_they_come_from() -> None:
    extra = {SCOPES: ("cluster:a,cluster:b", "cluster:b,cluster:c")}
    user = User("u", groups=("team", "system:authenticated"), extra=extra)
    assert at_once(effective_users("elsewhere", user)) == (
        User("system:anonymous", groups=("system:authenticated", "system:cluster:b")),
    )


def test_out_of_scope_and_never_authenticated_is_anonymous() -> None:
    (found,) = at_once(effective_users("elsewhere", scoped("cluster:a")))
    assert found.groups == ("system:unauthenticated",)


def test_a_foreign_service_account_keeps_only_what_it_is_elsewhere() -> None:
    user = User(
        SA,
        groups=("system:serviceaccounts", "system:authenticated"),
        extra={CLUSTER: ("home",), SCOPES: ("cluster:home",)},
    )
    everywhere, fallen = at_once(effective_users("elsewhere", user))
    assert everywhere.name == "system:kcp:serviceaccount:home:ns:sa"
    assert everywhere.groups == ("system:authenticated", "system:cluster:home")
    assert fallen.groups == ("system:authenticated", "system:cluster:home")


def test_lifecycle_groups_are_told_by_their_prefix() -> None:
    assert has_lifecycle_group(["x", "system:kcp:initializer:root:tenant"])
    assert has_lifecycle_group(["system:kcp:terminator:root:tenant"])
    assert not has_lifecycle_group(["system:kcp:admin"])


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("u", "1", ("g",)), User("p:u", "1", ("p:g",))),
        (
            User(SA, groups=("g",), extra={CLUSTER: ("c",)}),
            User("p:system:kcp:serviceaccount:c:ns:sa", groups=("p:g",), extra={CLUSTER: ("c",)}),
        ),
        (
            User(SA, groups=("system:authenticated",)),
            User("p:system:anonymous", groups=("p:system:authenticated",)),
        ),
        (User(SA), User("p:system:anonymous", groups=("p:system:unauthenticated",))),
        (
            User("u", extra={WARRANT: ('{"user":"w","groups":["h"]}', "bad")}),
            User("p:u", extra={WARRANT: ('{"user":"p:w","groups":["p:h"]}',)}),
        ),
    ],
)
def test_prefixed_users_are_those_a_permission_policy_binds(user: User, expected: User) -> None:
    assert at_once(prefixed(user, "p:")) == expected


def test_tens_of_thousands_of_warrants_are_looked_at_one_by_one() -> None:
    """In as many steps, so that others need not wait for all of them."""
    user = warranted(User("a"), *({"user": f"u{number}"} for number in range(60_000)))
    assert len(at_once(effective_users("this", user))) == 60_001
    assert sum(1 for _ in effective_users("this", user)) >= 60_000
    assert sum(1 for _ in prefixed(user, "p:")) >= 60_000


def test_many_long_scopes_are_intersected() -> None:
    many = ",".join(f"cluster:c{number}" for number in range(50_000))
    assert len(effective_scopes([many, many, many])) == 50_000
