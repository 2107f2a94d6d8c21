"""Returns the memory of the writer's page cache to the system when nothing is written any more.

After many writes the cache is full of pages that the next write hardly needs. The timer runs only
from the first write that makes it worth while until the cache is freed.
"""

from __future__ import annotations

import asyncio
import sqlite3

from pykcp.aio.memory import trim
from pykcp.storage.sqlite.checkpoints import Intermission

IDLE_SECONDS = 1.0
WORTH_BYTES = 4 << 20
"""What has to be written before the cache is worth freeing: a server that is written to now and
then keeps it."""


class IdleCache:
    def __init__(
        self,
        connection: sqlite3.Connection,
        intermission: Intermission,
        *,
        seconds: float = IDLE_SECONDS,
    ) -> None:
        self._connection = connection
        self._intermission = intermission
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._written = 0
        """Bytes since the cache was freed."""
        self._seen = 0
        """The same, when the timer ran last."""
        self._timer: asyncio.TimerHandle | None = None
        self.freed = 0
        """How often the cache was freed."""

    def note(self, size: int) -> None:
        """So many bytes were written."""
        self._written += size
        if self._timer is None and self._written >= WORTH_BYTES:
            self._start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _start(self) -> None:
        self._seen = self._written
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        if self._written != self._seen:
            self._start()
        else:
            self._intermission(self._free, self._done)

    def _free(self) -> None:
        """In the thread of the writer."""
        self._connection.execute("PRAGMA shrink_memory").close()
        trim()

    def _done(self, error: BaseException | None) -> None:
        self._written, self._timer = 0, None
        self.freed += error is None
