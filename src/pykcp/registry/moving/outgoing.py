"""The origin's part of a move: copies, changes, a short hold of writes, and giving it away.

Nothing is kept in memory between requests of the destination except a hold, which ends by itself
after a second: if either process dies before the departure is stored, the origin goes on as if
nothing had happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.machinery import meta
from pykcp.machinery.status import Conflict, Expired, NotFound
from pykcp.registry.codec import decode
from pykcp.registry.errors import translate
from pykcp.registry.keys import object_key
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.records import (
    Departure,
    TravellingRow,
    eviction,
    row_of,
    rows_of_events,
)
from pykcp.storage.errors import Compacted, RevisionMismatch, StoreError
from pykcp.storage.interface import Store
from pykcp.storage.keys import prefix_of_part
from pykcp.storage.numbering import earlier
from pykcp.storage.operations import DeleteKey, PutKey

HOLD_SECONDS = 1.0
"""How long writes wait at most; then they go on, and the destination tries again later."""
HISTORY_SECONDS = 5.0
"""So old may the last event be that an interrupted watch has seen when the copy begins: then it
goes on at the destination. The changes since are copied, too."""
MIGRATING = "internal.kcp.io/migrating"
"""The annotation of a logical cluster that names its migration."""
_EVENTS = 1000
_EVICTED_AT_ONCE = 100
_LAST = "core.kcp.io/logicalclusters/"
"""The LogicalCluster goes last: as long as it is there, the rest is not complete."""


class NotMigrating(NotFound):
    """No migration moves the logical cluster, or another one does."""

    reason = "NotMigrating"

    def __init__(self, cluster: str) -> None:
        super().__init__(f"logical cluster {cluster} is not migrating")


class RowPage(NamedTuple):
    rows: list[TravellingRow]
    revision: int
    """The revision of a copy; for changes, up to which they are complete."""
    next_after: str = ""
    is_behind: bool = False
    """There are more changes."""


class OutgoingMoves:
    def __init__(
        self,
        store: Store,
        moves: ClusterMoves,
        now: Callable[[], str],
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._store, self._moves, self._now = store, moves, now
        self._hold_seconds = hold_seconds
        self._held: dict[str, tuple[int, asyncio.TimerHandle]] = {}
        """Writes of these wait, since this revision."""

    def check(self, cluster: str, migration: str) -> None:
        """Raise NotMigrating unless this migration moves, or has moved, the cluster."""
        departure = self._moves.departed.get(cluster)
        if departure is not None:
            mark = departure.migration
        else:
            entry = self._store.get(object_key(_LAST, cluster, "", "cluster"))
            mark = meta.annotation(decode(entry.value), MIGRATING) if entry is not None else ""
        if mark != migration:
            raise NotMigrating(cluster)

    async def copy(self, cluster: str, after: str, at: int) -> RowPage:
        """A page of everything in a cluster at one revision (0: a little in the past).

        Raises Expired.
        """
        at = at or self._beginning(cluster)
        try:
            page = await self._store.export(cluster, after=after, at=at)
        except StoreError as error:
            raise translate(error) from error
        return RowPage([row_of(row) for row in page.rows], at, page.next_after)

    def _beginning(self, cluster: str) -> int:
        since = earlier(self._store.revision, HISTORY_SECONDS)
        return max(since, self._store.complete_since(prefix_of_part(cluster)))

    async def changes(self, cluster: str, after: int) -> RowPage:
        """What was written to a cluster after a revision, oldest first. Raises Expired."""
        return await self._changes(cluster, after, self._store.revision)

    async def _changes(self, cluster: str, after: int, until: int) -> RowPage:
        try:
            page = await self._store.history("", after, until, _EVENTS)
        except Compacted as error:
            raise Expired(str(error)) from error
        rows = rows_of_events(page.events, cluster)
        return RowPage(rows, page.reached, is_behind=page.reached < until)

    async def hold(self, cluster: str, after: int) -> RowPage:
        """Let writes to a cluster wait, and return the last changes.

        If there are too many, writes go on and the destination has to catch up first. A hold
        ends after a second unless the cluster is given away.
        """
        if cluster in self._moves.departed:
            raise Conflict("the logical cluster has moved already")
        self._release(cluster)
        try:
            revision = await self._store.hold(cluster)
        except StoreError as error:
            raise translate(error) from error
        timer = asyncio.get_running_loop().call_later(
            self._hold_seconds, self._release, cluster, revision
        )
        self._held[cluster] = (revision, timer)
        try:
            page = await self._changes(cluster, after, revision)
        except BaseException:
            self._release(cluster)
            raise
        if page.is_behind:
            self._release(cluster)
        return page

    def _release(self, cluster: str, revision: int = 0) -> None:
        held = self._held.get(cluster)
        if held is not None and revision in (0, held[0]):
            held[1].cancel()
            del self._held[cluster]
            self._store.release(cluster)

    async def give(self, cluster: str, shard: str, revision: int, migration: str) -> Departure:
        """Give a held cluster away: from now on another shard has it. Repeatable.

        Raises Conflict if writes went on since the last changes were sent.
        """
        departed = self._moves.departed.get(cluster)
        if departed is not None:
            if (departed.shard, departed.migration) != (shard, migration):
                raise Conflict(f"the logical cluster is on shard {departed.shard}")
            return departed
        self.check(cluster, migration)
        held = self._held.pop(cluster, None)
        if held is None or held[0] != revision:
            raise Conflict("writes to the logical cluster are not held any more")
        held[1].cancel()
        departure = Departure(cluster, shard, revision, migration, self._now())
        try:
            await self._store.write((PutKey(departure.key, departure.encoded(), expect=0),))
        except RevisionMismatch as error:
            self._store.release(cluster)
            raise Conflict(str(error)) from error
        except StoreError as error:
            self._store.release(cluster)
            raise translate(error) from error
        return departure

    def has(self, cluster: str) -> bool:
        """Whether a logical cluster is stored here and has not departed."""
        stored = self._store.get(object_key(_LAST, cluster, "", "cluster"))
        return stored is not None and cluster not in self._moves.departed

    async def disown(self, cluster: str, shard: str) -> None:
        """Give up a cluster that another shard has: this copy is out of date."""
        departure = Departure(cluster, shard, self._store.revision, "", self._now())
        try:
            await self._store.write((PutKey(departure.key, departure.encoded()),))
        except StoreError as error:
            raise translate(error) from error
        await self.clean(cluster)

    def departure(self, cluster: str) -> Departure | None:
        return self._moves.departed.get(cluster)

    def departures(self, migration: str) -> list[Departure]:
        return [one for one in self._moves.departed.values() if one.migration == migration]

    async def clean(self, cluster: str) -> None:
        """Remove what a departed cluster has left here, some at a time. Repeatable."""
        departure = self._moves.departed.get(cluster)
        if departure is None or departure.is_cleaned:
            return
        last: list[DeleteKey] = []
        after, slices = "", Slices(cluster)
        while True:
            page = await self._store.export(cluster, after=after)
            evictions = [eviction(row) for row in page.rows]
            last += [one for one in evictions if one.key.startswith(_LAST)]
            first = [one for one in evictions if not one.key.startswith(_LAST)]
            for start in range(0, len(first), _EVICTED_AT_ONCE):
                await self._store.evict(first[start : start + _EVICTED_AT_ONCE])
                await slices.next()
            after = page.next_after
            if not after:
                break
        if last:
            await self._store.evict(last)
        cleaned = departure._replace(is_cleaned=True)
        await self._store.write((PutKey(cleaned.key, cleaned.encoded()),))

    async def forget(self, cluster: str) -> None:
        """Forget that a cluster has departed."""
        departure = self._moves.departed.get(cluster)
        if departure is not None:
            await self._store.write((DeleteKey(departure.key, departure.encoded()),))
