"""Moving parts of a store to another one, held against every store that can take part."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Callable

import pytest

from pykcp.aio.owner import spawn
from pykcp.storage.encryption import EncryptedStore
from pykcp.storage.encryption.config import EncryptionConfig, EncryptionProvider, Key, ResourceRule
from pykcp.storage.errors import ClockSkew, Compacted, MovedAway
from pykcp.storage.interface import Event, Query, Store, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.moving import ExportedRow, IncomingRow
from pykcp.storage.numbering import at_milliseconds, slot_of
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore

FOREVER = 1 << 62


def sealed(secret: bytes) -> EncryptionConfig:
    key = Key("key1", secret * 32)
    return EncryptionConfig((ResourceRule(("*.*",), (EncryptionProvider("aesgcm", (key,)),)),))


Make = Callable[[str], Store]


@pytest.fixture(params=["memory", "sqlite", "sealed"])
def make(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Make:
    def make(name: str) -> Store:
        if request.param == "memory":
            return MemoryStore()
        store = SQLiteStore(tmp_path / name)
        if request.param == "sqlite":
            return store
        return EncryptedStore(store, sealed(name[:1].encode()))  # keys of their own

    return make


@pytest.fixture
async def origin(make: Make) -> AsyncIterator[Store]:
    store = make("origin")
    await store.start()
    await store.use_slot(1)
    yield store
    await store.stop()


@pytest.fixture
async def destination(make: Make) -> AsyncIterator[Store]:
    store = make("destination")
    await store.start()
    await store.use_slot(2)
    yield store
    await store.stop()


def put(key: str, text: str, *indexes: str) -> PutKey:
    return PutKey(key, Value(f"{text}@".encode(), b";"), f"\x1ftext={text}\x1f", indexes)


def gone(key: str) -> DeleteKey:
    return DeleteKey(key, Value(b"gone@", b";"))


async def write(store: Store, *operations: PutKey | DeleteKey) -> list[int]:
    return list(await store.write(operations))


def incoming(row: ExportedRow) -> IncomingRow:
    head, _, tail = row.value.rpartition(b"@")
    assert tail == b"%d;" % row.revision
    value = Value(head + b"@", b";")
    return IncomingRow(PutKey(row.key, value, row.terms, ("moved",)), row.revision)


def incoming_event(event: Event) -> IncomingRow:
    if event.deleted:
        return IncomingRow(gone(event.key), event.revision)
    return incoming(ExportedRow(event.key, event.revision, event.value, event.terms))


async def export(store: Store, part: str, at: int = 0) -> list[ExportedRow]:
    rows: list[ExportedRow] = []
    after = ""
    while True:
        page = await store.export(part, after=after, at=at)
        rows += page.rows
        after = page.next_after
        if not after:
            return rows


class TestRevisions:
    async def test_revisions_carry_the_slot_and_rise(self, origin: Store) -> None:
        revisions = [(await write(origin, put("g/r/c//a", "x")))[0] for _ in range(100)]
        assert revisions == sorted(set(revisions))
        assert {slot_of(revision) for revision in revisions} == {1}

    async def test_counters_continue_when_a_slot_is_claimed(self, make: Make) -> None:
        store = make("counting")
        await store.start()
        (first,) = await write(store, put("g/r/c//a", "x"))
        assert slot_of(first) is None
        await store.use_slot(3)
        (second,) = await write(store, put("g/r/c//a", "y"))
        assert second > first
        assert slot_of(second) == 3
        await store.stop()

    async def test_later_writes_are_newer_than_what_was_advanced_to(self, origin: Store) -> None:
        (before,) = await write(origin, put("g/r/c//a", "x"))
        target = before + at_milliseconds(20_000) + 17
        await origin.advance(target)
        assert origin.revision >= target
        assert (await origin.list(Query("g/r/", at=target))).values
        (after,) = await write(origin, put("g/r/c//a", "y"))
        assert after > target
        assert slot_of(after) == 1

    async def test_broken_clock_of_another_shard_is_rejected(self, origin: Store) -> None:
        (now,) = await write(origin, put("g/r/c//a", "x"))
        with pytest.raises(ClockSkew):
            await origin.advance(now + at_milliseconds(3600_000))

    async def test_advance_survives_a_restart(self, tmp_path: pathlib.Path) -> None:
        store = SQLiteStore(tmp_path / "store")
        await store.start()
        await store.use_slot(5)
        (now,) = await write(store, put("g/r/c//a", "x"))
        target = now + at_milliseconds(30_000)
        await store.advance(target)
        await store.stop()
        store = SQLiteStore(tmp_path / "store")
        await store.start()
        (later,) = await write(store, put("g/r/c//a", "y"))
        assert later > target
        assert slot_of(later) == 5
        await store.stop()


class TestExport:
    async def test_one_part_of_every_resource_at_one_revision(self, origin: Store) -> None:
        await write(origin, put("a/r/one//x", "1"), put("a/r/two//x", "2"), put("b/s/one/n/y", "3"))
        (at,) = await write(origin, put("b/s:id/one//z", "4"))
        await write(origin, put("a/r/one//x", "later"), put("a/r/one//new", "later"))
        await write(origin, gone("b/s/one/n/y"))
        rows = await export(origin, "one", at)
        assert [(row.key, row.value.partition(b"@")[0]) for row in rows] == [
            ("a/r/one//x", b"1"), ("b/s/one/n/y", b"3"), ("b/s:id/one//z", b"4"),
        ]  # fmt: skip

    async def test_pages_go_on_where_the_last_one_ended(self, origin: Store) -> None:
        keys = [f"a/r/one//{number:05}" for number in range(1500)] + ["b/r/one//x"]
        for start in range(0, len(keys), 300):
            await write(origin, *(put(key, "x") for key in keys[start : start + 300]))
        page = await origin.export("one")
        assert page.next_after
        assert [row.key for row in await export(origin, "one")] == keys


class TestHold:
    async def test_writes_of_the_part_wait_until_it_is_released(self, origin: Store) -> None:
        (before,) = await write(origin, put("a/r/one//x", "1"))
        assert await origin.hold("one") >= before
        waiting = spawn(write(origin, put("a/r/one//x", "2")), "write")
        await write(origin, put("a/r/two//x", "other parts go on"))
        assert not waiting.done()
        entry = origin.get("a/r/one//x")
        assert entry is not None
        assert entry.revision == before
        origin.release("one")
        await waiting

    async def test_writes_of_a_part_that_moved_fail(self, origin: Store) -> None:
        await origin.hold("one")
        waiting = spawn(write(origin, put("a/r/one//x", "1")), "write")
        await write(origin, put("a/r/two//x", "other parts go on"))
        origin.refuse("one", "shard-2")
        with pytest.raises(MovedAway, match="shard-2"):
            await waiting
        with pytest.raises(MovedAway):
            await write(origin, put("a/r/one//x", "2"))

    async def test_its_keys_can_be_evicted(self, origin: Store) -> None:
        await write(origin, put("a/r/one//x", "1"))
        origin.refuse("one", "shard-2")
        await origin.evict([gone("a/r/one//x")])
        assert origin.get("a/r/one//x") is None


class TestAdoption:
    async def move(self, origin: Store, destination: Store, part: str) -> tuple[int, int]:
        """While it is written to: pages at one revision, then the log, then it is held."""
        base = origin.revision
        rows = await export(origin, part, base)
        await destination.stage(part, [incoming(row) for row in rows], "copied")
        await write(origin, put(f"a/r/{part}//x", "changed"), put(f"a/r/{part}//late", "new"))
        await write(origin, gone(f"a/r/{part}//y"))
        last = await origin.hold(part)
        events = (await origin.history("", base, last, 1000)).events
        tail = [incoming_event(e) for e in events if f"/{part}/" in e.key]
        await destination.stage(part, tail, "complete")
        assert destination.staged(part) == "complete"
        await destination.advance(last)
        await destination.adopt(part, base)
        return base, last

    async def test_revisions_values_and_history_are_kept(
        self, origin: Store, destination: Store
    ) -> None:
        await write(origin, put("a/r/one//x", "1"), put("a/r/one//y", "2"), put("b/r/one//z", "3"))
        await write(destination, put("a/r/other//x", "here before"))
        base, last = await self.move(origin, destination, "one")
        for key in ("a/r/one//x", "a/r/one//late", "b/r/one//z"):
            assert destination.get(key) == origin.get(key)
        assert destination.get("a/r/one//y") is None
        assert destination.lookup("moved") == ["a/r/one//late", "a/r/one//x", "b/r/one//z"]
        wanted = (await origin.history("a/r/one/", base, last, 100)).events
        found = (await destination.history("a/r/one/", base, last, 100)).events
        assert [(e.revision, e.key, e.value, e.created, e.deleted) for e in found] == [
            (e.revision, e.key, e.value, e.created, e.deleted) for e in wanted
        ]
        then = await destination.list(Query("a/r/one/", at=base))
        assert [value.partition(b"@")[0] for value in then.values] == [b"1", b"2"]
        (next_one,) = await write(destination, put("a/r/one//x", "written here"))
        assert next_one > last

    async def test_nothing_is_seen_before(self, origin: Store, destination: Store) -> None:
        seen: list[str] = []
        destination.listen(lambda events: seen.extend(event.key for event in events))
        await write(origin, put("a/r/one//x", "1"))
        rows = await export(origin, "one")
        await destination.stage("one", [incoming(row) for row in rows], "")
        assert (await destination.list(Query(""))).values == []
        assert destination.lookup("moved") == []
        await destination.discard("one")
        assert destination.staged("one") is None
        await destination.stage("one", [incoming(row) for row in rows], "")
        await destination.adopt("one", origin.revision)
        await destination.announce("one")
        assert seen == ["a/r/one//x"]

    async def test_older_watches_have_to_list_again(
        self, origin: Store, destination: Store
    ) -> None:
        await write(origin, put("a/r/one//x", "1"), put("a/r/one//y", "2"))
        await write(destination, put("a/r/other//x", "here before"))
        listed = destination.revision
        base, _ = await self.move(origin, destination, "one")
        assert destination.complete_since("a/r/one/") == base
        assert destination.complete_since("a/r/other/") <= listed
        assert destination.complete_since("a/r/") > listed
        with pytest.raises(Compacted):
            await destination.list(Query("a/r/", at=listed))

    async def test_it_comes_back(self, origin: Store, destination: Store) -> None:
        await write(origin, put("a/r/one//x", "1"), put("a/r/one//y", "2"), put("b/r/one//z", "3"))
        await self.move(origin, destination, "one")
        keys = [row.key for row in await export(origin, "one")]
        origin.refuse("one", "destination")
        await origin.evict([gone(key) for key in keys])
        await write(destination, put("a/r/one//y", "again"))
        origin.release("one")
        base, _ = await self.move(destination, origin, "one")
        for key in ("a/r/one//x", "b/r/one//z"):
            entry = origin.get(key)
            assert entry is not None
            assert entry == destination.get(key)
        # What it left behind when it moved away is not swept over what came back.
        await write(origin, put("c/r/other//x", "1"))
        await origin.compact(origin.revision)
        assert origin.get("b/r/one//z") == destination.get("b/r/one//z")
        assert len(await export(origin, "one")) == len(await export(destination, "one"))
        assert origin.complete_since("a/r/one/") >= base

    @pytest.mark.parametrize("is_tidied", [True, False])
    async def test_it_comes_again(self, origin: Store, destination: Store, is_tidied: bool) -> None:
        """Whether or not everything that was staged the first time has been removed by then."""
        await write(origin, put("a/r/one//x", "1"), put("a/r/one//y", "2"), put("b/r/one//z", "3"))
        for here, there in ((origin, destination), (destination, origin), (origin, destination)):
            there.release("one")
            await self.move(here, there, "one")
            if is_tidied:
                await there.tidy("one")
            here.refuse("one", "there")
            await here.evict([gone(row.key) for row in await export(here, "one")])
            await write(there, put("a/r/one//y", "again"))
        keys = [row.key for row in await export(destination, "one")]
        assert keys == ["a/r/one//late", "a/r/one//x", "a/r/one//y", "b/r/one//z"]
        assert destination.staged("one") is None

    async def test_numbers_that_both_counted_are_replaced(self, make: Make) -> None:
        first, second = make("first"), make("second")
        await first.start()
        await second.start()
        await write(first, put("a/r/one//x", "1"), put("a/r/one//y", "2"))
        await write(second, put("a/r/two//x", "taken"))
        rows = await export(first, "one")
        await second.stage("one", [incoming(row) for row in rows], "")
        adoption = await second.adopt("one", first.revision)
        moved, kept = second.get("a/r/one//x"), second.get("a/r/one//y")
        assert moved is not None
        assert kept is not None
        assert moved.revision > 2
        assert moved.value == b"1@%d;" % moved.revision
        assert kept.revision == 2
        assert adoption.base == second.revision
        await first.stop()
        await second.stop()

    async def test_staged_rows_and_the_adoption_survive_a_crash(
        self, origin: Store, tmp_path: pathlib.Path
    ) -> None:
        await write(origin, put("a/r/one//x", "1"))
        rows = await export(origin, "one")
        store = SQLiteStore(tmp_path / "store")
        await store.start()
        await store.use_slot(9)
        await store.stage("one", [incoming(row) for row in rows], "half")
        await store.stop()
        store = SQLiteStore(tmp_path / "store")
        await store.start()
        assert store.staged("one") == "half"
        adoption = await store.adopt("one", origin.revision)
        await store.stop()
        store = SQLiteStore(tmp_path / "store")
        await store.start()
        assert store.staged("one") is None
        assert await store.adopt("one", 0) == adoption
        assert store.get("a/r/one//x") == origin.get("a/r/one//x")
        assert store.complete_since("a/r/") == adoption.revision
        assert store.revision >= adoption.revision
        await store.stop()

    async def test_other_writers_are_not_disturbed(self, origin: Store, destination: Store) -> None:
        await write(origin, *(put(f"a/r/one//{n}", "1") for n in range(200)))
        rows = await export(origin, "one")
        await destination.stage("one", [incoming(row) for row in rows], "")
        writes = [write(destination, put(f"a/r/two//{n}", "2")) for n in range(50)]
        await asyncio.gather(destination.adopt("one", origin.revision), *writes)
        assert await destination.count("a/r/") == 250
