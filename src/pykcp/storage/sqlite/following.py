"""A store on a file that another process of this machine writes: it is read, and its log followed.

SQLite shows every committed transaction to all processes, so reads of objects are current by
themselves. What a server keeps in memory (roles, definitions, open watches) follows the events of
the log, which are read from the file up to the revision that the writer has announced
(`storage.progress`). `refresh` does that, and is asked before a request is answered; nothing polls.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from typing import NoReturn

from pykcp.aio.resting import rest
from pykcp.storage.errors import StoreError, StoreUnavailable
from pykcp.storage.interface import Event, Revisions
from pykcp.storage.keys import part_of
from pykcp.storage.moving import Adoption, IncomingRow
from pykcp.storage.operations import DeleteKey, Operation
from pykcp.storage.progress import LogProgress
from pykcp.storage.ring import RecentEvents
from pykcp.storage.size_limit import SizeLimit
from pykcp.storage.sqlite import files, incoming, scans
from pykcp.storage.sqlite.incoming import ImportState
from pykcp.storage.sqlite.reading import ENTRY_CACHE_BYTES, ReadingHalf, arrival

_ROWS = 128
"""Events that are taken at a go: some 2 ms."""


class LostTrack(StoreError):
    """The state in memory cannot be brought up to date by events: it has to be made anew."""


class WithoutWrites:
    """The half of a store that changes it: requests for it never come here."""

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        raise _only_reads()

    async def compact(self, revision: int) -> None:
        """The writer does."""

    async def use_slot(self, slot: int) -> None:
        raise _only_reads()

    async def advance(self, revision: int) -> None:
        raise _only_reads()

    async def hold(self, part: str) -> int:
        raise _only_reads()

    def release(self, part: str) -> None:
        """The writer does: there are no writes here that could wait."""

    def refuse(self, part: str, shard: str) -> None:
        """Likewise."""

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        raise _only_reads()

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        raise _only_reads()

    def staged(self, part: str) -> str | None:
        return None

    async def discard(self, part: str) -> None:
        raise _only_reads()

    async def adopt(self, part: str, base: int) -> Adoption:
        raise _only_reads()

    async def announce(self, part: str) -> None:
        raise _only_reads()

    async def tidy(self, part: str) -> None:
        raise _only_reads()


def _only_reads() -> StoreUnavailable:
    return StoreUnavailable("this process only reads")


class FollowingStore(WithoutWrites, ReadingHalf):
    def __init__(
        self,
        path: pathlib.Path,
        progress: LogProgress,
        *,
        recent_bytes: int = 16 << 20,
        readers: int = 8,
    ) -> None:
        self._progress = progress
        self._adoptions = 0
        """Everything that was adopted before the counter had this value is known (`progress`)."""
        self._unannounced: deque[tuple[str, str]] = deque()
        """Parts that were adopted and that listeners do not know wholly, and the last key they do."""
        self.on_adopted: Callable[[], None] | None = None
        """Called when a part of another store is current here, before listeners hear of it."""
        self.on_lost: Callable[[LostTrack], None] | None = None
        """Called when the log cannot be followed any more, before LostTrack is raised."""
        super().__init__(
            path, recent_bytes=recent_bytes, readers=readers, entry_bytes=ENTRY_CACHE_BYTES
        )
        self.size = SizeLimit(0, lambda: 0)
        """The writer keeps the limit."""

    @property
    def compacted(self) -> int:  # type: ignore[override]  # the writer's, as it is now
        return self._progress.compacted

    async def start(self) -> None:
        self._adoptions = self._progress.adoptions & ~1
        self.revision = self._progress.revision
        self._recent = RecentEvents(self.revision, self._recent_bytes)
        try:
            self._open_readers()
            self._imports = incoming.read_all(self._point_connection())
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error

    def refresh(self) -> bool:
        """Take what was announced since the last time; whether that is all, or there is more.

        Raises LostTrack.
        """
        target = self._progress.revision
        return self.revision >= target or self._take(target)

    def refresh_committed(self) -> bool:
        """The same for everything that is in the file, announced or not.

        A list shows transactions before they are announced; with its revision a client may come
        to another process.
        """
        with self._translated():
            newest = self._point_connection().execute(scans.NEWEST).fetchone()[0] or 0
        target = max(newest, self._progress.revision)
        return self.revision >= target or self._take(target)

    def _take(self, target: int) -> bool:
        """The next events up to a revision; whether there are no more."""
        connection, adoptions = self._point_connection(), self._progress.adoptions
        with self._translated():
            imports = None
            with scans.snapshot(connection):
                page = scans.some_events(connection, self.revision, target, _ROWS)
                if self._progress.adoptions != self._adoptions:
                    imports = incoming.read_all(connection)
        if self.revision < self._progress.compacted:
            self._lose_track(f"events after {self.revision} are compacted")
        if imports is not None:
            self._note_adopted(imports)
            self._adoptions = max(self._adoptions, adoptions & ~1)
        if self._unannounced:
            self._announce_some()
            return False
        events = self._without_adopted(page.events) if self._imports else page.events
        self._publish(page.reached, events)
        return page.reached >= target

    # -- parts of other stores

    def _note_adopted(self, imports: dict[str, ImportState]) -> None:
        """Parts may have been adopted: there are no events of what is in them."""
        known, self._imports = self._imports, imports
        for part, state in imports.items():
            before = known.get(part)
            if state.adoption is None or (before and before.adoption == state.adoption):
                continue
            if self.revision < self._progress.adopted_since:
                # It may have been here before, and what is known of it has gone without events.
                self._lose_track(f"part {part} was adopted, and events before it are missing")
            self._unannounced.append((part, ""))
            self._recent = RecentEvents(state.adoption.revision, self._recent_bytes)
            self._entries.clear()
            if self.on_adopted is not None:
                self.on_adopted()

    def _announce_some(self) -> None:
        """Tell listeners about the next rows of a part that was adopted."""
        part, after = self._unannounced[0]
        state = self._imports.get(part)
        at = state.adoption.revision if state is not None and state.adoption is not None else 0
        with self._translated():
            exported = scans.exported(self._point_connection(), part, after, at)
            with closing(exported) as found:
                rows = list(islice((row for row in found if row is not None), _ROWS))
        if rows:
            self._unannounced[0] = (part, rows[-1].key)
            self._listeners.tell([arrival(row) for row in rows])
        if len(rows) < _ROWS:
            self._unannounced.popleft()

    def _without_adopted(self, events: Sequence[Event]) -> Sequence[Event]:
        """Without those of adopted parts from before, of which listeners know the result."""
        adopted = {
            part: state.adoption.revision
            for part, state in self._imports.items()
            if state.adoption is not None and state.adoption.revision > self.revision
        }
        if not adopted:
            return events
        return [one for one in events if one.revision > adopted.get(part_of(one.key), 0)]

    def _lose_track(self, why: str) -> NoReturn:
        error = LostTrack(f"{self._path}: {why}")
        if self.on_lost is not None:
            self.on_lost(error)
        raise error

    async def barrier(self) -> None:
        while not self.refresh():
            await rest()

    def hold_scans(self, held: Callable[[], None]) -> None:
        """Start no scans until `resume_scans`; say when those under way are through."""
        self._readers.drain(held)

    def resume_scans(self) -> None:
        self._readers.resume()

    async def drain(self) -> None:
        """Nothing is written here."""

    async def stop(self) -> None:
        self._close_readers()

    def health(self) -> str | None:
        return "the store is not running" if self._points is None else None
