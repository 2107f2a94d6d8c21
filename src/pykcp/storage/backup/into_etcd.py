"""From a rebuilt store on SQLite into etcd: each object is written again, below an empty prefix."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from pykcp.storage.backup.manifest import BackupError
from pykcp.storage.backup.rebuild import Rebuilt
from pykcp.storage.encryption import sealed
from pykcp.storage.etcd.envelope import PLACE_BITS
from pykcp.storage.etcd.store import EtcdStore
from pykcp.storage.operations import PutKey
from pykcp.storage.sqlite import files
from pykcp.storage.terms import split_indexes
from pykcp.storage.values import Value

_AT_ONCE = 200
_KEYS_PER_TRANSACTION = 20
_ROWS = (
    "SELECT c.key, c.seq, l.value, c.terms, c.indexes FROM current c JOIN log l ON l.seq = c.seq"
    " WHERE c.deleted = 0 ORDER BY c.key"
)


async def move_into_etcd(store: EtcdStore, path: pathlib.Path, made: Rebuilt) -> Rebuilt:
    """Write a rebuilt store to one that is not started, and remove its file. Raises StoreError."""
    await store.claim((made.revision >> PLACE_BITS) + 1)
    await store.start()
    try:
        written = 0
        with closing(files.connect(path)) as connection:
            for rows in _chunks(connection):
                await _write(store, rows)
                written += len(rows)
        if written != made.objects:
            raise BackupError(f"{written} of {made.objects} objects were written to etcd")
        revision = store.revision
    finally:
        await store.stop()
    for suffix in ("", "-wal", "-shm", ".lock"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return Rebuilt(made.objects, revision)


async def _write(store: EtcdStore, rows: Sequence[PutKey]) -> None:
    chunks = [
        rows[start : start + _KEYS_PER_TRANSACTION]
        for start in range(0, len(rows), _KEYS_PER_TRANSACTION)
    ]
    await asyncio.gather(*(store.write(chunk) for chunk in chunks))


def _chunks(connection: sqlite3.Connection) -> Iterator[list[PutKey]]:
    cursor = connection.execute(_ROWS)
    while rows := cursor.fetchmany(_AT_ONCE):
        yield [
            PutKey(key, _reopened(value, seq), terms, tuple(split_indexes(indexes)), 0)
            for key, seq, value, terms, indexes in rows
        ]


def _reopened(value: bytes, revision: int) -> Value:
    """A stored value without its revision, which is the first number in it."""
    if sealed.is_sealed(value):
        return sealed.stored_value(sealed.split_stored(value)[0])
    head, _, tail = value.partition(b"%d" % revision)
    return Value(head, tail)
