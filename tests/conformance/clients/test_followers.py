"""What a syncer follows in the control plane: the objects of a selection, in a shard and remotely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from tests.conformance.clients.conftest import NAMESPACE, Seam

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Change
from pykcp.clients.remote.client import RemoteClient
from pykcp.machinery.resources import CONFIG_MAPS
from pykcp.multicluster.names import CLUSTER_LABEL
from pykcp.multicluster.syncer.feed import FeedUpstream
from pykcp.multicluster.syncer.servers import Follower, SyncServer, Upstream
from pykcp.registry.log_feed import LogFeed

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Told:
    """A holder of objects that remembers names and data."""

    def __init__(self) -> None:
        self.data: dict[str, object] = {}
        self.has_all = False
        self._news = asyncio.Event()

    def put(self, value: bytes) -> Change | None:
        obj = orjson.loads(value)
        self.data[obj["metadata"]["name"]] = obj.get("data")
        self._news.set()
        return None

    def note(self, obj: dict[str, Any]) -> object:
        return self.put(orjson.dumps(obj))

    def remove(self, value: bytes) -> Change | None:
        self.data.pop(orjson.loads(value)["metadata"]["name"], None)
        self._news.set()
        return None

    def begin_replacing(self) -> None:
        self.data.clear()

    def end_replacing(self) -> Iterable[Change]:
        self.has_all = True
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""

    async def until(self, check: Callable[[dict[str, object]], bool]) -> None:
        async with asyncio.timeout(30):
            while not check(self.data):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def following(seam: Seam, label: str) -> AsyncIterator[tuple[Told, Follower]]:
    told, selector = Told(), f"{CLUSTER_LABEL}={label}"
    upstream: Upstream
    feed = LogFeed(seam.shard.stores.store)
    if isinstance(seam.client, RemoteClient):
        upstream = SyncServer(seam.client)
    else:
        feed.start()
        upstream = FeedUpstream(seam.client, feed)
    follower = upstream.follow(CONFIG_MAPS, seam.cluster, selector, told)
    async with TaskOwner("conformance") as owner:
        owner.start_restartable("follower", follower.run)
        try:
            yield told, follower
        finally:
            feed.stop()


async def test_the_objects_of_a_selection_are_followed(seam: Seam) -> None:
    label, other = f"{seam.prefix}-east", f"{seam.prefix}-west"
    before, after = seam.named("before"), seam.named("after")
    await seam.client.create(
        seam.cluster, CONFIG_MAPS, seam.config_map("before", labels={CLUSTER_LABEL: label})
    )
    await seam.client.create(
        seam.cluster, CONFIG_MAPS, seam.config_map("other", labels={CLUSTER_LABEL: other})
    )
    await seam.client.create(seam.cluster, CONFIG_MAPS, seam.config_map("plain"))
    async with following(seam, label) as (told, follower):
        await follower.is_synced.wait()
        assert set(told.data) == {before}
        await seam.client.create(
            seam.cluster, CONFIG_MAPS, seam.config_map("after", labels={CLUSTER_LABEL: label})
        )
        await told.until(lambda data: set(data) == {before, after})
        patch = {"data": {"a": "1"}}
        await seam.client.patch(seam.cluster, CONFIG_MAPS, before, patch, NAMESPACE)
        await told.until(lambda data: data.get(before) == {"a": "1"})
        moved = {"metadata": {"labels": {CLUSTER_LABEL: other}}}
        await seam.client.patch(seam.cluster, CONFIG_MAPS, before, moved, NAMESPACE)
        await told.until(lambda data: set(data) == {after})
        await seam.client.delete(seam.cluster, CONFIG_MAPS, after, NAMESPACE)
        await told.until(lambda data: not data)
