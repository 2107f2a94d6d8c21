"""Integrity check of the file, in the background and only after an unclean stop.

SQLite survives a crash by design; this detects disks that lost synced writes.
It reads the whole file, so start-up does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
import sqlite3

from pykcp.storage.sqlite import files
from pykcp.storage.sqlite.worker import StoreThread

logger = logging.getLogger(__name__)


def check(connection: sqlite3.Connection) -> str | None:
    """The first thing that is wrong with the file; None: nothing is."""
    try:
        (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        finding = str(error)
    return None if finding == "ok" else str(finding)


class BackgroundCheck:
    def __init__(self, path: pathlib.Path) -> None:
        self.problem: str | None = None
        self.is_done = False
        self._path = path
        self._finding: str | None = None
        self._connection = files.connect(path)
        self._worker = StoreThread("store-check", asyncio.get_running_loop())
        self._worker.submit(self._check, self._checked)
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._connection.interrupt()
        self._worker.close()
        self._connection.close()

    def _check(self) -> None:
        self._finding = check(self._connection)

    def _checked(self, error: BaseException | None) -> None:
        self.is_done = True
        if self._stopped:
            return
        finding = self._finding if error is None else str(error)
        if finding is not None:
            self.problem = f"{self._path} is damaged ({finding}): {files.WHAT_TO_DO}"
            logger.error("%s", self.problem)
