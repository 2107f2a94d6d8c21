"""A program that writes as fast as it can and says what was acknowledged, until it is killed.

Run: program.py sqlite FILE | program.py etcd URL MIRROR

Each writer makes numbered transactions, one after the other. Number n sets two
keys to n, creates a key of its own and deletes the one from three transactions
ago. So the state says which transactions have happened, and whether whole.
Meanwhile everything old is compacted again and again.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys

from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Store, Value
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.storage.sqlite import SQLiteSettings, SQLiteStore

WRITERS = 16
SETTINGS = SQLiteSettings(checkpoint_bytes=256 << 10)
"""Checkpoints all the time: they must be hit, too."""
FILLING = b"x" * 1500


def open_store(kind: str, place: str, mirror: str = "") -> Store:
    if kind == "sqlite":
        return SQLiteStore(pathlib.Path(place), settings=SETTINGS)
    from pykcp.storage.etcd import EtcdSettings, EtcdStore

    return EtcdStore(EtcdSettings((place,), mirror_path=pathlib.Path(mirror)))


def number_at(store: Store, key: str) -> int:
    entry = store.get(key)
    return int(entry.value.split(b"@")[0]) if entry else 0


def transaction(store: Store, name: int, number: int) -> list[Operation]:
    value = Value(b"%d@" % number, b";%d;" % name + FILLING)
    operations: list[Operation] = []
    for key in (f"/twins/{name:02}/a", f"/twins/{name:02}/b"):
        entry = store.get(key)
        operations.append(PutKey(key, value, expect=entry.revision if entry else 0))
    operations.append(PutKey(f"/own/{name:02}/{number}", value, expect=0))
    if number > 3:
        operations.append(DeleteKey(f"/own/{name:02}/{number - 3}", value))
    return operations


async def write_on(store: Store, name: int) -> None:
    while True:
        number = number_at(store, f"/twins/{name:02}/a") + 1
        try:
            revisions = await store.write(transaction(store, name, number))
        except RevisionMismatch:
            raise
        except StoreError:
            # Its outcome is unknown: look again before going on.
            await asyncio.sleep(0.01)
            continue
        os.write(1, b"%d %d %d\n" % (name, number, max(revisions)))


async def compact_on(store: Store) -> None:
    while True:
        await asyncio.sleep(0.02)
        try:
            await store.compact(max(store.compacted, store.revision - 20_000))
        except StoreError:
            continue


async def main() -> None:
    store = open_store(*sys.argv[1:])
    await store.start()
    os.write(1, b"started %d\n" % store.revision)
    async with asyncio.TaskGroup() as group:
        group.create_task(compact_on(store))
        for name in range(WRITERS):
            group.create_task(write_on(store, name))


if __name__ == "__main__":
    asyncio.run(main())
