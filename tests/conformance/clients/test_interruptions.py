"""What a remote feed does when its server goes away, or no longer knows where it was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson
import pytest

from pykcp.aio.owner import TaskOwner
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.remote.connect import connect
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.clients.remote.held_objects import HeldObjects
from pykcp.clients.remote.informer import Informer
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import CONFIG_MAPS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.testing.server import server

from .conftest import MANAGER, NAMESPACE, Followed, remote_client

if TYPE_CHECKING:
    from pykcp.clients.remote.client import RemoteClient
    from pykcp.programs.shard.wiring import Shard
    from pykcp.types import Object

pytestmark = pytest.mark.asyncio(loop_scope="session")


def config_map(name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def key(name: str) -> ObjectKey:
    return ObjectKey("root", NAMESPACE, name)


async def test_a_server_that_is_killed_and_started_again() -> None:
    with server() as process:
        client = connect(str(process.kubeconfig), MANAGER, "shard-base")
        feed = RemoteFeed(client)
        followed = Followed(
            feed, feed.lister, lambda owner: owner.start_restartable("feed", feed.run)
        )
        followed.follow(CONFIG_MAPS)
        await client.create("root", CONFIG_MAPS, config_map("before"))
        async with followed.running():
            await feed.synced()
            assert followed.of(key("before"))
            process.kill()
            with pytest.raises(ServiceUnavailable):
                await client.get("root", CONFIG_MAPS, "before", NAMESPACE)
            await asyncio.to_thread(process.start)
            await client.delete("root", CONFIG_MAPS, "before", NAMESPACE)
            await client.create("root", CONFIG_MAPS, config_map("after"))
            await followed.until(lambda _: bool(followed.of(key("after"))))
        assert followed.of(key("before"))[-1].deleted
        assert not feed.lister.has("root", CONFIG_MAPS, "before", NAMESPACE)
        client.http.close()


class Interrupted:
    """An informer whose connection can be broken, and which stays away until it is let back."""

    def __init__(self, client: RemoteClient, *, streams_lists: bool) -> None:
        self._client = client
        self._is_away, self._may_return = asyncio.Event(), asyncio.Event()
        self.told: list[tuple[str, bool]] = []
        self.informer = Informer(
            client,
            CONFIG_MAPS,
            HeldObjects(kind_id(CONFIG_MAPS)),
            streams_lists=streams_lists,
            sleep=self._stay_away,
        )
        self.informer.add(lambda change: self.told.append((change.name, change.deleted)))

    async def _stay_away(self, _: float) -> None:
        self._is_away.set()
        await self._may_return.wait()

    async def interrupt(self) -> None:
        for connection in list(self._client.http._connections):
            connection.abort()
        await self._is_away.wait()

    def resume(self) -> None:
        self._may_return.set()

    async def until_told(self, name: str) -> None:
        async with asyncio.timeout(30):
            while all(told[0] != name for told in self.told):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("streams_lists", [True, False])
async def test_a_place_that_the_server_has_forgotten(shard: Shard, streams_lists: bool) -> None:
    """410: everything is told anew, and deletions that were missed are made good."""
    store, local = shard.stores.store, shard.catalog.client
    names = {n: f"{n}-{streams_lists}".lower() for n in ("kept", "changed", "deleted", "created")}
    for name in ("kept", "changed", "deleted"):
        await local.create("root", CONFIG_MAPS, config_map(names[name], n="1"))
    client = remote_client(shard.base.settings.generic.root_directory / "admin.kubeconfig")
    following = Interrupted(client, streams_lists=streams_lists)
    async with TaskOwner("test") as owner:
        owner.start_restartable("informer", following.informer.run)
        await following.informer.is_synced.wait()
        await following.interrupt()
        following.told.clear()
        await local.delete("root", CONFIG_MAPS, names["deleted"], NAMESPACE)
        await local.change(
            "root", CONFIG_MAPS, names["changed"], lambda o: o["data"].update(n="2"), NAMESPACE
        )
        await local.create("root", CONFIG_MAPS, config_map(names["created"]))
        await store.compact(store.revision)
        following.resume()
        await following.until_told(names["deleted"])
    wanted = {(names["deleted"], True), (names["changed"], False), (names["created"], False)}
    assert wanted <= set(following.told)
    assert (names["kept"], False) not in following.told, "nothing is new about it"
    held = following.informer.held
    assert held.value(key(names["deleted"])) is None
    assert orjson.loads(held.value(key(names["changed"])) or b"")["data"] == {"n": "2"}
    client.http.close()
