"""Where a cache server keeps what it holds: a file that may be lost without harm."""

from __future__ import annotations

import logging
import pathlib

from pykcp.storage.errors import Corrupt
from pykcp.storage.interface import Store
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.store import SQLiteSettings

_log = logging.getLogger(__name__)
FILE = "cache.db"
_RECENT_BYTES = 4 << 20


async def start_store(directory: pathlib.Path) -> Store:
    """The started store; a damaged file is thrown away, since shards publish everything again."""
    path = directory / FILE
    store = _make(path)
    try:
        await store.start()
    except Corrupt as error:
        _log.warning("the cache starts empty: %s", error)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        store = _make(path)
        await store.start()
    return store


def _make(path: pathlib.Path) -> SQLiteStore:
    return SQLiteStore(
        path, settings=SQLiteSettings(is_durable=False, recent_bytes=_RECENT_BYTES, readers=4)
    )
