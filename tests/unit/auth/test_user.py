"""Users as values, and service accounts' names."""

from __future__ import annotations

import dataclasses

import pytest

from pykcp.auth.user import (
    ANONYMOUS_USER,
    CLUSTER_NAME_KEY,
    MASTERS,
    SCOPES_KEY,
    User,
    authenticated,
    global_name,
    service_account_user,
    split_service_account,
)


def test_users_with_the_same_content_are_the_same_key() -> None:
    first = User("u", "1", ("a", "b"), {"k": ("v",), "l": ("w",)})
    second = User("u", "1", ("a", "b"), {"l": ("w",), "k": ("v",)})
    assert {first: 1}[second] == 1


@pytest.mark.parametrize(
    "other",
    [
        User("v", "1", ("a",), {"k": ("v",)}),
        User("u", "2", ("a",), {"k": ("v",)}),
        User("u", "1", ("b",), {"k": ("v",)}),
        User("u", "1", ("a",), {"k": ("w",)}),
        User("u", "1", ("a",)),
        "u",
    ],
)
def test_users_that_differ_in_anything_differ(other: object) -> None:
    assert User("u", "1", ("a",), {"k": ("v",)}) != other


def test_a_user_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        User("u").name = "v"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        (User("u"), ("system:authenticated",)),
        (User("u", groups=("g",)), ("g", "system:authenticated")),
        (User("u", groups=("system:authenticated", "g")), ("system:authenticated", "g")),
        (User("u", groups=("system:unauthenticated",)), ("system:unauthenticated",)),
        (ANONYMOUS_USER, ("system:unauthenticated",)),
    ],
)
def test_system_authenticated_is_added_once_and_not_to_anonymous(
    user: User, groups: tuple[str, ...]
) -> None:
    assert authenticated(user).groups == groups


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("system:serviceaccount:default:bot", ("default", "bot")),
        ("system:serviceaccount:default:my.bot", ("default", "my.bot")),
        ("system:serviceaccount:default", None),
        ("system:serviceaccount:default:a:b", None),
        ("system:serviceaccount:Default:bot", None),
        ("system:serviceaccount:my.ns:bot", None),
        ("system:serviceaccount:default:", None),
        ("bot", None),
    ],
)
def test_service_account_names_are_split_only_if_valid(
    name: str, parts: tuple[str, str] | None
) -> None:
    assert split_service_account(name) == parts


def test_a_service_account_is_tied_to_its_cluster() -> None:
    user = service_account_user("c1", "ns", "bot", "uid", {"authentication.kubernetes.io/x": "y"})
    assert user.to_json() == {
        "username": "system:serviceaccount:ns:bot",
        "uid": "uid",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns"],
        "extra": {
            "authentication.kcp.io/cluster-name": ["c1"],
            "authentication.kcp.io/scopes": ["cluster:c1"],
            "authentication.kubernetes.io/x": ["y"],
        },
    }


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("alice"), "alice"),
        (User("alice", extra={SCOPES_KEY: ("cluster:c",)}), "alice@c"),
        (User("alice", extra={CLUSTER_NAME_KEY: ("c",)}), "alice@c"),
        (User("system:serviceaccount:default:default"), "system:serviceaccount:default:default@c"),
        (User("system:anonymous"), "system:anonymous@c"),
        (User("admin", groups=(MASTERS,)), ""),
    ],
)
def test_names_by_which_users_are_counted(user: User, expected: str) -> None:
    assert global_name(user, "c") == expected
