"""Bootstrap tokens: the rules for their secrets, and where they are good."""

from __future__ import annotations

import base64
from math import inf
from typing import Any

import pytest

from pykcp.auth.authn.bootstrap_token import BootstrapTokens
from pykcp.auth.scopes import effective_users
from pykcp.auth.user import User
from pykcp.steps import at_once

NOW = 1_800_000_000.0
TOKEN = "abcdef.0123456789abcdef"


def secret(**changes: Any) -> dict[str, Any]:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        **changes.pop("data", {}),
    }
    encoded = {
        key.replace("_", "-"): base64.b64encode(value.encode()).decode()
        for key, value in data.items()
        if value is not None
    }
    return {
        "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "data": encoded,
        **changes,
    }


class Secrets:
    def __init__(self, **by_cluster: dict[str, Any]) -> None:
        self.by_cluster = by_cluster
        self.asked: list[str] = []

    async def secret(self, cluster: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert namespace == "kube-system"
        self.asked.append(cluster)
        found = self.by_cluster.get(cluster.replace(":", "_"))
        return found if name == "bootstrap-token-abcdef" else None


async def found_in(
    secrets: Secrets, token: str = TOKEN, cluster: str = "one"
) -> tuple[User, float, bool] | None:
    tokens = BootstrapTokens(secrets, ("api",))
    found = await tokens.authenticate(token, ("api",), cluster, NOW)
    return None if found is None else (found.user, found.expires, found.is_portable)


async def test_tokens_of_system_admin_are_good_everywhere() -> None:
    user = User("system:bootstrap:abcdef", groups=("system:bootstrappers",))
    assert await found_in(Secrets(system_admin=secret())) == (user, inf, True)


async def test_tokens_of_a_logical_cluster_are_good_there_only() -> None:
    secrets = Secrets(one=secret())
    found = await found_in(secrets)
    assert found is not None
    user, _, is_portable = found
    assert not is_portable
    assert [one.name for one in at_once(effective_users("one", user))] == [
        "system:bootstrap:abcdef"
    ]
    assert [one.name for one in at_once(effective_users("two", user))] == ["system:anonymous"]
    assert await found_in(secrets, cluster="two") is None
    assert await found_in(secrets, cluster="") is None
    assert await found_in(secrets, cluster="*") is None


async def test_groups_are_added_sorted_and_once() -> None:
    groups = "system:bootstrappers:b,system:bootstrappers:a:x,system:bootstrappers:b"
    found = await found_in(Secrets(system_admin=secret(data={"auth-extra-groups": groups})))
    assert found is not None
    assert found[0].groups == (
        "system:bootstrappers",
        "system:bootstrappers:a:x",
        "system:bootstrappers:b",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "Opaque"},
        {"data": {"token-secret": "0123456789abcdee"}},
        {"data": {"token-secret": None}},
        {"data": {"token-id": "abcdeg"}},
        {"data": {"usage-bootstrap-authentication": "false"}},
        {"data": {"usage-bootstrap-authentication": None}},
        {"data": {"expiration": "2027-01-15T07:59:59Z"}},
        {"data": {"expiration": "2027-01-15T08:00:00Z"}},
        {"data": {"expiration": "tomorrow"}},
        {"data": {"expiration": "20380115T080000Z"}},
        {"data": {"expiration": "2038-99-15T08:00:00Z"}},
        {"data": {"auth-extra-groups": "system:masters"}},
        {"data": {"auth-extra-groups": "system:bootstrappers:a,,"}},
        {"data": {"auth-extra-groups": "system:bootstrappers:a\n"}},
        {
            "metadata": {
                "namespace": "kube-system",
                "name": "bootstrap-token-abcdef",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            }
        },
    ],
)
async def test_secrets_that_prove_nothing(changes: dict[str, Any]) -> None:
    assert await found_in(Secrets(system_admin=secret(**changes))) is None


async def test_a_token_ends_with_its_secrets_time() -> None:
    found = await found_in(
        Secrets(system_admin=secret(data={"expiration": "2027-01-15T08:00:01Z"}))
    )
    assert found is not None
    assert found[1] == NOW + 1


@pytest.mark.parametrize(
    "token",
    ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", f"{TOKEN}\n", f"x{TOKEN}", "a.b.c"],
)
async def test_other_tokens_are_not_looked_up(token: str) -> None:
    secrets = Secrets(system_admin=secret())
    assert await found_in(secrets, token) is None
    assert not secrets.asked


async def test_audiences_count() -> None:
    tokens = BootstrapTokens(Secrets(system_admin=secret()), ("api",))
    assert await tokens.authenticate(TOKEN, ("else",), "one", NOW) is None
