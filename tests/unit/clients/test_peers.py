"""Other shards by name: what is known of them, and requests to them."""

from __future__ import annotations

import asyncio
import pathlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.clients.peers import DeadPeer, Peer, PeerAccess, Peers, UnknownPeer
from pykcp.machinery.resources import SHARDS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.testing.https import HTTPSServer
from pykcp.types import Object

PATH = "/clusters/root/apis/core.kcp.io/v1alpha1/shards/beta"


def shard(name: str, url: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"baseURL": url}}


@pytest.fixture(scope="module")
def client_ca() -> KeyPair:
    return create_ca("clients", time.time())


@pytest.fixture
def server(client_ca: KeyPair) -> Iterator[HTTPSServer]:
    made = HTTPSServer(client_ca)
    made.on(PATH, lambda _: shard("beta", "https://beta"))
    yield made
    made.close()


@pytest.fixture
def access(server: HTTPSServer, client_ca: KeyPair, tmp_path: pathlib.Path) -> PeerAccess:
    pair = issue_client(client_ca, "kcp-shard-alpha", ["system:masters"], time.time())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    return PeerAccess(
        KubeconfigServer(
            "https://unused:1",
            authority=server.ca.encode(),
            certificate_file=str(tmp_path / "crt"),
            key_file=str(tmp_path / "key"),
        )
    )


@asynccontextmanager
async def running(access: PeerAccess, shards: dict[str, Object]) -> AsyncIterator[Peers]:
    peers = Peers("alpha", access, shards.get, shards.values)
    task = asyncio.create_task(peers.run())
    try:
        yield peers
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_peer_has_the_addresses_of_its_shard() -> None:
    spec = {"baseURL": "https://a", "externalURL": "https://b", "virtualWorkspaceURL": "https://c"}
    found = Peer.of({"metadata": {"name": "beta"}, "spec": spec})
    assert found == ("beta", "https://a", "https://b", "https://c")
    assert Peer.of(shard("beta", "https://a")) == ("beta", "https://a", "https://a", "https://a")


async def test_requests_go_to_the_address_of_the_shard(
    server: HTTPSServer, access: PeerAccess
) -> None:
    shards = {"alpha": shard("alpha", "https://a"), "beta": shard("beta", server.url)}
    async with running(access, shards) as peers:
        assert peers.names() == ["beta"]
        assert peers.get("beta").base_url == server.url
        assert await peers.client("beta").get("root", SHARDS, "beta") is not None
    assert server.received[0].client == "kcp-shard-alpha"


async def test_a_shard_that_moves_is_found_at_its_new_address(
    server: HTTPSServer, access: PeerAccess
) -> None:
    shards = {"beta": shard("beta", "https://127.0.0.1:1")}
    async with running(access, shards) as peers:
        with pytest.raises(ServiceUnavailable, match="connection refused"):
            await peers.client("beta").get("root", SHARDS, "beta")
        with pytest.raises(DeadPeer, match='shard "beta" does not answer'):
            peers.client("beta")
        shards["beta"] = shard("beta", server.url)
        assert await peers.client("beta").get("root", SHARDS, "beta") is not None


async def test_an_unknown_shard_is_named(access: PeerAccess) -> None:
    async with running(access, {"beta": shard("beta", "")}) as peers:
        for name in ("beta", "gamma"):
            with pytest.raises(UnknownPeer, match=f'shard "{name}" is not known here'):
                peers.client(name)


async def test_root_is_known_before_any_shard_object(
    server: HTTPSServer, access: PeerAccess
) -> None:
    known = replace(access.shards, url=f"{server.url}/clusters/root")
    async with running(PeerAccess(access.shards, root=known), {}) as peers:
        assert await peers.root().get("root", SHARDS, "beta") is not None
