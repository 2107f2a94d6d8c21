"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pykcp.aio.owner import spawn_detached
from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredChange
from pykcp.storage.errors import FutureRevision, StoreError, StoreUnavailable
from pykcp.storage.interface import Event, Revisions
from pykcp.storage.moving import Adoption, IncomingRow
from pykcp.storage.numbering import RESERVED_AHEAD, numbering
from pykcp.storage.operations import DeleteKey, Operation
from pykcp.storage.ring import RecentEvents
from pykcp.storage.size_limit import SizeLimit
from pykcp.storage.sqlite import files, incoming, scans, sweeps
from pykcp.storage.sqlite.checkpoints import Checkpoints
from pykcp.storage.sqlite.commits import GroupCommit
from pykcp.storage.sqlite.idle import IdleCache
from pykcp.storage.sqlite.incoming import ImportState
from pykcp.storage.sqlite.integrity import BackgroundCheck
from pykcp.storage.sqlite.reading import ENTRY_CACHE_BYTES, ReadingHalf
from pykcp.storage.sqlite.worker import StoreThread

if TYPE_CHECKING:
    from pykcp.storage.progress import LogFollowers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SQLiteSettings:
    recent_bytes: int = 8 << 20
    """Events kept in memory for watches that start a little in the past."""
    batch_operations: int = 192
    """A batch takes no more transactions once it has so many operations: they hold the loop
    for some 15 µs each …"""
    batch_bytes: int = 2 << 20
    """… or so many bytes of values."""
    readers: int = 8
    """Scans that may be under way at once; more wait."""
    checkpoint_bytes: int = 16 << 20
    """The write-ahead log is carried over into the file about every so many bytes."""
    log_bytes: int = 128 << 20
    """How far it may grow when scans keep it from starting over; then they have to wait."""
    is_durable: bool = True
    """Whether a commit waits for the disk; without it the last ones may be lost with the power,
    though never the file as a whole. For what can be had again."""
    most_bytes: int = 0
    """What the store may hold; 0: any amount. See `pykcp.storage.size_limit`."""
    erases: bool = False
    """Whether deleted rows are overwritten with zeros: once values are encrypted, older plain ones
    must not remain in unused parts of the file."""


WRITER_CACHE_KIB = 8192
"""Room for what a batch changes: nothing goes to disk before COMMIT, which is in a thread."""

DEFAULT_SETTINGS = SQLiteSettings()


class SQLiteStore(ReadingHalf):
    def __init__(
        self,
        path: pathlib.Path,
        *,
        settings: SQLiteSettings = DEFAULT_SETTINGS,
        followers: LogFollowers | None = None,
    ) -> None:
        """`followers`: other processes that follow the log."""
        super().__init__(
            path,
            recent_bytes=settings.recent_bytes,
            readers=settings.readers,
            entry_bytes=ENTRY_CACHE_BYTES,
        )
        self._settings = settings
        self._reserved = 0
        self._reserving: asyncio.Task[None] | None = None
        """Up to this revision, `advance` does not have to store anything."""
        self._followers = followers
        self._staged_since: dict[str, int] = {}
        """The revision when the first rows of a part were staged."""
        self._lock = files.FileLock(path)
        self._commits: GroupCommit | None = None
        self._compacting = asyncio.Lock()
        self._worker: StoreThread | None = None
        self._checkpoints: Checkpoints | None = None
        self.idle_cache: IdleCache | None = None
        self._checkpoint_worker: StoreThread | None = None
        self._checkpointer: sqlite3.Connection | None = None
        self._check: BackgroundCheck | None = None
        self._writer: sqlite3.Connection | None = None
        self.size = SizeLimit(settings.most_bytes, self._used_bytes)

    async def start(self) -> None:
        files.make_private_file(self._path)
        self._lock.acquire()
        try:
            self._open()
        except sqlite3.Error as error:
            self._close()
            raise files.translate(error, self._path) from error
        except BaseException:
            self._close()
            raise

    async def drain(self) -> None:
        if self.idle_cache is not None:
            self.idle_cache.close()
        if self._commits is not None:
            await self._commits.close()

    async def stop(self) -> None:
        await self.drain()
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._stop_workers()
        self._close_readers()
        try:
            if self._writer is not None:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        except sqlite3.Error as error:
            # It stays in the write-ahead log, which the next start reads.
            logger.warning("the last checkpoint of %s failed: %s", self._path, error)
        self._close()

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        if self.size.is_reached:
            self.size.check(operations, self.get)
        return await self._started().write(operations)

    async def barrier(self) -> None:
        """There is only one server."""

    # -- moving --------------------------------------------------------------------------------

    async def use_slot(self, slot: int) -> None:
        commits = self._started()
        # Stored one higher: 0 is what is read if there is nothing.
        await commits.maintain(partial(files.write_meta, name="slot", value=slot + 1))
        commits.numbering = numbering(slot)

    async def advance(self, revision: int) -> None:
        commits = self._started()
        if revision > self._reserved:
            await self._reserve(commits.numbering.reserve(revision))
        commits.advance(revision)
        await commits.settled()
        if revision > self.revision:
            self._publish(revision, ())
        is_clock = commits.numbering.step > 1
        is_reserving = self._reserving is not None and not self._reserving.done()
        if is_clock and revision > self._reserved - RESERVED_AHEAD and not is_reserving:
            # Ahead of need: a watch over all shards must not wait for the disk of each of them.
            self._reserving = spawn_detached(self._reserve_ahead(revision), "store/reserve")

    async def _reserve(self, reserved: int) -> None:
        write = partial(files.write_meta, name="reserved", value=reserved)
        await self._started().maintain(write)
        self._reserved = max(self._reserved, reserved)

    async def _reserve_ahead(self, revision: int) -> None:
        try:
            await self._reserve(self._started().numbering.reserve(revision))
        except StoreError as error:
            # Tried again by the call that needs it, which raises it.
            logger.debug("revisions could not be reserved ahead: %s", error)

    async def hold(self, part: str) -> int:
        commits = self._started()
        commits.holds.hold(part)
        await commits.settled()
        return self.revision

    def release(self, part: str) -> None:
        self._started().holds.release(part)

    def refuse(self, part: str, shard: str) -> None:
        self._started().holds.refuse(part, shard)

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        await self._started().write(operations, passes_holds=True)

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        commits = self._started()
        if self.staged(part) is None:
            self._staged_since[part] = self.revision
        await commits.pause(
            _in_transaction(partial(incoming.stage, part=part, rows=rows, note=note))
        )
        self._imports[part] = ImportState(note, None)
        self._note_pages(len(rows))

    def staged(self, part: str) -> str | None:
        state = self._imports.get(part)
        return state.note if state is not None and state.adoption is None else None

    async def discard(self, part: str) -> None:
        if self.staged(part) is not None:
            discard = _in_transaction(partial(incoming.discard, part=part))
            await self._started().pause(discard)
            del self._imports[part]

    async def adopt(self, part: str, base: int) -> Adoption:
        commits, state = self._started(), self._imports[part]
        if state.adoption is not None:
            return state.adoption
        adopted: list[Adoption] = []

        def apply(connection: sqlite3.Connection) -> None:
            revision, step = commits.next_revision(), commits.numbering.step
            adopted.append(incoming.adopt(connection, part, base, revision, step))

        await commits.pause(self._told_to_followers(part, _in_transaction(apply)))
        self._entries.clear()  # adopted rows are not events
        self._staged_since.pop(part, None)
        adoption = adopted[0]
        commits.advance(adoption.revision)
        self._imports[part] = state._replace(adoption=adoption)
        self._recent = RecentEvents(max(self.revision, adoption.revision), self._recent_bytes)
        if adoption.revision > self.revision:
            self._publish(adoption.revision, ())
        self.size.look()
        return adoption

    async def tidy(self, part: str) -> None:
        has_more = [True]

        def remove(connection: sqlite3.Connection) -> None:
            has_more[0] = incoming.tidy(connection, part)

        while has_more[0]:
            await self._started().pause(_in_transaction(remove))

    def _told_to_followers(
        self, part: str, adopt: Callable[[sqlite3.Connection], None]
    ) -> Callable[[sqlite3.Connection], None]:
        followers, since = self._followers, self._staged_since.get(part, 0)
        if followers is None:
            return adopt

        def told(connection: sqlite3.Connection) -> None:
            followers.announce_adoption(since)
            try:
                adopt(connection)
            finally:
                followers.announce_adoption(since)

        return told

    async def compact(self, revision: int) -> None:
        commits = self._started()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        async with self._compacting:
            if revision <= self.compacted:
                return
            self.compacted = revision
            if self._followers is not None:
                self._followers.announce_compaction(revision)
            if self._imports:
                await commits.maintain(partial(incoming.forget_adopted, compacted=revision))
                self._imports = {
                    part: state
                    for part, state in self._imports.items()
                    if state.adoption is None or state.adoption.revision > revision
                }
            is_more = True
            while is_more:
                is_more = bool(await commits.maintain(partial(sweeps.sweep, target=revision)))
                self._note_pages(sweeps.ROWS_PER_STEP)
            await self._shrink(commits)
            self.size.look()

    def health(self) -> str | None:
        if self._commits is None or self._checkpoints is None:
            return "the store is not running"
        if self._check is not None and self._check.problem is not None:
            return self._check.problem
        return self._commits.failure.text() or self._checkpoints.failure.text()

    async def _shrink(self, commits: GroupCommit) -> None:
        def excess(connection: sqlite3.Connection) -> object:
            return sweeps.excess_pages(connection)

        while (pages := await commits.maintain(excess)) and isinstance(pages, int):
            pages = min(pages, sweeps.PAGES_PER_STEP)
            await commits.pause(partial(sweeps.shrink, pages=pages))
            self._note_pages(2 * pages)

    def _used_bytes(self) -> int:
        return sweeps.used_bytes(self._writer) if self._writer is not None else 0

    def _note_pages(self, pages: int) -> None:
        if self._checkpoints is not None:
            self._checkpoints.note_bytes(pages * files.PAGE_BYTES)

    def _started(self) -> GroupCommit:
        if self._commits is None:
            raise StoreUnavailable("the store is not running")
        return self._commits

    def _open(self) -> None:
        synchronous = "FULL" if self._settings.is_durable else "NORMAL"
        self._writer = writer = files.connect(
            self._path, synchronous=synchronous, cache_kib=WRITER_CACHE_KIB
        )
        files.create_or_check(writer, self._path)
        sweeps.set_erasing(writer, is_on=self._settings.erases)
        self.compacted = files.read_meta(writer, "compacted")
        newest = writer.execute(scans.NEWEST).fetchone()[0] or 0
        self._reserved = files.read_meta(writer, "reserved")
        self._imports = incoming.read_all(writer)
        adopted = incoming.complete_since(self._imports, "")
        self.revision = max(newest, self.compacted, self._reserved, adopted)
        slot = files.read_meta(writer, "slot")
        if self._followers is not None:
            self._followers.announce_compaction(self.compacted)
            self._followers.announce(self.revision)
        self._recent = RecentEvents(self.revision, self._settings.recent_bytes)
        self.size.look()
        self._open_readers()
        self._checkpointer = files.connect(self._path)
        loop = asyncio.get_running_loop()
        self._worker = StoreThread("store-commit", loop)
        self._checkpoint_worker = StoreThread("store-checkpoint", loop)
        self._commits = commits = GroupCommit(
            writer, self._worker, self.revision, numbering(slot - 1 if slot else None),
            most_operations=self._settings.batch_operations,
            most_bytes=self._settings.batch_bytes,
            announce=self._committed,
            translate=partial(files.translate, path=self._path),
        )  # fmt: skip
        self._checkpoints = Checkpoints(
            self._checkpointer, self._checkpoint_worker, commits.intermission,
            [self._readers] if self._followers is None else [self._readers, self._followers],
            is_idle=lambda: commits.is_idle,
            after_bytes=self._settings.checkpoint_bytes, most_bytes=self._settings.log_bytes,
        )  # fmt: skip
        self.idle_cache = IdleCache(writer, self._commits.intermission)
        if not self._lock.was_clean:
            self._check = BackgroundCheck(self._path)

    def _publish(self, revision: int, events: Sequence[Event]) -> None:
        if self._followers is not None:  # before any client can learn of it
            self._followers.announce(revision)
        super()._publish(revision, events)

    def _committed(self, changes: list[StoredChange]) -> None:
        self._publish(changes[-1].revision, [planning.event(change) for change in changes])
        if self._checkpoints is not None:
            written = self._checkpoints.note(changes)
            self.size.note(written)
            if self.idle_cache is not None:
                self.idle_cache.note(written)

    def _stop_workers(self) -> None:
        if self._check is not None:
            self._check.stop()
            self._check = None
        for worker in (self._checkpoint_worker, self._worker):
            if worker is not None:
                worker.close()
        self._checkpoint_worker = self._worker = None

    def _close(self) -> None:
        self._stop_workers()
        self._close_readers()
        for connection in (self._checkpointer, self._writer):
            if connection is not None:
                connection.close()
        self._checkpointer = self._writer = None
        self._commits = self._checkpoints = None
        self._lock.release()


def _in_transaction(
    work: Callable[[sqlite3.Connection], None],
) -> Callable[[sqlite3.Connection], None]:
    def run(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            work(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    return run
