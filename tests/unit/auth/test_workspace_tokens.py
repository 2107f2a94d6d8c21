"""Issuers of a workspace's own: who they can make somebody, where, and for how long."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from pykcp.auth.authn import workspace
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.workspace import WorkspaceTokens, confined
from pykcp.auth.user import User
from pykcp.clients.destinations import Destinations
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound
from pykcp.clients.shares import Shares
from pykcp.testing.issuer import AUDIENCE, DISCOVERY, TestIssuer
from pykcp.types import Object

# The issuer runs in a thread of this process; connections that its side has not seen the end of are
# closed by garbage collection, which says so in whatever test is running then.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

APIS = ("https://kcp.default.svc",)


class Types:
    """Workspaces `a` and `b` have type `root:t`, `plain` has none with issuers."""

    def __init__(self) -> None:
        self.known: dict[str, list[Object]] = {"root:t": []}

    def type_of(self, cluster: str) -> str:
        return {"a": "root:t", "b": "root:t", "plain": "root:plain"}.get(cluster, "")

    def configurations(self, type_name: str) -> Sequence[Object]:
        return self.known.get(type_name, [])


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    made = TestIssuer("ES256")
    yield made
    made.close()


def configuration(issuer: TestIssuer, version: str = "1", **mappings: Any) -> Object:
    entry = {
        "issuer": {
            "url": issuer.url,
            "certificateAuthority": issuer.ca,
            "audiences": [AUDIENCE],
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {
            "username": {"claim": "sub", "prefix": ""},
            "groups": {"claim": "groups", "prefix": ""},
            **mappings,
        },
    }
    return {"metadata": {"uid": "u", "resourceVersion": version}, "spec": {"jwt": [entry]}}


@contextlib.asynccontextmanager
async def running(
    types: Types, destinations: Destinations | None = None
) -> AsyncIterator[WorkspaceTokens]:
    outbound = Outbound(destinations or Destinations(), HostNames(), Shares(8))
    tokens = WorkspaceTokens(types, APIS, outbound)
    task = asyncio.create_task(tokens.run())
    await asyncio.sleep(0)  # it has to have begun to end
    try:
        yield tokens
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await outbound.close()


async def test_issuers_that_may_not_be_called(
    issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of theirs are refused, and nothing was sent."""
    monkeypatch.setattr(workspace, "REACH_SECONDS", 0.5)
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    async with running(types, Destinations(deny=["127.0.0.0/8"])) as tokens:
        task = asyncio.create_task(tokens.authenticate(issuer.token(), APIS, "a", time.time() - 11))
        with pytest.raises(CredentialRejected, match="not initialized"):
            await task
    assert issuer.server.received == []


async def test_a_token_counts_in_workspaces_of_the_type_only(issuer: TestIssuer) -> None:
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    token = issuer.token(groups=["devs", "system:masters"])
    async with running(types) as tokens:
        found = await tokens.authenticate(token, APIS, "a", time.time())
        assert found is not None
        assert found.user.name == "alice"
        assert found.user.groups == ("devs",)
        assert not found.is_portable
        assert found.audiences == APIS
        elsewhere = await tokens.authenticate(token, APIS, "b", time.time())
        assert elsewhere is not None
        assert elsewhere.user.extra["authentication.kcp.io/scopes"] == ("cluster:b",)
        for cluster in ("plain", "unknown", ""):
            assert await tokens.authenticate(token, APIS, cluster, time.time()) is None
    assert issuer.server.count(DISCOVERY) == 1


async def test_tokens_of_others_are_not_waited_for(issuer: TestIssuer) -> None:
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    async with running(types) as tokens:
        for token in ("opaque", issuer.token(iss="https://elsewhere.example")):
            assert await tokens.authenticate(token, APIS, "a", time.time()) is None


async def test_bad_tokens_are_refused(issuer: TestIssuer) -> None:
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    async with running(types) as tokens:
        with pytest.raises(CredentialRejected, match="token is expired"):
            await tokens.authenticate(issuer.token(exp=1), APIS, "a", time.time())
        with pytest.raises(CredentialRejected, match="system usernames are not admitted"):
            await tokens.authenticate(issuer.token(sub="system:admin"), APIS, "a", time.time())


async def test_a_changed_configuration_counts_at_once(issuer: TestIssuer) -> None:
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    token = issuer.token()
    async with running(types) as tokens:
        first = await tokens.authenticate(token, APIS, "a", time.time())
        prefixed = {"username": {"claim": "sub", "prefix": "corp:"}}
        types.known["root:t"] = [configuration(issuer, "2", **prefixed)]
        second = await tokens.authenticate(token, APIS, "a", time.time())
        types.known["root:t"] = []
        third = await tokens.authenticate(token, APIS, "a", time.time())
    assert first is not None
    assert second is not None
    assert (first.user.name, second.user.name, third) == ("alice", "corp:alice", None)


async def test_what_cannot_be_used_is_said_once(
    issuer: TestIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    types = Types()
    broken = configuration(issuer, username={"claim": "", "expression": "nonsense("})
    types.known["root:t"] = [broken]
    async with running(types) as tokens:
        for _ in range(3):
            assert await tokens.authenticate(issuer.token(), APIS, "a", time.time()) is None
    assert len([r for r in caplog.records if "cannot be used" in r.message]) == 1


async def test_an_issuer_that_is_away_holds_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch, issuer: TestIssuer
) -> None:
    monkeypatch.setattr(workspace, "REACH_SECONDS", 0.05)
    types = Types()
    types.known["root:t"] = [configuration(issuer)]
    token = issuer.token()
    issuer.close()
    async with running(types) as tokens:
        for _ in range(2):
            with pytest.raises(CredentialRejected, match="not initialized"):
                await tokens.authenticate(token, APIS, "a", time.time())


@pytest.mark.parametrize(
    ("extra", "kept"),
    [
        ({}, {}),
        ({"example.com/team": ("red",)}, {"example.com/team": ("red",)}),
        ({"authentication.kcp.io/scopes": ("cluster:root",)}, {}),
        ({"my.kcp.io/x": ("y",), "a/b": ("c",)}, {"a/b": ("c",)}),
    ],
)
def test_nothing_of_the_system_comes_from_an_issuer(extra: Any, kept: Any) -> None:
    user = confined(User("alice", "1", ("system:kcp:admin", "b", "a", "b"), extra), "here")
    assert user.groups == ("a", "b")
    assert user.extra == {
        **kept,
        "authentication.kcp.io/scopes": ("cluster:here",),
        "authentication.kcp.io/cluster-name": ("here",),
    }
