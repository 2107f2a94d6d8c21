"""The store on one SQLite file."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pykcp.storage import changes as planning
from pykcp.storage.changes import Change
from pykcp.storage.errors import FutureRevision, Unavailable
from pykcp.storage.interface import Operation, Revisions
from pykcp.storage.ring import RecentEvents
from pykcp.storage.sqlite import files, scans, sweeps
from pykcp.storage.sqlite.commits import GroupCommit
from pykcp.storage.sqlite.reading import ReadingHalf
from pykcp.storage.sqlite.worker import Worker


@dataclass(frozen=True, slots=True)
class SQLiteSettings:
    recent_bytes: int = 16 << 20
    """Events kept in memory for watches that start a little in the past."""
    batch_bytes: int = 2 << 20
    """A batch takes no more transactions once it has this many bytes of values."""
    readers: int = 8
    """Scans that may be under way at once; more wait."""


DEFAULT_SETTINGS = SQLiteSettings()


class SQLiteStore(ReadingHalf):
    def __init__(self, path: pathlib.Path, *, settings: SQLiteSettings = DEFAULT_SETTINGS) -> None:
        super().__init__(path, recent_bytes=settings.recent_bytes, readers=settings.readers)
        self._settings = settings
        self._lock = files.Lock(path)
        self._commits: GroupCommit | None = None
        self._compacting = asyncio.Lock()
        self._worker: Worker | None = None
        self._writer: sqlite3.Connection | None = None

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

    async def stop(self) -> None:
        if self._commits is not None:
            await self._commits.close()
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._close_readers()
        if self._writer is not None:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        self._close()

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        return await self._started().write(operations)

    async def compact(self, revision: int) -> None:
        commits = self._started()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        async with self._compacting:
            if revision <= self.compacted:
                return
            self.compacted = revision
            while await commits.maintain(partial(sweeps.sweep, target=revision)):
                pass
            while await commits.maintain(sweeps.shrink):
                pass

    def health(self) -> str | None:
        if self._commits is None:
            return "the store is not running"
        return None if self._commits.failure is None else str(self._commits.failure)

    def _started(self) -> GroupCommit:
        if self._commits is None:
            raise Unavailable("the store is not running")
        return self._commits

    def _open(self) -> None:
        self._writer = writer = files.connect(self._path)
        files.create_or_check(writer, self._path)
        self.compacted = files.read_meta(writer, "compacted")
        newest = writer.execute(scans.NEWEST).fetchone()[0] or 0
        self.revision = max(newest, self.compacted)
        self._recent = RecentEvents(self.revision, self._settings.recent_bytes)
        self._worker = Worker("store-commit", asyncio.get_running_loop())
        self._commits = GroupCommit(
            writer, self._worker, self.revision,
            most_bytes=self._settings.batch_bytes,
            announce=self._committed,
            translate=partial(files.translate, path=self._path),
        )  # fmt: skip

    def _committed(self, changes: list[Change]) -> None:
        self._publish(changes[-1].revision, [planning.event(change) for change in changes])

    def _close(self) -> None:
        self._close_readers()
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._commits = None
        self._lock.release()
