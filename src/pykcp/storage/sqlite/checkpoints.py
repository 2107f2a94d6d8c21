"""Checkpoints of the write-ahead log that do not block writers.

A checkpoint has two parts. Most of the log is copied in a separate thread while writers
continue, in several rounds if they add much. The pages they add during the last one are
copied in an intermission, a moment in which no transaction is open: only then is the whole
log copied, and the next transaction restarts the log from its beginning. While
transactions wait, that part is put off until the log has grown to several times the
usual size: the disk takes tens of milliseconds for it.

A reader with an old snapshot prevents the restart; usually the next round succeeds. If
the log has grown beyond `most_bytes`, new scans wait until the running ones are done.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Protocol

from pykcp.storage.changes import StoredChange
from pykcp.storage.failures import LastFailure
from pykcp.storage.sqlite.files import PAGE_BYTES
from pykcp.storage.sqlite.worker import Done, StoreThread

logger = logging.getLogger(__name__)

_REMAINDER = 1 << 20
"""Bytes that may be left to copy in an intermission, in which writers wait …"""
_MOST_ROUNDS = 4
"""… unless they add more each time it is tried without one."""
_PATIENCE = 4
"""How many times as long as usual the log may become before writers have to wait for its copy."""
PAGES_PER_CHANGE = 2
"""About what a change adds to the log beside its value: a page of the log and one of the table."""

Intermission = Callable[[Callable[[], None], Done], None]
"""Runs something at a moment in which no transaction is open, and says how it went."""


class RunningScans(Protocol):
    """Scans whose snapshots keep the log from starting over."""

    def drain(self, drained: Callable[[], None]) -> None:
        """Hold new ones back until `resume`; say when those under way are through."""

    def resume(self) -> None: ...


class Checkpoints:
    def __init__(
        self,
        connection: sqlite3.Connection,
        worker: StoreThread,
        intermission: Intermission,
        scans: Sequence[RunningScans],
        *,
        is_idle: Callable[[], bool],
        after_bytes: int,
        most_bytes: int,
    ) -> None:
        """`is_idle`: whether no transaction is under way or waits."""
        self._connection = connection
        self._worker = worker
        self._intermission, self._is_idle = intermission, is_idle
        self._closed = False
        self._scans = scans
        self._undrained = 0
        self._after_bytes = after_bytes
        self._most_bytes = most_bytes
        self._pending = 0
        """Bytes added since the last checkpoint, as a guess from above."""
        self._running = False
        self._rounds = 0
        """How often the log was copied in this checkpoint."""
        self._log_bytes = 0
        self._is_failing = False
        self.failure = LastFailure()

    def note(self, changes: list[StoredChange]) -> int:
        """A batch has been committed; about how many bytes it added."""
        size = len(changes) * PAGES_PER_CHANGE * PAGE_BYTES
        for change in changes:
            size += len(change.value)
        self.note_bytes(size)
        return size

    def note_bytes(self, size: int) -> None:
        """The write-ahead log has grown; start a checkpoint if it is time."""
        self._pending += size
        is_due = self._pending >= self._after_bytes or self._is_failing
        if is_due and not self._running and not self._closed:
            self._running = True
            self._rounds = 0
            self._start_round()

    def _start_round(self) -> None:
        self._rounds += 1
        self._pending = 0
        self._worker.submit(self._copy, self._copied)

    def close(self) -> None:
        """Start nothing more."""
        self._closed = True

    def _copied(self, error: BaseException | None) -> None:
        if error is not None or self._closed:
            self._finished(error)
        elif self._pending > _REMAINDER and self._rounds < _MOST_ROUNDS:
            self._start_round()
        elif self._log_bytes > self._most_bytes:
            self._undrained = len(self._scans)
            for each in self._scans:
                each.drain(self._drained)
        elif self._is_idle() or self._log_bytes > _PATIENCE * self._after_bytes:
            self._ask_for_intermission()
        else:
            self._finished(None)

    def _drained(self) -> None:
        self._undrained -= 1
        if self._undrained == 0:
            self._ask_for_intermission()

    def _ask_for_intermission(self) -> None:
        self._intermission(self._copy, self._finished)

    def _finished(self, error: BaseException | None) -> None:
        for each in self._scans:
            each.resume()
        self._running = False
        # Nothing is lost: the data is in the write-ahead log, and the next batch tries again.
        if error is None:
            self._is_failing = False
            self.failure.clear()
            return
        if not self._is_failing:
            logger.error("a checkpoint failed: %s", error)
        self._is_failing = True
        self.failure.note(error)

    def _copy(self) -> None:
        """In a thread: copy the pages that no reader needs in the log (a passive checkpoint)."""
        _, frames, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._log_bytes = frames * PAGE_BYTES
