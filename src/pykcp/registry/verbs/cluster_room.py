"""Room for logical clusters on a shard: its limit, and how many it has.

A shard without a limit counts nothing. With one, logical clusters are counted when there is
something to compare with the limit for the first time, and then by committed events. What is being
written counts until it is committed or has failed, and so does a logical cluster that is moving
here: the limit is never exceeded, however many shards ask for logical clusters at a time.

Servers that share an etcd count separately. Where little room is left, they take turns: a write
fails, and is tried again, if another server has used some of the room since this one counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from pykcp.machinery.kcp.clusters import is_system
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import TooManyRequests, go_quote
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import Counts
from pykcp.registry.verbs.reservations import named_turn, write_counted
from pykcp.storage.interface import Store
from pykcp.storage.operations import Operation

_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_TURN = "clusters"
_TRIES = 8
_TURNS_BELOW = 1000
"""Room below which servers take turns: more than they use at once."""


class ClusterRoom:
    def __init__(
        self,
        store: StoreReader,
        moves: ClusterMoves,
        shard: str,
        limit: Callable[[str], int | None],
    ) -> None:
        """`limit`: how many logical clusters a shard may have; None: any number."""
        self._store, self._moves, self._shard, self._limit = store, moves, shard, limit
        self._count = 0
        self._is_exact = False
        self._changes: list[tuple[int, int]] = []
        """Revision and +1 or -1, of what happened while counting."""
        self._adopted: set[str] = set()
        """Logical clusters that are moving here and are part of the count already."""
        self._pending: set[str] = set()
        """Logical clusters on their way into the store."""
        self._counting, self._turns = asyncio.Lock(), asyncio.Lock()
        store.listen(self._follow, (_PREFIX,))

    @property
    def limit(self) -> int | None:
        return self._limit(self._shard)

    async def check(self) -> None:
        """Raise TooManyRequests if there is no room for another one."""
        if self.limit is not None:
            await self._counted()
            self._check()

    @asynccontextmanager
    async def taken(self, clusters: Sequence[str]) -> AsyncIterator[Counts]:
        """Room for logical clusters that are about to be written, with what is written besides.

        Raises TooManyRequests.
        """
        added: list[str] = []
        turns: list[Operation] = []
        async with AsyncExitStack() as held:
            try:
                for cluster in clusters if self.limit is not None else ():
                    await self._counted()
                    if not turns and self._takes_turns():
                        await held.enter_async_context(self._turns)
                        turns.append(named_turn(self._store, _TURN))
                    self._check()
                    if cluster not in self._pending:
                        self._pending.add(cluster)
                        added.append(cluster)
                yield turns
            finally:
                self._pending.difference_update(added)

    async def write(
        self, store: Store, clusters: Sequence[str], operations: Sequence[Operation]
    ) -> None:
        """Write what takes room for logical clusters, if there is enough. Raises TooManyRequests."""
        await write_counted(store, operations, lambda: self.taken(clusters))

    def _takes_turns(self) -> bool:
        """Whether other servers could exceed the limit together with this one."""
        limit = self.limit
        return (
            self._store.group is not None
            and limit is not None
            and limit - self._total() < _TURNS_BELOW
        )

    def _check(self) -> None:
        """Nothing is awaited after the comparison: the caller takes the room at once."""
        limit, total = self.limit, self._total()
        if limit is not None and total >= limit:
            raise TooManyRequests(
                f"shard {go_quote(self._shard)} has reached its limit of logical clusters "
                f"({total}/{limit})"
            )

    def _total(self) -> int:
        arriving = self._moves.arriving.keys()
        return self._count + len((arriving - self._adopted) | self._pending)

    async def _counted(self) -> None:
        if not self._is_exact:
            async with self._counting:
                if not self._is_exact:
                    await self._scan()

    async def _scan(self) -> None:
        """Count, and count again if something came or went meanwhile.

        If that never ends the last result serves, and the next one counts again.
        """
        for _ in range(_TRIES):
            self._changes.clear()
            adopted = self._stored_arrivals()
            found = await self._store.count(_PREFIX)
            found -= len(self._store.keys(f"{_PREFIX}system:"))
            # Scans may see commits whose events are still on their way.
            newest = (await self._store.list(Query(_PREFIX, limit=1))).revision
            await self._heard_until(newest)
            self._count = found + sum(step for at, step in self._changes if at > newest)
            self._adopted = adopted
            if adopted == self._stored_arrivals() and all(at > newest for at, _ in self._changes):
                self._is_exact = True
                break
        self._changes.clear()

    async def _heard_until(self, revision: int) -> None:
        news = asyncio.Event()
        forget = self._store.listen(lambda _: news.set())
        try:
            while self._store.revision < revision:
                news.clear()
                await news.wait()
        finally:
            forget()

    def _stored_arrivals(self) -> set[str]:
        """Logical clusters that are moving here and are stored already."""
        stored = (object_key(_PREFIX, name, "", "cluster") for name in self._moves.arriving)
        return {_cluster(key) for key in stored if self._store.get(key) is not None}

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX) and (event.created or event.deleted):
                cluster = _cluster(event.key)
                if not is_system(cluster):
                    self._changed(cluster, event)

    def _changed(self, cluster: str, event: Event) -> None:
        self._pending.discard(cluster)
        if event.created and cluster in self._adopted:
            return  # it was counted when it was stored
        self._adopted.discard(cluster)
        if event.created and cluster in self._moves.arriving:
            self._adopted.add(cluster)
        step = 1 if event.created else -1
        self._count += step
        if not self._is_exact:
            self._changes.append((event.revision, step))


def _cluster(key: str) -> str:
    return key[len(_PREFIX) :].partition("/")[0]
