"""Reads of a store on SQLite tables, shared by the SQLite store and the mirror of etcd."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from pykcp.aio.resting import ShortSlices
from pykcp.caching import BoundedCache
from pykcp.storage.errors import Compacted, FutureRevision, StoreUnavailable
from pykcp.storage.group import ServerGroup
from pykcp.storage.interface import Entry, Event, History, Keys, Page, Query
from pykcp.storage.listeners import Listeners
from pykcp.storage.moving import EXPORT_BYTES, EXPORT_ROWS, ExportedRow, ExportPage
from pykcp.storage.ring import RecentEvents
from pykcp.storage.sqlite import files, incoming, scans
from pykcp.storage.sqlite.incoming import ImportState
from pykcp.storage.terms import is_filtered

EVENTS_PER_TURN = 2_000
"""How many events in memory are looked at before the loop gets its turn."""

EVENTS_PER_ANNOUNCEMENT = 100

POINTS_CACHE_KIB = 6144

ENTRY_CACHE_BYTES = 2 << 20
"""Current values that were read or written a short time ago: to find one in the file takes some
5 µs, a tenth of a GET."""
_LARGEST_CACHED = 32 * 1024
_ENTRY_BYTES = 300
"""What an entry takes beside its value."""

Events = list[Event]


class RemainingCounts:
    """How many keys of a prefix come after a place, at a revision. A few are remembered."""

    MOST = 512

    def __init__(self) -> None:
        self._counts: BoundedCache[tuple[str, int, str], int] = BoundedCache(
            "remaining-counts", self.MOST
        )

    def get(self, prefix: str, revision: int, after: str) -> int | None:
        return self._counts.get((prefix, revision, after))

    def put(self, prefix: str, revision: int, after: str, count: int) -> None:
        self._counts.put((prefix, revision, after), count)


class ReadingHalf:
    """Serves reads and listeners; a subclass writes, and says so with `_publish`."""

    compacted: int = 0
    group: ServerGroup | None = None

    def __init__(
        self, path: pathlib.Path, *, recent_bytes: int, readers: int, entry_bytes: int = 0
    ) -> None:
        """`entry_bytes`: of the cache of entries, for a store that publishes every change."""
        self.revision = 0
        self._path = path
        self._recent_bytes = recent_bytes
        self._imports: dict[str, ImportState] = {}
        """Parts of other shards that are staged, or were adopted a short time ago."""
        self._listeners = Listeners()
        self._recent = RecentEvents(0, recent_bytes)
        self._points: sqlite3.Connection | None = None
        """For reads that finish at once; never inside a transaction."""
        self._entries: BoundedCache[str, Entry] = BoundedCache(
            "store-entries", entry_bytes, cost=_cost
        )
        """As of `revision`: what is newer in the file is never in here."""
        self._remaining = RemainingCounts()
        self._readers = scans.Readers(self._connect_reader, readers)

    def get(self, key: str) -> Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            return entry
        try:
            entry = scans.get(self._point_connection(), key)
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error
        if entry is not None:
            if entry.revision > self.revision:
                self._saw(entry.revision)
            elif len(entry.value) < _LARGEST_CACHED:
                self._entries.put(key, entry)
        return entry

    def lookup(self, index: str, *, after: str = "", limit: int = 0) -> Keys:
        try:
            return scans.lookup(self._point_connection(), index, after, limit)
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error

    def keys(self, prefix: str, *, limit: int = 0) -> Keys:
        try:
            return scans.keys(self._point_connection(), prefix, limit)
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error

    def get_before(self, key: str, revision: int) -> bytes | None:
        with self._translated():
            return scans.get_before(self._point_connection(), key, revision)

    async def list(self, query: Query) -> Page:
        connection = await self._readers.take()
        try:
            with self._translated(), scans.snapshot(connection) as newest:
                self._saw(newest)
                return await self._page(connection, query, newest)
        finally:
            self._readers.give(connection)

    async def count(self, prefix: str) -> int:
        connection = await self._readers.take()
        try:
            with self._translated(), scans.snapshot(connection):
                return await scans.count(connection, Query(prefix), None)
        finally:
            self._readers.give(connection)

    def listen(
        self, callback: Callable[[Sequence[Event]], None], prefixes: Sequence[str] = ()
    ) -> Callable[[], None]:
        return self._listeners.add(callback, prefixes)

    async def history(self, prefix: str, after: int, until: int, limit: int) -> History:
        events: list[Event] = []
        while True:
            if after < self.compacted:
                raise Compacted(after, self.compacted)
            page = self._recent.page(after, until, EVENTS_PER_TURN)
            if page is None:
                missing = limit - len(events)
                more = await self._history_on_disk(prefix, after, until, missing)
                return History([*events, *more.events], more.reached)
            events.extend(event for event in page if event.key.startswith(prefix))
            if len(events) >= limit:
                return History(events[:limit], events[limit - 1].revision)
            if len(page) < EVENTS_PER_TURN:
                return History(events, until)
            after = page[-1].revision
            await asyncio.sleep(0)

    def complete_since(self, prefix: str) -> int:
        if not self._imports:
            return self.compacted
        return max(self.compacted, incoming.complete_since(self._imports, prefix))

    async def export(self, part: str, *, after: str = "", at: int = 0) -> ExportPage:
        connection = await self._readers.take()
        try:
            with self._translated(), scans.snapshot(connection) as newest:
                self._saw(newest)
                at = at or max(newest, self.revision)
                if at < self.compacted:
                    raise Compacted(at, self.compacted)
                return await self._exported(connection, part, after, at)
        finally:
            self._readers.give(connection)

    async def _exported(
        self, connection: sqlite3.Connection, part: str, after: str, at: int
    ) -> ExportPage:
        rows: list[ExportedRow] = []
        size, slices = 0, ShortSlices()
        with closing(scans.exported(connection, part, after, at)) as found:
            for row in found:
                if row is not None:
                    if len(rows) >= EXPORT_ROWS or size > EXPORT_BYTES:
                        return ExportPage(rows, rows[-1].key)
                    rows.append(row)
                    size += len(row.value)
                if slices.is_over():
                    await slices.rest()
        return ExportPage(rows, "")

    async def announce(self, part: str) -> None:
        connection = await self._readers.take()
        try:
            with self._translated(), scans.snapshot(connection):
                for events in scans.arrivals(connection, part, EVENTS_PER_ANNOUNCEMENT):
                    self._listeners.tell(events)
                    await asyncio.sleep(0)
        finally:
            self._readers.give(connection)

    async def _history_on_disk(self, prefix: str, after: int, until: int, limit: int) -> History:
        connection = await self._readers.take()
        try:
            with self._translated(), scans.snapshot(connection):
                # The revision may have been compacted while waiting for a connection.
                if after < self.compacted:
                    raise Compacted(after, self.compacted)
                return await scans.history(connection, prefix, after, until, limit)
        finally:
            self._readers.give(connection)

    async def _page(self, connection: sqlite3.Connection, query: Query, newest: int) -> Page:
        # What is published is in the snapshot; what the snapshot has may not be published yet.
        newest = max(newest, self.revision)
        at = query.at or newest
        oldest = self.complete_since(query.prefix) if self._imports else self.compacted
        if at < oldest:
            raise Compacted(at, oldest)
        if at > newest:
            raise FutureRevision(at, newest)
        older = at if at < newest else None
        values, next_after = await scans.scan(connection, query, older)
        if not next_after or not query.count_remaining or is_filtered(query):
            return Page(values, at, next_after, None)
        # Pages of one list are at one revision: count for the first, subtract for the others.
        following = self._remaining.get(query.prefix, at, query.after)
        if following is None:
            rest = Query(query.prefix, after=next_after)
            following = len(values) + await scans.count(connection, rest, older)
            self._remaining.put(query.prefix, at, query.after, following)
        following -= len(values)
        self._remaining.put(query.prefix, at, next_after, following)
        return Page(values, at, next_after, following)

    def _saw(self, newest: int) -> None:
        """A revision was read that is not announced yet: no later `get` may show anything older."""
        if newest > self.revision:
            self._entries.clear()

    def _publish(self, revision: int, events: Sequence[Event]) -> None:
        """The batch is safe: reads and watches may rely on it."""
        self._remember(events)
        self._recent.add(events)
        self.revision = revision
        if events:
            self._listeners.tell(events)

    def _remember(self, events: Sequence[Event]) -> None:
        """What was just written is read next, by the controllers that are told of it."""
        entries = self._entries
        for event in events:
            if event.deleted or len(event.value) >= _LARGEST_CACHED:
                entries.pop(event.key)
            else:
                entries.put(event.key, Entry(event.key, event.revision, event.value, event.terms))

    def _open_readers(self) -> None:
        self._readers.open()
        self._points = self._connect_reader(POINTS_CACHE_KIB)

    def _point_connection(self) -> sqlite3.Connection:
        if self._points is None:
            raise StoreUnavailable("the store is not running")
        return self._points

    def _connect_reader(self, cache_kib: int = 2048) -> sqlite3.Connection:
        connection = files.connect(self._path, cache_kib=cache_kib, factory=scans.ScanConnection)
        connection.execute("PRAGMA query_only=ON").close()
        return connection

    def _close_readers(self) -> None:
        self._entries.clear()
        self._readers.close()
        if self._points is not None:
            self._points.close()
            self._points = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error


def _cost(entry: Entry) -> int:
    return len(entry.value) + _ENTRY_BYTES


def arrival(row: ExportedRow) -> Event:
    """What listeners are told about a row that came from another shard."""
    return Event(row.revision, row.key, row.value, row.terms, "", True, False)
