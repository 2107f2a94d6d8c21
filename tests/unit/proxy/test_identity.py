"""What the servers behind the proxy are told about users."""

from __future__ import annotations

import pytest

from pykcp.auth.user import User
from pykcp.proxy.identity import DROPPED_GROUPS, GroupFilter, IdentityHeaders
from pykcp.proxy.mapping import PathMapping

MAPPING = PathMapping("/clusters/", "https://x", "ca", "crt", "key")


@pytest.mark.parametrize(
    ("pass_on", "drop", "groups", "left"),
    [
        ((), (), ("b", "a", "b"), ["a", "b"]),
        ((), DROPPED_GROUPS, ("system:masters", "team"), ["team"]),
        ((), DROPPED_GROUPS, ("system:kcp:initializer:root:x", "system:kcp:admin"), ["system:kcp:admin"]),
        ((), DROPPED_GROUPS, ("system:kcp:terminator:x", "system:kcp:logical-cluster-admin"), []),
        (("team-*", "x"), (), ("team-a", "x", "y"), ["team-a", "x"]),
        (("team-*",), ("team-b",), ("team-a", "team-b"), ["team-a"]),
        (("*",), ("*",), ("a",), []),
    ],
)  # fmt: skip
def test_groups_are_filtered(
    pass_on: tuple[str, ...], drop: tuple[str, ...], groups: tuple[str, ...], left: list[str]
) -> None:
    assert GroupFilter(pass_on, drop).groups(User("alice", groups=groups)) == left


def test_a_user_in_headers() -> None:
    user = User("alice", "uid-1", ("b", "a"), {"authentication.kcp.io/scopes": ("cluster:x", "y")})
    assert IdentityHeaders(MAPPING).of(user, None) == (
        ("x-remote-user", "alice"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-authentication.kcp.io%2fscopes", "cluster:x"),
        ("x-remote-extra-authentication.kcp.io%2fscopes", "y"),
    )


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("accept", True),
        ("impersonate-user", True),
        ("x-remote-user", False),
        ("x-remote-uid", False),
        ("x-remote-group", False),
        ("x-remote-extra-authentication.kcp.io%2fscopes", False),
        ("x-user", False),
        ("x-team", False),
        ("x-more-anything", False),
        ("x-pykcp-virtual-workspaces", False),
        ("connection", False),
        ("te", False),
    ],
)
def test_clients_cannot_name_users(name: str, passes: bool) -> None:
    names = {"user_header": "x-user", "group_header": "x-team", "extra_header_prefix": "x-more-"}
    headers = IdentityHeaders(MAPPING._replace(**names))
    assert headers.passed([(name, "x")], without_token=False) == ([(name, "x")] if passes else [])


def test_credentials_end_where_they_are_verified() -> None:
    headers, token = IdentityHeaders(MAPPING), ("authorization", "Bearer x")
    assert headers.passed([token], without_token=True) == []
    assert headers.passed([token], without_token=False) == [token]
