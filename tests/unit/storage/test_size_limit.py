"""What a store takes when it is full: nothing that adds to it, everything else."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import AsyncIterator

import pytest

from pykcp.storage.errors import StoreFull
from pykcp.storage.interface import Entry, Query, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.size_limit import RESERVE_BYTES, SizeLimit
from pykcp.storage.sqlite import SQLiteSettings, SQLiteStore

LIMIT = 4 << 20
BODY = b"x" * 50_000


def put(key: str, body: bytes = BODY, expect: int | None = None) -> PutKey:
    return PutKey(key, Value(b"", body), expect=expect)


def delete(key: str) -> DeleteKey:
    return DeleteKey(key, Value(b"", b""))


@pytest.fixture(params=["sqlite", "memory"])
async def store(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> AsyncIterator[SQLiteStore | MemoryStore]:
    made: SQLiteStore | MemoryStore
    if request.param == "memory":
        made = MemoryStore(LIMIT)
    else:
        made = SQLiteStore(tmp_path / "store", settings=SQLiteSettings(most_bytes=LIMIT))
    await made.start()
    yield made
    await made.stop()


async def fill(store: SQLiteStore | MemoryStore) -> list[str]:
    keys: list[str] = []
    while not store.size.is_reached:
        keys.append(f"/a/{len(keys):04}")
        await store.write([put(keys[-1], expect=0)])
    with pytest.raises(StoreFull, match=f"of {LIMIT} bytes are in use .--store-size-limit.$"):
        await store.write([put("/a/more", expect=0)])
    return keys


async def test_a_full_store_takes_what_does_not_add_to_it(
    store: SQLiteStore | MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    keys = await fill(store)
    assert LIMIT // len(BODY) // 2 < len(keys) < 2 * LIMIT // len(BODY)
    assert store.size.used >= store.size.most_bytes == LIMIT
    for refused in (
        [put("/small", b"x")],
        [put(keys[0], 2 * BODY)],
        [put(keys[0]), put("/b", b"")],
    ):
        with pytest.raises(StoreFull):
            await store.write(refused)
    # reads, marks of deletion, moves, deletions
    assert len((await store.list(Query("/a/"))).values) == len(keys)
    await store.write([put(keys[0], BODY + b"deleted")])
    await store.write([put("/moved"), delete(keys[1])])
    for key in keys[2:]:
        await store.write([delete(key)])
    # which makes room as soon as the past is forgotten
    with pytest.raises(StoreFull):
        await store.write([put("/new", expect=0)])
    await store.compact(store.revision)
    await store.write([put("/new", expect=0)])
    full = [r for r in caplog.records if "the store is full" in r.message]
    assert [r.levelno for r in full] == [logging.ERROR]
    assert "the store has space again" in caplog.text


async def test_it_is_full_after_a_restart(tmp_path: pathlib.Path) -> None:
    settings = SQLiteSettings(most_bytes=LIMIT)
    store = SQLiteStore(tmp_path / "store", settings=settings)
    await store.start()
    keys = await fill(store)
    await store.stop()
    again = SQLiteStore(tmp_path / "store", settings=settings)
    await again.start()
    assert len((await again.list(Query("/a/"))).values) == len(keys)
    with pytest.raises(StoreFull):
        await again.write([put("/more", expect=0)])
    await again.stop()


def test_beyond_its_reserve_only_deletions_are_taken() -> None:
    used = 0
    limit = SizeLimit(1000, lambda: used)
    store = MemoryStore()
    used = 1000
    limit.look()
    limit.check([put("/a", b"")], _entry)
    used = 1001 + RESERVE_BYTES
    limit.look()
    with pytest.raises(StoreFull):
        limit.check([put("/a", b"")], _entry)
    limit.check([delete("/a")], store.get)
    used = 999
    limit.look()
    limit.check([put("/new")], store.get)


def _entry(key: str) -> Entry:
    return Entry(key, 1, b"", "")


async def test_no_limit() -> None:
    store = MemoryStore()
    for number in range(100):
        await store.write([put(f"/{number}")])
    assert not store.size.is_reached
