"""Limit on the number of logical clusters of a shard: an annotation of its Shard.

A shard without a limit counts nothing. With one, logical clusters are counted when the first one
is created, and then by committed events. A create in progress counts until it is committed or has
failed, and so does a logical cluster that is moving here: the limit is never exceeded, however many
shards ask for logical clusters at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykcp.apis.kcp.shards import HARD_LIMIT_ANNOTATION, limit_of
from pykcp.machinery.kcp.clusters import is_system
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import TooManyRequests, go_quote
from pykcp.registry.keys import kind_prefix
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.moving.records import ARRIVING
from pykcp.registry.shards import KnownShards
from pykcp.registry.stored import Event, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts

_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_TRIES = 8


class LogicalClusterLimit:
    name = "core.kcp.io/LogicalClusterCountLimit"
    kind = LOGICAL_CLUSTERS

    def __init__(self, store: StoreReader, lookup: ObjectLookup, shard: str) -> None:
        self._store, self._shards, self._shard = store, KnownShards(lookup), shard
        self._count: int | None = None
        self._pending: set[str] = set()
        """Keys on their way into the store."""
        self._lock = asyncio.Lock()
        store.listen(self._follow, (_PREFIX,))

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and not is_system(request.context.cluster)

    async def validate(self, request: AdmissionRequest) -> None:
        if self._limit() is None:
            return
        if request.context.dry_run:
            await self._check()
        else:
            request.reserve(self._reserve)

    @asynccontextmanager
    async def _reserve(self, requests: Sequence[AdmissionRequest]) -> AsyncIterator[Counts]:
        added: list[str] = []
        try:
            for request in requests:
                await self._check()
                key = request.resource.key(request.context.cluster, "", request.name)
                self._pending.add(key)
                added.append(key)
            yield ()
        finally:
            self._pending.difference_update(added)

    def _limit(self) -> int | None:
        shard = self._shards.get(self._shard)
        return limit_of(shard, HARD_LIMIT_ANNOTATION) if shard is not None else None

    async def _check(self) -> None:
        """Nothing is awaited after the comparison: the caller reserves at once."""
        count = self._count
        if count is None:
            async with self._lock:
                count = self._count if self._count is not None else await self._scan()
        limit = self._limit()
        total = count + len(self._pending) + len(self._store.keys(ARRIVING))
        if limit is not None and total >= limit:
            raise TooManyRequests(
                f"shard {go_quote(self._shard)} has reached its limit of logical clusters "
                f"({total}/{limit})"
            )

    async def _scan(self) -> int:
        """Count, and count again if something was written meanwhile.

        If that never ends the last result serves, and the next create counts again.
        """
        found = 0
        for _ in range(_TRIES):
            before = self._store.revision
            found = await self._store.count(_PREFIX)
            found -= len(self._store.keys(f"{_PREFIX}system:"))
            if self._store.revision == before:
                self._count = found
                break
        return found

    def _follow(self, events: Sequence[Event]) -> None:
        if self._count is None:
            return
        for event in events:
            if event.key.startswith(_PREFIX) and (event.created or event.deleted):
                if not is_system(_cluster(event.key)):
                    self._count += 1 if event.created else -1
                self._pending.discard(event.key)


def _cluster(key: str) -> str:
    return key[len(_PREFIX) :].partition("/")[0]
