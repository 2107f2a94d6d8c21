"""Where a cache server keeps what it holds: a file that may be lost without harm."""

from __future__ import annotations

import logging
import pathlib
import secrets

from pykcp.storage.errors import Corrupt
from pykcp.storage.interface import SEALED_INDEX, Store
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.store import SQLiteSettings

_log = logging.getLogger(__name__)
FILE = "cache.db"
_RECENT_BYTES = 4 << 20


async def start_store(directory: pathlib.Path, *, is_sealed: bool = False) -> Store:
    """The started store; a damaged file is thrown away, since shards publish everything again.

    `is_sealed`: what is encrypted in a shard's store must not lie in the open here. Everything
    is sealed then, with a key that ends with the process, so that no rotation has to come here.
    """
    path = directory / FILE
    if is_sealed:
        _forget(path)
    store = _make(path)
    try:
        await store.start()
    except Corrupt as error:
        _log.warning("the cache is damaged and starts empty: %s", error)
        return await _start_empty(store, path)
    if is_sealed:
        return _sealed(store)
    if store.lookup(SEALED_INDEX, limit=1):  # with a key of an earlier process
        return await _start_empty(store, path)
    return store


async def _start_empty(store: SQLiteStore, path: pathlib.Path) -> Store:
    await store.stop()
    _forget(path)
    store = _make(path)
    await store.start()
    return store


def _sealed(store: Store) -> Store:
    from pykcp.storage.encryption import EncryptedStore
    from pykcp.storage.encryption.config import (
        EncryptionConfig,
        EncryptionProvider,
        Key,
        ResourceRule,
    )

    key = Key("process", secrets.token_bytes(32))
    return EncryptedStore(
        store, EncryptionConfig((ResourceRule(("*.*",), (EncryptionProvider("aesgcm", (key,)),)),))
    )


def _forget(path: pathlib.Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _make(path: pathlib.Path) -> SQLiteStore:
    return SQLiteStore(
        path, settings=SQLiteSettings(is_durable=False, recent_bytes=_RECENT_BYTES, readers=4)
    )
