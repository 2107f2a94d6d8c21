"""kill -9 at random moments: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import logging
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykcp.storage.etcd import EtcdSettings, EtcdStore
from pykcp.storage.interface import Event, Query, Store
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.testing import EtcdProcess, find_etcd

logger = logging.getLogger(__name__)

PROGRAM = pathlib.Path(__file__).with_name("program.py")
MOST_ACKNOWLEDGED = 400


class Victim:
    """The program, from start to kill."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.acknowledged: dict[str, int] = {}
        self.newest_revision = 0

    def run_until(self, count: int) -> None:
        """Let it write until so many writes have been acknowledged."""
        self.started_at = int(self.output.readline().split()[1])
        for _ in range(count):
            self._note(self.output.readline())

    def kill(self) -> None:
        self.process.kill()
        for line in self.output:
            if line.endswith(b"\n"):
                self._note(line)
        self.output.close()
        self.process.wait()

    def _note(self, line: bytes) -> None:
        name, number, revision = line.split()
        self.acknowledged[name.decode()] = int(number)
        self.newest_revision = max(self.newest_revision, int(revision))


class Record:
    """What is known over all rounds."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.newest_revision = 0

    def add(self, victim: Victim) -> None:
        assert victim.started_at >= self.newest_revision
        for name, number in victim.acknowledged.items():
            assert number > self.acknowledged.get(name, 0)
            self.acknowledged[name] = number
        self.newest_revision = max(self.newest_revision, victim.newest_revision)

    async def verify(self, store: Store) -> None:
        await store.start()
        try:
            assert store.revision >= self.newest_revision
            self.newest_revision = store.revision
            for name, number in self.acknowledged.items():
                happened = await self._verify_writer(store, int(name))
                # Of each writer at most one transaction was under way.
                assert number <= happened <= number + 1
                self.acknowledged[name] = happened
            await self._verify_history(store)
        finally:
            await store.stop()

    @staticmethod
    async def _verify_writer(store: Store, name: int) -> int:
        twins = (await store.list(Query(f"/twins/{name:02}/"))).values
        numbers = {int(value.split(b"@")[0]) for value in twins}
        assert len(twins) == 2
        assert len(numbers) == 1
        (happened,) = numbers
        own = await store.list(Query(f"/own/{name:02}/"))
        expected = range(max(1, happened - 2), happened + 1)
        assert sorted(int(value.split(b"@")[0]) for value in own.values) == list(expected)
        return happened

    @staticmethod
    async def _verify_history(store: Store) -> None:
        """The log agrees with the table: replaying it from an old state gives the newest."""
        old = await store.list(Query("/own/", at=max(store.compacted, 1)))
        alive = {key_of(value) for value in old.values}
        revisions = []
        for event in await whole_history(store, "/own/"):
            revisions.append(event.revision)
            assert event.created or event.deleted
            if event.created:
                assert event.key not in alive
                alive.add(event.key)
            else:
                alive.remove(event.key)
        assert revisions == sorted(set(revisions))
        assert {key_of(value) for value in (await store.list(Query("/own/"))).values} == alive


async def whole_history(store: Store, prefix: str) -> list[Event]:
    """All that is not compacted; a page of it ends after so many octets."""
    events: list[Event] = []
    reached = store.compacted
    while reached < store.revision:
        page = await store.history(prefix, reached, store.revision, 1_000_000)
        events += page.events
        reached = page.reached
    return events


def key_of(value: bytes) -> str:
    number, name = value.split(b"@")[0], value.split(b";")[1]
    return f"/own/{int(name):02}/{int(number)}"


async def kill_sqlite(directory: pathlib.Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    record = Record()
    for _ in range(rounds):
        victim = Victim("sqlite", str(directory / "store"))
        victim.run_until(chance.randrange(MOST_ACKNOWLEDGED))
        victim.kill()
        record.add(victim)
        await record.verify(SQLiteStore(directory / "store"))
    assert record.acknowledged


@pytest.fixture
def etcd(tmp_path: pathlib.Path) -> Iterator[EtcdProcess]:
    if find_etcd() is None:
        pytest.skip("needs etcd: put it on PATH or name it in PYKCP_ETCD")
    process = EtcdProcess(tmp_path / "etcd")
    process.start()
    yield process
    process.kill()


async def kill_etcd_or_server(
    etcd: EtcdProcess, directory: pathlib.Path, rounds: int, seed: int
) -> None:
    """In turns: the server, etcd and then the server, both with the mirror lost."""
    chance = random.Random(seed)
    record = Record()
    mirror = directory / "mirror"
    for number in range(rounds):
        victim = Victim("etcd", etcd.url, str(mirror))
        victim.run_until(chance.randrange(MOST_ACKNOWLEDGED))
        if number % 3:
            etcd.kill()
        victim.kill()
        if number % 3:
            etcd.start()
        if number % 3 == 2:
            mirror.unlink()
        record.add(victim)
        await record.verify(EtcdStore(EtcdSettings((etcd.url,), mirror_path=mirror)))
    assert record.acknowledged


@pytest.fixture
def seed() -> int:
    seed = random.randrange(1 << 30)
    logger.warning("seed %d", seed)
    return seed


async def test_kill_sqlite(tmp_path: pathlib.Path, seed: int) -> None:
    await kill_sqlite(tmp_path, rounds=3, seed=seed)


async def test_kill_etcd(tmp_path: pathlib.Path, etcd: EtcdProcess, seed: int) -> None:
    await kill_etcd_or_server(etcd, tmp_path, rounds=3, seed=seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_kill_sqlite_hundreds_of_times(tmp_path: pathlib.Path, seed: int) -> None:
    await kill_sqlite(tmp_path, rounds=300, seed=seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_kill_etcd_hundreds_of_times(
    tmp_path: pathlib.Path, etcd: EtcdProcess, seed: int
) -> None:
    await kill_etcd_or_server(etcd, tmp_path, rounds=300, seed=seed)
