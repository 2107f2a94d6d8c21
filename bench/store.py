"""What the store costs: CPU per operation of this process, and operations per second.

Run: python bench/store.py [--store sqlite|memory|etcd] [--seconds 3] [--directory DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Self

from pykcp.storage.interface import Condition, Query, Store, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.testing import EtcdProcess

OBJECTS = 10_000
BODY = b'"},"data":{"text":"' + b"x" * 1400 + b'"}}'


class Meter:
    """CPU of the whole process (its threads included) and wall time, per operation."""

    def __enter__(self) -> Self:
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.cpu = cpu_seconds() - self.cpu

    def report(self, what: str, operations: int) -> None:
        cpu, wall = self.cpu / operations * 1e6, self.wall / operations * 1e6
        print(f"{what:44} {cpu:10.1f} µs CPU {wall:10.1f} µs {operations / self.wall:10.0f}/s")


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def put(key: str, number: int) -> PutKey:
    head = f'{{"metadata":{{"name":"{number}","resourceVersion":"'.encode()
    terms = f"\x1fapp=web\x1fseventh={number % 7}\x1ftier=back\x1fmetadata.name={number}\x1f"
    return PutKey(key, Value(head, BODY), terms, (), None)


async def writers(store: Store, clients: int, seconds: float) -> None:
    deadline = time.perf_counter() + seconds
    delays: list[float] = []

    async def client(name: int) -> int:
        done = 0
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            await store.write([put(f"/w/{name}/{done % 500}", done)])
            delays.append(time.perf_counter() - started)
            done += 1
        return done

    with Meter() as meter:
        counts = await asyncio.gather(*(client(name) for name in range(clients)))
    delays.sort()
    meter.report(f"put, {clients} writers", sum(counts))
    print(f"{'':44} p50 {at(delays, 0.5):.2f} ms, p99 {at(delays, 0.99):.2f} ms")


def at(delays: list[float], share: float) -> float:
    return delays[int(len(delays) * share)] * 1e3


async def fill(store: Store) -> None:
    with Meter() as meter:
        for start in range(0, OBJECTS, 500):
            await asyncio.gather(
                *(
                    store.write([put(f"/objects/{number:06}", number)])
                    for number in range(start, start + 500)
                )
            )
    meter.report("create 10,000, 500 at once", OBJECTS)


async def repeat(what: str, times: int, work: Callable[[int], Awaitable[object]]) -> None:
    with Meter() as meter:
        for number in range(times):
            await work(number)
    meter.report(what, times)


async def reads(store: Store) -> None:
    async def get(number: int) -> object:
        return store.get(f"/objects/{number % OBJECTS:06}")

    async def page(number: int) -> object:
        answer = await store.list(
            Query(
                "/objects/",
                after=f"/objects/{number % 10 * 500:06}",
                limit=500,
                count_remaining=True,
            )
        )
        assert len(answer.values) == 500
        return answer

    async def whole(_: int) -> object:
        answer = await store.list(Query("/objects/"))
        assert len(answer.values) == OBJECTS
        return answer

    async def old(_: int) -> object:
        return await store.list(Query("/objects/", at=store.revision - 1))

    async def by_label(_: int) -> object:
        where = (Condition(("\x1fseventh=3\x1f",)),)
        return await store.list(Query("/objects/", where=where))

    await repeat("get", 30_000, get)
    await repeat("page of 500, counted", 300, page)
    await repeat("list of 10,000", 20, whole)
    await repeat("list of 10,000 one revision ago", 20, old)
    await repeat("one in seven of 10,000 by label", 40, by_label)
    await repeat("count of 10,000", 100, lambda _: store.count("/objects/"))


async def run(store: Store, seconds: float) -> None:
    with Meter() as meter:
        await store.start()
    meter.report("start, empty", 1)
    await fill(store)
    await reads(store)
    for clients in (1, 16, 32, 64, 256):
        await writers(store, clients, seconds)
    await reads(store)
    with Meter() as meter:
        await store.compact(store.revision)
    meter.report("compact all that", 1)
    await store.stop()
    with Meter() as meter:
        await store.start()
    meter.report("start, with data", 1)
    await store.stop()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest memory {memory:.0f} MiB")


def run_on_etcd(directory: pathlib.Path, seconds: float) -> None:
    import uvloop

    from pykcp.storage.etcd import EtcdSettings, EtcdStore

    process = EtcdProcess(directory)
    process.start()
    try:
        settings = EtcdSettings((process.url,), mirror_path=directory / "mirror")
        uvloop.run(run(EtcdStore(settings), seconds))
    finally:
        process.kill()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"etcd itself: {usage.ru_utime + usage.ru_stime:.1f} s CPU in all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "memory", "etcd"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--directory", type=pathlib.Path)
    options = parser.parse_args()
    import uvloop

    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        store: Store = MemoryStore()
        if options.store == "sqlite":
            store = SQLiteStore(pathlib.Path(directory) / "store")
        if options.store != "etcd":
            uvloop.run(run(store, options.seconds))
            return
        run_on_etcd(pathlib.Path(directory), options.seconds)


if __name__ == "__main__":
    main()
