"""The shard's report of itself, for scheduling on other shards: see `apis.kcp.shard_load`.

One small write every few seconds, in installations of several shards only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from pykcp.apis.kcp.shard_load import (
    REPORT_SECONDS,
    UNCHANGED_SECONDS,
    ShardLoad,
    annotations_of,
)
from pykcp.machinery.kcp.clusters import SYSTEM_SHARD
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS
from pykcp.registry.keys import kind_prefix
from pykcp.registry.local import LocalClient
from pykcp.storage.interface import Event, Store

_PREFIX = kind_prefix(LOGICAL_CLUSTERS)


class Heartbeat:
    """`run` it once the shard's own Shard object exists."""

    def __init__(
        self,
        store: Store,
        client: LocalClient,
        shard: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._client, self._shard, self._clock = store, client, shard, clock
        self._count: int | None = None
        store.listen(self._follow, (_PREFIX,))

    def _follow(self, events: Sequence[Event]) -> None:
        if self._count is None:
            return
        for event in events:
            if event.key.startswith(_PREFIX):
                self._count += event.created - event.deleted

    async def report(self) -> None:
        if self._count is None:
            # Changes during the count are missed: the number is a hint, exact limits are the
            # business of the write that would exceed them.
            self._count = await self._store.count(_PREFIX)
        load = ShardLoad(self._clock(), self._count, self._store.size.used)
        patch = {"metadata": {"annotations": annotations_of(load)}}
        await self._client.patch(SYSTEM_SHARD, SHARDS, self._shard, patch)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.report()
            reported = self._count
            await asyncio.sleep(REPORT_SECONDS)
            if self._count == reported:
                await asyncio.sleep(UNCHANGED_SECONDS - REPORT_SECONDS)
