from __future__ import annotations

import asyncio

import pytest

from pykcp.storage.compactor import Compactor
from pykcp.storage.errors import Compacted, StoreFull
from pykcp.storage.interface import Query, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FullStore:
    revision = 7
    compacted = 0

    async def compact(self, revision: int) -> None:
        raise StoreFull("no room")


async def write(store: MemoryStore) -> int:
    return (await store.write([PutKey("/a", Value(b"", b""))]))[0]


async def test_keeps_everything_of_the_last_five_minutes() -> None:
    """Whatever was readable five minutes ago still is; what is much older is not."""
    store, clock = MemoryStore(), Clock()
    compactor = Compactor(store, clock=clock)
    newest_at: dict[float, int] = {}
    for _ in range(60):
        newest_at[clock.now] = await write(store)
        await compactor.step()
        for then, revision in newest_at.items():
            if clock.now - then < 300:
                await store.list(Query("/", at=revision))
            elif clock.now - then >= 330:
                with pytest.raises(Compacted):
                    await store.list(Query("/", at=revision))
        clock.now += 30
    assert store.compacted > 0


async def test_last_change_is_not_lost_when_nothing_follows() -> None:
    store, clock = MemoryStore(), Clock()
    compactor = Compactor(store, clock=clock)
    revision = await write(store)
    for _ in range(100):
        await compactor.step()
        clock.now += 30
    assert store.compacted == revision
    assert len((await store.list(Query("/"))).values) == 1


async def test_restart_keeps_another_window() -> None:
    store, clock = MemoryStore(), Clock()
    await write(store)
    clock.now = 10_000
    compactor = Compactor(store, clock=clock)
    await compactor.step()
    clock.now += 299
    await compactor.step()
    assert store.compacted == 0


async def test_failure_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    store = FullStore()
    compactor = Compactor(store, clock=clock)
    for _ in range(12):
        await compactor.step()
        clock.now += 30
        store.revision += 1
    assert caplog.text.count("no room") == 2


async def test_run_sleeps_between_steps() -> None:
    store, clock = MemoryStore(), Clock()
    await write(store)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds
        if len(slept) == 12:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Compactor(store, clock=clock, sleep=sleep, sample_seconds=30).run()
    assert set(slept) == {30}
    assert store.compacted == 1
