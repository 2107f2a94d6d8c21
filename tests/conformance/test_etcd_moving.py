"""Revisions that are advanced, and logical clusters of other shards, on a real etcd."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from pykcp.aio.owner import spawn
from pykcp.storage.errors import (
    ClockSkew,
    Compacted,
    MovedAway,
    RevisionMismatch,
    StoreUnavailable,
)
from pykcp.storage.interface import Query, Store, Value
from pykcp.storage.moving import ExportedRow, IncomingRow
from pykcp.storage.numbering import HybridClock, at_milliseconds, is_hybrid
from pykcp.storage.operations import Check, DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.testing import EtcdProcess, find_etcd

if find_etcd() is None:
    pytest.skip("needs etcd: put it on PATH or name it in PYKCP_ETCD", allow_module_level=True)

from pykcp.storage.etcd import EtcdSettings, EtcdStore
from pykcp.storage.etcd import mirror as mirrors

LOGICAL_CLUSTER = "core.kcp.io/logicalclusters/one//cluster"
Open = Callable[[str, str], EtcdStore]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path_factory.mktemp("etcd"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
def make(etcd: EtcdProcess, tmp_path: pathlib.Path) -> Open:
    """A store by its prefix and the name of its mirror."""

    def make(prefix: str, mirror: str) -> EtcdStore:
        return EtcdStore(
            EtcdSettings(
                (etcd.url,), prefix=f"{tmp_path}/{prefix}", mirror_path=tmp_path / f"{mirror}.db"
            )
        )

    return make


@pytest.fixture
async def store(make: Open) -> AsyncIterator[EtcdStore]:
    store = make("here", "first")
    await store.start()
    yield store
    await store.stop()


@pytest.fixture(params=["sqlite", "etcd"])
async def origin(
    request: pytest.FixtureRequest, make: Open, tmp_path: pathlib.Path
) -> AsyncIterator[Store]:
    is_etcd = request.param == "etcd"
    origin: Store = make("there", "origin") if is_etcd else SQLiteStore(tmp_path / "origin")
    await origin.start()
    await origin.use_slot(1)
    yield origin
    await origin.stop()


def put(key: str, text: str, expect: int | None = None) -> PutKey:
    return PutKey(key, Value(f"{text}@".encode(), b";"), f"\x1ftext={text}\x1f", ("i",), expect)


def staged(row: ExportedRow) -> IncomingRow:
    head, _, _ = row.value.rpartition(b"@")
    return IncomingRow(PutKey(row.key, Value(head + b"@", b";"), row.terms, ("i",)), row.revision)


def texts(store: Store, *keys: str) -> list[str]:
    entries = (store.get(key) for key in keys)
    return [entry.value.partition(b"@")[0].decode() if entry else "-" for entry in entries]


def ahead(milliseconds: int) -> int:
    return HybridClock(0).now() + at_milliseconds(milliseconds)


class TestRevisions:
    async def test_later_writes_are_newer(self, store: EtcdStore) -> None:
        (before,) = await store.write([put("a/r/c//x", "1")])
        target = ahead(20_000)
        await store.advance(target)
        assert store.revision >= target
        assert (await store.list(Query("a/r/", at=target))).values
        (after,) = await store.write([put("a/r/c//y", "2")])
        assert after > target
        assert after < 1 << 53
        page = (await store.history("", before, after, 10)).events
        assert [event.revision for event in page] == [after]

    async def test_rows_of_before_are_compared_as_ever(self, store: EtcdStore) -> None:
        (before,) = await store.write([put("a/r/c//x", "1")])
        await store.advance(ahead(0))
        between = (before + store.revision) // 2
        for wrong in (between, store.revision, before - 1):
            with pytest.raises(RevisionMismatch):
                await store.write([put("a/r/c//x", "wrong", expect=wrong)])
        changes = [put("a/r/c//x", "2", expect=before), Check("a/r/c//none", 0)]
        after, _ = await store.write(changes)
        await store.advance(after + at_milliseconds(10_000))
        await store.write([DeleteKey("a/r/c//x", Value(b"", b""), expect=after)])
        assert store.get("a/r/c//x") is None

    async def test_broken_clock_of_another_shard_is_rejected(self, store: EtcdStore) -> None:
        with pytest.raises(ClockSkew):
            await store.advance(ahead(3600_000))

    async def test_slot_makes_revisions_comparable(self, store: EtcdStore) -> None:
        assert not is_hybrid((await store.write([put("a/r/c//x", "1")]))[0])
        await store.use_slot(3)
        assert is_hybrid((await store.write([put("a/r/c//x", "2")]))[0])

    async def test_all_servers_know_the_same_revisions(self, store: EtcdStore, make: Open) -> None:
        second = make("here", "second")
        await second.start()
        await store.write([put("a/r/c//old", "1")])
        target = ahead(1000)
        await store.advance(target)
        # The second may not have heard of it yet.
        written = await second.write([put("a/r/c//x", "1")])
        assert written[0] > target
        await second.advance(written[0] + at_milliseconds(9000))
        await store.write([put("a/r/c//y", "1")])
        await second.barrier()
        fresh = make("here", "third")
        await fresh.start()
        for key in ("a/r/c//old", "a/r/c//x", "a/r/c//y"):
            assert store.get(key) == second.get(key) == fresh.get(key)
        entry = fresh.get("a/r/c//old")
        assert entry is not None
        await fresh.write([put("a/r/c//old", "2", expect=entry.revision)])
        for one in (second, fresh):
            await one.stop()

    async def test_restart(self, make: Open) -> None:
        store = make("here", "first")
        await store.start()
        await store.write([put("a/r/c//x", "1")])
        target = ahead(3000)
        await store.advance(target)
        await store.stop()
        again = make("here", "first")
        await again.start()
        assert again.revision >= target
        (after,) = await again.write([put("a/r/c//x", "2")])
        assert after > target
        await again.stop()

    async def test_epochs_without_rows_are_forgotten(
        self, store: EtcdStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mirrors, "FEW_EPOCHS", 4)
        (kept,) = await store.write([put("a/r/c//kept", "1")])
        for number in range(10):
            await store.write([put("a/r/c//x", str(number))])
            await store.advance(max(store.revision + 1, ahead(0)))
        await store.write([put("a/r/c//y", "1")])
        assert len(store.epochs) > 10
        await store.compact(store.revision)
        assert len(store.epochs) <= 4
        x = store.get("a/r/c//x")
        assert x is not None
        await store.write(
            [put("a/r/c//x", "2", expect=x.revision), put("a/r/c//kept", "2", expect=kept)]
        )


class TestAdoption:
    async def stage(self, origin: Store, store: EtcdStore) -> int:
        rows = [put(f"a/r/one//{number}", "1") for number in range(150)]
        for start in range(0, len(rows), 50):
            await origin.write(rows[start : start + 50])
        await origin.write([put(LOGICAL_CLUSTER, "cluster"), put("a/r/two//x", "other")])
        base = origin.revision
        page = await origin.export("one", at=base)
        await store.stage("one", [staged(row) for row in page.rows], "copied")
        last = await origin.hold("one")
        deleted = DeleteKey("a/r/one//0", Value(b"gone@", b";"))
        await store.stage("one", [IncomingRow(deleted, last)], "complete")
        return last

    async def test_everything_arrives_with_newer_revisions(
        self, origin: Store, store: EtcdStore
    ) -> None:
        seen: list[str] = []
        await store.write([put("a/r/one//left", "of an earlier stay")])
        store.listen(lambda events: seen.extend(e.key for e in events if not e.deleted))
        last = await self.stage(origin, store)
        assert store.staged("one") == "complete"
        assert not seen
        await store.advance(last)
        adoption = await store.adopt("one", last)
        await store.announce("one")
        assert texts(store, "a/r/one//0", "a/r/one//1", "a/r/one//left", "a/r/two//x") == [
            "-", "1", "-", "-",
        ]  # fmt: skip
        assert len(seen) == len(set(seen)) == 150
        assert seen[-1] == LOGICAL_CLUSTER
        assert len((await store.export("one")).rows) == 150
        first = store.get("a/r/one//1")
        assert first is not None
        assert first.revision > adoption.base > last
        assert first.value == b"1@%d;" % first.revision
        assert store.staged("one") is None
        assert await store.adopt("one", last) == adoption

    async def test_older_watches_list_again(
        self, origin: Store, store: EtcdStore, make: Open
    ) -> None:
        last = await self.stage(origin, store)
        await store.advance(last)
        await store.adopt("one", last)
        second = make("here", "second")
        await second.start()
        for server in (store, second):
            assert server.complete_since("a/r/one/") > last
        assert store.complete_since("a/r/two/") <= last
        with pytest.raises(Compacted):
            await store.list(Query("a/r/one/", at=last))
        await store.write([put("a/r/one//1", "later")])
        await store.compact(store.revision)
        await second.barrier()
        assert not store._imports
        assert not second._imports
        await second.stop()

    async def test_interrupted_adoption(
        self, origin: Store, make: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = make("here", "first")
        await store.start()
        last = await self.stage(origin, store)
        await store.advance(last)
        assert store._writes is not None
        write, writes = store._writes.write, 0

        async def fail_later(operations: list[PutKey], *, passes_holds: bool) -> list[int]:
            nonlocal writes
            writes += 1
            if writes > 1:
                raise StoreUnavailable("cut off")
            return await write(operations, passes_holds=passes_holds)

        monkeypatch.setattr(store._writes, "write", fail_later)
        with pytest.raises(StoreUnavailable):
            await store.adopt("one", last)
        assert store.get(LOGICAL_CLUSTER) is None
        await store.stop()
        again = make("here", "first")
        await again.start()
        assert again.staged("one") == "complete"
        await again.adopt("one", last)
        assert texts(again, "a/r/one//1", "a/r/one//149", LOGICAL_CLUSTER) == ["1", "1", "cluster"]
        await again.stop()

    async def test_discarded(self, origin: Store, store: EtcdStore) -> None:
        await self.stage(origin, store)
        await store.discard("one")
        assert store.staged("one") is None
        assert (await store.list(Query("a/"))).values == []

    async def test_others_write_meanwhile(self, origin: Store, store: EtcdStore) -> None:
        last = await self.stage(origin, store)
        writes = [
            spawn(store.write([put(f"a/r/three//{number}", "3")]), "write") for number in range(40)
        ]
        await store.advance(last)
        await store.adopt("one", last)
        revisions = [(await one)[0] for one in writes]
        assert len(set(revisions)) == 40
        events = (await store.history("", store.compacted, store.revision, 1000)).events
        assert [e.revision for e in events] == sorted({e.revision for e in events})


class TestHold:
    """Several servers on one etcd: what one of them holds is not written by any."""

    @pytest.fixture
    async def other(self, store: EtcdStore, make: Open) -> AsyncIterator[EtcdStore]:
        other = make("here", "second")
        await other.start()
        yield other
        await other.stop()

    async def test_nothing_is_written_until_it_is_released(
        self, store: EtcdStore, other: EtcdStore
    ) -> None:
        is_over = False
        has_written = asyncio.Event()

        async def keep_writing(writer: EtcdStore, name: str) -> None:
            while not is_over:
                await writer.write([put(f"a/r/one//{name}", "1")])
                has_written.set()

        writers = [
            spawn(keep_writing(server, f"{number}-{index}"), "write")
            for index, server in enumerate((store, other))
            for number in range(5)
        ]
        for _ in range(20):
            last = await store.hold("one")
            await other.write([put("a/r/two//x", "others go on")])
            await store.barrier()
            assert not (await store.history("a/r/one/", last, store.revision, 10)).events
            has_written.clear()
            store.release("one")
            await has_written.wait()
        is_over = True
        await asyncio.gather(*writers)

    async def test_part_that_has_moved(self, store: EtcdStore, other: EtcdStore) -> None:
        await store.hold("one")
        await other.barrier()
        waiting = spawn(other.write([put("a/r/one//x", "1")]), "write")
        await other.write([put("a/r/two//x", "others go on")])
        assert not waiting.done()
        other.refuse("one", "shard-2")  # as it reads of the departure
        store.refuse("one", "shard-2")
        with pytest.raises(MovedAway):
            await waiting
        await other.write([put("a/r/two//x", "later")])
        await other.barrier()
        with pytest.raises(MovedAway):
            await other.write([put("a/r/one//x", "2")])

    async def test_hold_ends_with_the_server(self, store: EtcdStore, make: Open) -> None:
        other = make("here", "second")
        await other.start()
        await other.hold("one")
        await store.barrier()
        waiting = spawn(store.write([put("a/r/one//x", "1")]), "write")
        await store.write([put("a/r/two//x", "others go on")])
        assert not waiting.done()
        await other.stop()
        await asyncio.wait_for(waiting, 10)
