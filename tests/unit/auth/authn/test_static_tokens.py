"""Token files and the admin's tokens."""

from __future__ import annotations

import pytest

from pykcp.auth.authn.static_tokens import StaticTokens, admin_tokens, parse_token_file
from pykcp.auth.files import CredentialError
from pykcp.auth.kubeconfig import AdminTokens
from pykcp.auth.user import User


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("t,u,1", {"t": User("u", "1")}),
        ('t,u,1,"a,b"', {"t": User("u", "1", ("a", "b"))}),
        ("t,u,1,a,ignored", {"t": User("u", "1", ("a",))}),
        ("t,u,1,", {"t": User("u", "1", ("",))}),
        ("\nt,u,1\n\nv,w,2\n", {"t": User("u", "1"), "v": User("w", "2")}),
        ('"t ""x""",u,1', {'t "x"': User("u", "1")}),
        ("", {}),
    ],
)
def test_a_token_file_is_read_as_upstream_reads_it(text: str, users: dict[str, User]) -> None:
    parsed = parse_token_file(text, "f")
    assert parsed.users == users
    assert parsed.warnings == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "t,u",
            "token file 'f' must have at least 3 columns (token, user name, user uid), found 2",
        ),
        (
            "t,u,1\nx",
            "token file 'f' must have at least 3 columns (token, user name, user uid), found 1",
        ),
        ('t,u,"1', "token file 'f': unexpected end of data"),
    ],
)
def test_a_broken_token_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(CredentialError) as caught:
        parse_token_file(text, "f")
    assert str(caught.value) == message


def test_odd_lines_are_warned_of() -> None:
    parsed = parse_token_file("t,u,1\n,x,2\nt,v,3", "f")
    assert parsed.users == {"t": User("v", "3")}
    assert parsed.warnings == [
        "empty token has been found in token file 'f', record number '2'",
        "duplicate token has been found in token file 'f', record number '3'",
    ]


async def test_admin_tokens_map_to_their_users() -> None:
    tokens = AdminTokens(kcp_admin="k", shard_admin="s", user="u")
    authenticator = admin_tokens(tokens, lambda: "uid", [])

    async def user(token: str) -> User | None:
        found = await authenticator.authenticate(token, (), "", 0)
        return None if found is None else found.user

    assert await user("s") == User("shard-admin", "uid", ("system:masters", "system:authenticated"))
    assert await user("k") == User("kcp-admin", "uid", ("system:kcp:admin", "system:authenticated"))
    assert await user("u") == User("user", "uid", ("system:authenticated",))
    assert await user("other") is None


@pytest.mark.parametrize(
    ("accepted", "requested", "audiences"),
    [
        ([], [], ()),
        (["api"], [], ()),
        (["api", "x"], ["x", "y"], ("x",)),
        (["api"], ["other"], None),
        ([], ["other"], ()),
    ],
)
async def test_tokens_without_audience_are_good_for_the_servers_own(
    accepted: list[str], requested: list[str], audiences: tuple[str, ...] | None
) -> None:
    parsed = parse_token_file("t,u,1", "f")
    authenticator: StaticTokens = parsed.authenticator(accepted)
    found = await authenticator.authenticate("t", requested, "", 0)
    assert (None if found is None else found.audiences) == audiences
