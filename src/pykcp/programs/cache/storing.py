"""Where a cache server keeps what it holds: a file that may be lost without harm."""

from __future__ import annotations

import logging
import pathlib
import secrets
from typing import TYPE_CHECKING

from pykcp.storage.errors import Corrupt
from pykcp.storage.interface import SEALED_INDEX, Store
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.store import SQLiteSettings

if TYPE_CHECKING:
    from pykcp.storage.progress import LogFollowers, LogProgress
    from pykcp.storage.sqlite.following import FollowingStore

_log = logging.getLogger(__name__)
FILE = "cache.db"
MIRROR_FILE = "cache-mirror.db"
"""The copy of a remote cache server."""
_RECENT_BYTES = 4 << 20
_READERS = 4


def new_seal() -> bytes:
    """A key for what is sealed in a cache's file."""
    return secrets.token_bytes(32)


async def start_store(
    directory: pathlib.Path,
    *,
    seal: bytes = b"",
    followers: LogFollowers | None = None,
    file: str = FILE,
    is_kept: bool = False,
) -> Store:
    """The started store; a damaged file is thrown away, since shards publish everything again.

    `seal`: what is encrypted in a shard's store must not lie in the open here. Everything
    is sealed then, with a key that ends with the process, so that no rotation has to come here.
    `is_kept`: the key is that of earlier processes, too, so what they sealed can be read.
    `followers`: other processes that follow the log.
    """
    path = directory / file
    if seal and not is_kept:
        _forget(path)
    store = _make(path, followers)
    try:
        await store.start()
    except Corrupt as error:
        _log.warning("the cache is damaged and starts empty: %s", error)
        return await _start_empty(store, path, followers)
    if seal:
        if _opens(store, sealed(store, seal)):
            return sealed(store, seal)
        return sealed(await _start_empty(store, path, followers), seal)
    if store.lookup(SEALED_INDEX, limit=1):  # with a key of an earlier process
        return await _start_empty(store, path, followers)
    return store


def followed_store(
    directory: pathlib.Path, progress: LogProgress, file: str = FILE
) -> FollowingStore:
    """The same as another process of this machine writes it; not started."""
    from pykcp.storage.sqlite.following import FollowingStore

    return FollowingStore(directory / file, progress, recent_bytes=_RECENT_BYTES, readers=_READERS)


async def _start_empty(
    store: SQLiteStore, path: pathlib.Path, followers: LogFollowers | None
) -> Store:
    await store.stop()
    _forget(path)
    store = _make(path, followers)
    await store.start()
    return store


def _opens(bare: Store, store: Store) -> bool:
    """Whether the values of a file can be read with its key."""
    from pykcp.storage.encryption.errors import Unreadable

    try:
        for key in bare.keys("", limit=1):
            if key not in bare.lookup(SEALED_INDEX, limit=1):
                return False  # written before encryption was configured
            store.get(key)
    except Unreadable:
        return False
    return True


def sealed(store: Store, seal: bytes) -> Store:
    """A store whose values are sealed with a key."""
    from pykcp.storage.encryption import EncryptedStore
    from pykcp.storage.encryption.config import (
        EncryptionConfig,
        EncryptionProvider,
        Key,
        ResourceRule,
    )

    key = Key("process", seal)
    return EncryptedStore(
        store, EncryptionConfig((ResourceRule(("*.*",), (EncryptionProvider("aesgcm", (key,)),)),))
    )


def _forget(path: pathlib.Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _make(path: pathlib.Path, followers: LogFollowers | None) -> SQLiteStore:
    settings = SQLiteSettings(is_durable=False, recent_bytes=_RECENT_BYTES, readers=_READERS)
    return SQLiteStore(path, settings=settings, followers=followers)
