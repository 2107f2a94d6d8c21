"""The local copy of what is in etcd: SQLite tables that etcd's watch keeps current.

It is disposable. Nothing waits for the disk; after a power failure, or when it
belongs to another etcd, it is thrown away and fetched again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredChange
from pykcp.storage.errors import StoreError
from pykcp.storage.etcd.decoding import EtcdEvent, EtcdOutcome, decode, rendered
from pykcp.storage.etcd.envelope import Keyspace, unpack
from pykcp.storage.etcd.epochs import Epoch, Epochs, revision_of
from pykcp.storage.holds import Holds
from pykcp.storage.interface import Event
from pykcp.storage.moving import Adoption
from pykcp.storage.ring import RecentEvents
from pykcp.storage.size_limit import SizeLimit
from pykcp.storage.sqlite import files, incoming, scans, sweeps, tables
from pykcp.storage.sqlite.checkpoints import Checkpoints
from pykcp.storage.sqlite.incoming import ImportState
from pykcp.storage.sqlite.reading import ReadingHalf
from pykcp.storage.sqlite.worker import Done, StoreThread

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES = 16 << 20
LOG_BYTES = 128 << 20
PAGES_PER_STEP = 64
BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")

FEW_EPOCHS = 64
ANY_ROW = "SELECT 1 FROM log WHERE seq >= ? AND seq <= ? LIMIT 1"
OLD_KEYS = "SELECT key, seq, terms FROM current WHERE deleted = 0 ORDER BY key"


class Mirror(ReadingHalf):
    def __init__(
        self,
        path: pathlib.Path,
        keyspace: Keyspace,
        *,
        recent_bytes: int,
        readers: int,
        most_bytes: int = 0,
    ) -> None:
        super().__init__(path, recent_bytes=recent_bytes, readers=readers)
        self.applied = 0
        """The newest revision of etcd's that is here."""
        self.epochs = Epochs()
        self._holds = Holds()
        self.staged_notes: dict[str, str] = {}
        """Of parts that are on their way here."""
        self._keyspace = keyspace
        self._lock = files.FileLock(path)
        self._changing = asyncio.Lock()
        """Held while the tables are replaced or swept, which takes several turns of the loop."""
        self._connection: sqlite3.Connection | None = None
        self.size = SizeLimit(most_bytes, self._used_bytes)
        self._checkpointer: sqlite3.Connection | None = None
        self._worker: StoreThread | None = None
        self._checkpoints: Checkpoints | None = None

    def open(self, cluster: int, newest: int) -> None:
        """Open the copy if it is one of this etcd (now at revision `newest`), or an empty one."""
        files.make_private_file(self._path)
        self._lock.acquire()
        source = f"{cluster:x} {self._keyspace.start.decode()} {boot_id()}"
        try:
            is_ours = self._open_tables(source) and self.applied <= newest
        except (sqlite3.Error, StoreError) as error:
            logger.warning("the mirror %s cannot be used, fetching it again: %s", self._path, error)
            is_ours = False
        if not is_ours:
            self._start_over(source)
        self._recent = RecentEvents(self.revision, self._recent_bytes)
        self._open_readers()
        self._open_checkpoints()
        self.size.look()

    def _used_bytes(self) -> int:
        return sweeps.used_bytes(self._connection) if self._connection is not None else 0

    def close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._worker is not None:
            self._worker.close()
        self._close_readers()
        for connection in (self._checkpointer, self._connection):
            if connection is not None:
                connection.close()
        self._worker = self._checkpoints = self._checkpointer = self._connection = None
        self._lock.release()

    def server_id(self) -> str:
        """Names this server for as long as its copy is kept: no two processes have it open."""
        connection = self._opened()
        known = files.read_text(connection, "server")
        if not known:
            known = secrets.token_hex(8)
            files.write_meta(connection, "server", known)
        return known

    def remove(self) -> None:
        for suffix in ("", "-wal", "-shm", ".lock"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def apply(self, events: Sequence[EtcdEvent], writer: int) -> list[EtcdOutcome]:
        """Apply complete revisions of etcd, in order; returns the requests of this server in them."""
        connection = self._opened()
        is_renumbered = self._learn(events)
        decoded = decode(
            events,
            self._keyspace,
            lambda key: tables.find(connection, key),
            self._last_value,
            writer,
            self.epochs,
        )
        for key in decoded.foreign:
            logger.warning("ignoring an unknown value in etcd: %r", key)
        if decoded.changes or is_renumbered:
            with self._translated(), transaction(connection):
                tables.apply(connection, decoded.changes)
                if is_renumbered:
                    self._store_epochs(connection)
        self.reached(events[-1].revision, [planning.event(change) for change in decoded.changes])
        self._learn_releases(events)
        if self._checkpoints is not None:
            self.size.note(self._checkpoints.note(decoded.changes))
        return decoded.outcomes

    def _learn(self, events: Sequence[EtcdEvent]) -> bool:
        """Note what the events say of numbers and of imports; whether an epoch has begun."""
        is_renumbered = False
        for event in events:
            part = self._keyspace.imported_part(event.key)
            if event.key == self._keyspace.numbering and event.value is not None:
                self.epochs.begin(event.revision, int(event.value))
                is_renumbered = True
            elif part is not None and event.value is not None:
                self.note_import(part, event.revision)
            elif part is not None:
                self._imports.pop(part, None)
            elif event.value is not None:
                self.note_hold(event.key)
        return is_renumbered

    def note_hold(self, etcd_key: bytes) -> None:
        """A server lets writes to a part wait, on all of them."""
        part = self._keyspace.held_part(etcd_key)
        if part is not None:
            self._holds.hold(part)

    def _learn_releases(self, events: Sequence[EtcdEvent]) -> None:
        """Listeners know by now whether a part that is released has moved away."""
        for event in events:
            part = self._keyspace.held_part(event.key) if event.value is None else None
            if part is not None:
                self._holds.release_held(part)

    def note_import(self, part: str, revision: int) -> None:
        """A part came from another shard; of its history before, nothing is known here."""
        self._imports[part] = ImportState("", Adoption(self.epochs.newest_of(revision), 0))

    def reached(self, revision: int, events: Sequence[Event] = ()) -> None:
        """Everything up to a revision of etcd's is here."""
        self.applied = max(self.applied, revision)
        self._publish(self.epochs.newest_of(self.applied), events)

    async def replace(
        self, pages: AsyncIterator[Any], revision: int, numbering: EtcdEvent | None
    ) -> None:
        """Replace the content by that of etcd at a revision; `numbering`: the offset stored there.

        Listeners get the changes since the last revision of the mirror, as far as they
        are known: the newest state of changed keys, the last known state of deleted ones.
        """
        connection = self._opened()
        reader = await self._readers.take()
        self.epochs = Epochs()
        if numbering is not None and numbering.value is not None:
            self.epochs.begin(numbering.revision, int(numbering.value))
        try:
            async with self._changing:
                with self._translated(), transaction(connection), scans.snapshot(reader):
                    events = await self._replace(connection, reader, pages, revision)
        finally:
            self._readers.give(reader)
        self.compacted = self.epochs.newest_of(revision)
        self._recent = RecentEvents(self.compacted, self._recent_bytes)
        self.applied = revision
        self.size.look()
        self.revision = self.compacted
        if events:
            self._listeners.tell(events)

    async def compact(self, revision: int) -> None:
        connection = self._opened()
        async with self._changing:
            self.compacted = max(self.compacted, revision)
            is_more = True
            while is_more:
                with self._translated(), transaction(connection):
                    is_more = sweeps.sweep(connection, self.compacted)
                self._note_pages(sweeps.ROWS_PER_STEP)
                await asyncio.sleep(0)
            while pages := min(sweeps.excess_pages(connection), PAGES_PER_STEP):
                with self._translated():
                    sweeps.shrink(connection, pages)
                self._note_pages(2 * pages)
                await asyncio.sleep(0)
            self._forget_unused_epochs(connection)
            self.size.look()

    async def _replace(
        self,
        connection: sqlite3.Connection,
        reader: sqlite3.Connection,
        pages: AsyncIterator[Any],
        revision: int,
    ) -> list[Event]:
        for table in ("log", "current", "idx"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own
        difference = Difference(reader, self.revision)
        async for page in pages:
            changes = [self._fetched(kv.key, kv.mod_revision, kv.value) for kv in page]
            tables.apply(connection, changes)
            difference.note(changes)
        newest = self.epochs.newest_of(revision)
        files.write_meta(connection, "compacted", newest)
        files.write_meta(connection, "swept", newest)
        self._store_epochs(connection)
        return difference.events()

    def _fetched(self, etcd_key: bytes, mod_revision: int, data: bytes) -> StoredChange:
        try:
            key = self._keyspace.key_of(etcd_key)
            envelope = unpack(data)
        except ValueError as error:
            raise StoreError(
                f"etcd has a key below {self._keyspace.start.decode()} that this program has not"
                f" written: {etcd_key!r} ({error}); remove it or choose another prefix"
            ) from error
        self.epochs.learn(mod_revision, envelope.offset)
        seq = revision_of(mod_revision, envelope.offset, envelope.place)
        value = rendered(envelope, seq)
        return planning.replacement(key, None, seq, value, envelope.terms, envelope.indexes)

    def _store_epochs(self, connection: sqlite3.Connection) -> None:
        text = json.dumps([self.epochs.record, *self.epochs])
        files.write_meta(connection, "epochs", text)

    def _forget_unused_epochs(self, connection: sqlite3.Connection) -> None:
        """Those in which nothing was written that is still there."""
        known = list(self.epochs)
        if len(known) <= FEW_EPOCHS:
            return
        unused = []
        for epoch, following in pairwise(known):
            first = revision_of(epoch.since, epoch.offset, 0)
            last = self.epochs.newest_of(following.since - 1)
            has_rows = connection.execute(ANY_ROW, (first, last)).fetchone() is not None
            if not has_rows and last <= self.compacted:
                unused.append(epoch)
        if unused:
            self.epochs = self.epochs.without(unused)
            with self._translated(), transaction(connection):
                self._store_epochs(connection)

    def _last_value(self, key: str) -> bytes:
        entry = scans.get(self._opened(), key)
        return entry.value if entry else b""

    def _open_tables(self, source: str) -> bool:
        """False: they are those of another etcd, or may have been damaged by a power failure."""
        self._connection = connection = files.connect(self._path, synchronous="OFF")
        files.create_or_check(connection, self._path)
        if files.read_text(connection, "source") != source:
            return False
        self.compacted = files.read_meta(connection, "compacted")
        newest = connection.execute(scans.NEWEST).fetchone()[0] or 0
        record, *known = json.loads(files.read_text(connection, "epochs") or "[0]")
        self.epochs = Epochs((Epoch(*one) for one in known), record)
        self.applied = self.epochs.etcd_revision_of(max(newest, self.compacted))
        self.revision = self.epochs.newest_of(self.applied)
        self.staged_notes = {
            part: state.note for part, state in incoming.read_all(connection).items()
        }
        return True

    def _start_over(self, source: str) -> None:
        if self._connection is not None:
            self._connection.close()
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        files.make_private_file(self._path)
        self._connection = connection = files.connect(self._path, synchronous="OFF")
        files.create(connection)
        files.write_meta(connection, "source", source)
        self.applied = self.revision = self.compacted = 0
        self.epochs = Epochs()
        self.staged_notes = {}

    def _open_checkpoints(self) -> None:
        self._checkpointer = files.connect(self._path, synchronous="OFF")
        self._worker = StoreThread("mirror-checkpoint", asyncio.get_running_loop())
        self._checkpoints = Checkpoints(
            self._checkpointer, self._worker, run_here, [self._readers],
            is_idle=lambda: True, after_bytes=CHECKPOINT_BYTES, most_bytes=LOG_BYTES,
        )  # fmt: skip

    def _note_pages(self, pages: int) -> None:
        if self._checkpoints is not None:
            self._checkpoints.note_bytes(pages * files.PAGE_BYTES)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("the mirror is not open")
        return self._connection


class Difference:
    """The differences of a new state from the old one, as events in key order."""

    def __init__(self, reader: sqlite3.Connection, revision: int) -> None:
        self._reader = reader
        self._old: Iterator[tuple[str, int, str]] = iter(reader.execute(OLD_KEYS))
        self._next = next(self._old, None)
        self._revision = revision
        self._events: list[Event] = []
        self._is_first = revision == 0

    def note(self, changes: Sequence[StoredChange]) -> None:
        if self._is_first:  # the old state was never published, so no listener misses events
            return
        for change in changes:
            self._gone_before(change.key)
            previous = self._next if self._next and self._next[0] == change.key else None
            if previous is not None:
                self._next = next(self._old, None)
            if previous is None or previous[1] != change.revision:
                event = planning.event(change)
                if previous is not None:
                    event.created, event.previous_terms = False, previous[2]
                self._events.append(event)

    def events(self) -> list[Event]:
        self._gone_before(None)
        return sorted(self._events, key=lambda event: event.revision)

    def _gone_before(self, key: str | None) -> None:
        while self._next is not None and (key is None or self._next[0] < key):
            gone, _, terms = self._next
            entry = scans.get(self._reader, gone)
            # The revision of the deletion is unknown. Any number will do that is newer than what was
            # seen and already forgotten: who stops there has to list again.
            self._revision += 1
            value = entry.value if entry else b""
            self._events.append(Event(self._revision, gone, value, terms, terms, False, True))
            self._next = next(self._old, None)


class transaction:  # noqa: N801 - reads as a statement
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def run_here(work: Callable[[], None], done: Done) -> None:
    """The mirror's transactions are over when the loop gets to this: no need to wait."""
    try:
        work()
    except sqlite3.Error as error:
        done(error)
    else:
        done(None)


def boot_id() -> str:
    """Changes when the machine has been down: what was not synced may then be lost."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
