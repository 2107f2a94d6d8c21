"""What every store promises, held against each of them.

Revisions are compared, never spelled out: a store may leave gaps between them.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from pykcp.storage.encryption import EncryptedStore
from pykcp.storage.encryption.config import EncryptionConfig, EncryptionProvider, Key, ResourceRule
from pykcp.storage.errors import Compacted, FutureRevision, RevisionMismatch
from pykcp.storage.interface import Condition, Event, Page, Query, Revisions, Store, Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import Check, DeleteKey, Operation, PutKey
from pykcp.storage.progress import LogProgress, SharedWords
from pykcp.storage.sqlite import SQLiteStore
from pykcp.storage.sqlite.following import FollowingStore
from pykcp.storage.testing import EtcdProcess, find_etcd

FOREVER = 1 << 62
KEY = Key("key1", bytes(32))
EVERYTHING_SEALED = EncryptionConfig(
    (ResourceRule(("*.*",), (EncryptionProvider("aesgcm", (KEY,)),)),)
)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    if find_etcd() is None:
        pytest.skip("needs etcd: put it on PATH or name it in PYKCP_ETCD")
    process = EtcdProcess(tmp_path_factory.mktemp("etcd"))
    process.start()
    yield process
    process.kill()


class FollowedStore(FollowingStore):
    """A file that is written by one store and read by another, as by two processes."""

    def __init__(self, path: pathlib.Path) -> None:
        words = SharedWords.create(LogProgress.SIZE)
        self._own_progress = LogProgress(words, 0)
        super().__init__(path, self._own_progress)
        self._writer = SQLiteStore(path, followers=self)

    # what the store that writes says to its followers

    def announce(self, revision: int) -> None:  # type: ignore[override]
        self._own_progress.revision = revision
        while self._points is not None and not self.refresh():
            pass  # some at a time

    def announce_compaction(self, revision: int) -> None:
        self._own_progress.compacted = revision

    def announce_adoption(self, since: int) -> None:
        self._own_progress.note_adoption(since)

    def drain(self, drained: Callable[[], None] | None = None) -> Any:
        return self.hold_scans(drained) if drained else self._writer.drain()

    def resume(self) -> None:
        self.resume_scans()

    # what goes to it

    async def start(self) -> None:
        await self._writer.start()
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self._writer.stop()

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        return await self._writer.write(operations)

    async def compact(self, revision: int) -> None:
        await self._writer.compact(revision)


@pytest.fixture(params=["memory", "sqlite", "etcd", "sealed", "followed"])
async def store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> AsyncIterator[Store]:
    store = make_store(request, tmp_path)
    await store.start()
    yield store
    await store.stop()


def make_store(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "store")
    if request.param == "followed":
        return FollowedStore(tmp_path / "store")
    if request.param == "sealed":
        return EncryptedStore(SQLiteStore(tmp_path / "store"), EVERYTHING_SEALED)
    server: EtcdProcess = request.getfixturevalue("etcd")
    from pykcp.storage.etcd import EtcdSettings, EtcdStore

    return EtcdStore(
        EtcdSettings((server.url,), prefix=str(tmp_path), mirror_path=tmp_path / "mirror")
    )


def put(
    key: str, text: str = "", *, terms: str = "", indexes: tuple[str, ...] = (),
    expect: int | None = None,
) -> PutKey:  # fmt: skip
    return PutKey(key, value(text or key), terms, indexes, expect)


def delete(key: str, *, expect: int | None = None) -> DeleteKey:
    return DeleteKey(key, value("gone"), expect)


def value(text: str) -> Value:
    return Value(f"{text}@".encode(), b";")


def rendered(text: str, revision: int) -> bytes:
    return f"{text}@{revision};".encode()


async def write_one(store: Store, operation: Operation) -> int:
    (revision,) = await store.write([operation])
    return revision


async def fill(store: Store, count: int, prefix: str = "/a/") -> list[int]:
    puts = [put(f"{prefix}{number:05}", terms=labels(number)) for number in range(count)]
    answers = await asyncio.gather(*(store.write([one]) for one in puts))
    return [answer[0] for answer in answers]


def labels(number: int) -> str:
    return f"\x1fparity={'even' if number % 2 == 0 else 'odd'}\x1fseventh={number % 7}\x1f"


def texts(values: Sequence[bytes]) -> list[str]:
    return [value.decode().partition("@")[0] for value in values]


def summary(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [
        (event.key, "created" if event.created else "deleted" if event.deleted else "changed")
        for event in events
    ]


class Listener:
    def __init__(self, store: Store) -> None:
        self.batches: list[list[Event]] = []
        self.stop = store.listen(lambda events: self.batches.append(list(events)))

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]


class TestWriting:
    async def test_value_carries_its_own_revision(self, store: Store) -> None:
        revision = await write_one(store, put("/a", "text", terms="\x1fx=1\x1f"))
        entry = store.get("/a")
        assert entry is not None
        assert entry[:4] == ("/a", revision, rendered("text", revision), "\x1fx=1\x1f")

    async def test_absent_key_is_none(self, store: Store) -> None:
        assert store.get("/a") is None

    async def test_revisions_go_up_with_every_operation(self, store: Store) -> None:
        start = store.revision
        first, second, third = await store.write([put("/a"), put("/b"), put("/c")])
        assert start < first < second < third <= store.revision
        fourth = await write_one(store, put("/a"))
        assert third < fourth <= store.revision

    async def test_check_has_no_revision(self, store: Store) -> None:
        before = await write_one(store, put("/a"))
        answer = await store.write([Check("/a", before), put("/b"), Check("/none", 0)])
        assert answer[0] == answer[2] == 0
        assert answer[1] > before

    async def test_only_checks(self, store: Store) -> None:
        revision = await write_one(store, put("/a"))
        assert await store.write([Check("/a", revision)]) == [0]
        with pytest.raises(RevisionMismatch):
            await store.write([Check("/a", 0)])

    async def test_create_refuses_what_exists(self, store: Store) -> None:
        revision = await write_one(store, put("/a", "old"))
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([put("/a", "new", expect=0)])
        assert (raised.value.key, raised.value.found) == ("/a", revision)
        assert texts([store.get("/a").value]) == ["old"]  # type: ignore[union-attr]

    async def test_update_refuses_a_stale_revision(self, store: Store) -> None:
        first = await write_one(store, put("/a"))
        second = await write_one(store, put("/a", expect=first))
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([put("/a", expect=first)])
        assert raised.value.found == second

    async def test_update_refuses_what_is_absent(self, store: Store) -> None:
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([put("/a", expect=max(store.revision, 1))])
        assert raised.value.found == 0

    async def test_all_or_nothing(self, store: Store) -> None:
        await write_one(store, put("/b"))
        listener = Listener(store)
        before = store.revision
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([put("/a"), put("/b", expect=0), Check("/c", 0)])
        assert raised.value.key == "/b"
        assert store.get("/a") is None
        assert listener.events == []
        assert store.revision == before

    async def test_a_key_twice_in_a_transaction_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError):
            await store.write([put("/a"), put("/a")])
        assert store.get("/a") is None

    async def test_delete(self, store: Store) -> None:
        revision = await write_one(store, put("/a"))
        deleted = await write_one(store, delete("/a", expect=revision))
        assert deleted > revision
        assert store.get("/a") is None
        assert (await store.list(Query("/"))).values == []
        assert await store.count("/") == 0

    async def test_delete_of_nothing(self, store: Store) -> None:
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([delete("/a")])
        assert raised.value.found == 0

    async def test_deleted_key_counts_as_absent(self, store: Store) -> None:
        await write_one(store, put("/a"))
        await write_one(store, delete("/a"))
        with pytest.raises(RevisionMismatch) as raised:
            await store.write([delete("/a")])
        assert raised.value.found == 0
        await store.write([Check("/a", 0), put("/b")])
        again = await write_one(store, put("/a", "again", expect=0))
        entry = store.get("/a")
        assert entry is not None
        assert entry.value == rendered("again", again)

    async def test_one_of_many_rivals_wins(self, store: Store) -> None:
        revision = await write_one(store, put("/a"))
        answers = await asyncio.gather(
            *(store.write([put("/a", f"rival{n}", expect=revision)]) for n in range(20)),
            return_exceptions=True,
        )
        won = [answer for answer in answers if isinstance(answer, list)]
        lost = [answer for answer in answers if isinstance(answer, RevisionMismatch)]
        assert len(won) == 1
        assert {error.found for error in lost} == {won[0][0]}
        assert len(lost) == 19

    async def test_loser_sees_what_won(self, store: Store) -> None:
        """A compare that failed may be retried at once on what `get` now says."""

        stale: list[bool] = []

        async def increment() -> None:
            while True:
                entry = store.get("/counter")
                assert entry is not None
                number = int(texts([entry.value])[0]) + 1
                try:
                    await store.write([put("/counter", str(number), expect=entry.revision)])
                except RevisionMismatch as mismatch:
                    seen = store.get("/counter")
                    stale.append(seen is None or seen.revision < mismatch.found)
                else:
                    return

        await write_one(store, put("/counter", "0"))
        await asyncio.gather(*(increment() for _ in range(12)))
        entry = store.get("/counter")
        assert entry is not None
        assert texts([entry.value]) == ["12"]
        assert not any(stale)

    async def test_own_writes_are_read(self, store: Store) -> None:
        revision = await write_one(store, put("/a"))
        assert store.revision >= revision
        await store.barrier()
        page = await store.list(Query("/"))
        assert page.values == [rendered("/a", revision)]
        assert page.revision >= revision

    async def test_large_and_odd_values(self, store: Store) -> None:
        body = bytes(range(256)) * 4096
        revision = (await store.write([PutKey("/big", Value(body, b""))]))[0]
        entry = store.get("/big")
        assert entry is not None
        assert entry.value == body + str(revision).encode()
        await store.write([PutKey("/empty", Value(b"", b""), expect=0)])

    async def test_given_up_write_does_not_disturb_others(self, store: Store) -> None:
        tasks = [asyncio.create_task(store.write([put(f"/{n}")])) for n in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(answer, list) for answer in answers) >= 9
        for number in (0, 1, 2, 4, 9):
            assert store.get(f"/{number}") is not None


def _ends_at_once(listing: Coroutine[Any, Any, Page]) -> bool:
    try:
        listing.send(None)
    except StopIteration:
        return True
    listing.close()
    return False


class TestListing:
    async def test_range_is_the_prefix_in_key_order(self, store: Store) -> None:
        for key in ("/b/1", "/a/2", "/a/10", "/a", "/a0", "/a/ä", "/a/\U0001f600"):
            await store.write([put(key)])
        page = await store.list(Query("/a/"))
        assert texts(page.values) == ["/a/10", "/a/2", "/a/ä", "/a/\U0001f600"]
        assert (page.next_after, page.remaining) == ("", None)
        assert texts((await store.list(Query("/a/", after="/a/2"))).values) == [
            "/a/ä", "/a/\U0001f600",
        ]  # fmt: skip
        assert len((await store.list(Query(""))).values) == 7

    async def test_after_that_is_no_key(self, store: Store) -> None:
        await fill(store, 3)
        assert texts((await store.list(Query("/a/", after="/a/00000x"))).values) == [
            "/a/00001", "/a/00002",
        ]  # fmt: skip
        assert len((await store.list(Query("/a/", after="/A"))).values) == 3
        assert (await store.list(Query("/a/", after="/b"))).values == []

    async def test_empty(self, store: Store) -> None:
        page = await store.list(Query("/a/", limit=5, count_remaining=True))
        assert page == ([], store.revision, "", None)

    @pytest.mark.parametrize("limit", [1, 3, 4, 5, 9, 10, 11])
    async def test_pages(self, store: Store, limit: int) -> None:
        await fill(store, 10)
        found: list[str] = []
        after, at, remaining = "", 0, 10
        while True:
            page = await store.list(
                Query("/a/", after=after, limit=limit, at=at, count_remaining=True)
            )
            found += texts(page.values)
            remaining -= len(page.values)
            if not page.next_after:
                assert page.remaining is None
                break
            assert len(page.values) == limit
            assert page.remaining == remaining
            after, at = page.next_after, page.revision
        assert found == [f"/a/{n:05}" for n in range(10)]

    async def test_pages_of_one_list_are_one_snapshot(self, store: Store) -> None:
        await fill(store, 10)
        first = await store.list(Query("/a/", limit=4, count_remaining=True))
        await store.write([delete("/a/00005"), put("/a/00006", "changed"), put("/a/000065")])
        await store.write([delete("/a/00007")])
        await store.write([put("/a/00007", "reborn")])
        second = await store.list(
            Query("/a/", limit=4, after=first.next_after, at=first.revision, count_remaining=True)
        )
        assert second.revision == first.revision
        assert texts(second.values) == [f"/a/{n:05}" for n in (4, 5, 6, 7)]
        assert second.remaining == 2
        now = await store.list(Query("/a/", after="/a/00003"))
        assert texts(now.values) == [
            "/a/00004", "changed", "/a/000065", "reborn", "/a/00008", "/a/00009",
        ]  # fmt: skip

    async def test_old_revisions(self, store: Store) -> None:
        history: dict[int, list[str]] = {}
        for step in range(12):
            key = f"/a/{step % 3}"
            operation = delete(key) if step % 4 == 3 and store.get(key) else put(key, f"s{step}")
            revision = await write_one(store, operation)
            history[revision] = texts((await store.list(Query("/a/"))).values)
        for revision, expected in history.items():
            page = await store.list(Query("/a/", at=revision))
            assert page.revision == revision
            assert texts(page.values) == expected

    async def test_future_revision(self, store: Store) -> None:
        await fill(store, 1)
        with pytest.raises(FutureRevision):
            await store.list(Query("/a/", at=store.revision + 1000))

    CONDITIONS = (
        (Condition(("\x1fparity=even\x1f",)),),
        (Condition(("\x1fparity=even\x1f",), negated=True),),
        (Condition(("\x1fseventh=1\x1f", "\x1fseventh=2\x1f")),),
        (Condition(("\x1fseventh=1\x1f", "\x1fseventh=2\x1f"), negated=True),),
        (Condition(("\x1fparity=",)), Condition(("\x1fseventh=3\x1f",))),
        (Condition(("\x1fparity=odd\x1f",)), Condition(("\x1fseventh=3\x1f",), negated=True)),
        (Condition(()),),
        (Condition((), negated=True),),
    )

    @pytest.mark.parametrize("where", CONDITIONS)
    @pytest.mark.parametrize("old", [False, True])
    async def test_filters(self, store: Store, where: tuple[Condition, ...], old: bool) -> None:
        await fill(store, 30)
        expected = [
            f"/a/{n:05}"
            for n in range(30)
            if all(any(t in labels(n) for t in c.any_of) != c.negated for c in where)
        ]
        at = store.revision if old else 0
        if old:
            for number in range(0, 30, 3):
                await store.write([put(f"/a/{number:05}", "newer", terms=labels(number + 1))])
        page = await store.list(Query("/a/", where=where, at=at))
        assert texts(page.values) == expected
        paged: list[str] = []
        after = ""
        while True:
            page = await store.list(
                Query("/a/", where=where, after=after, at=at, limit=4, count_remaining=True)
            )
            assert page.remaining is None
            paged += texts(page.values)
            if not page.next_after:
                break
            after = page.next_after
        assert paged == expected

    @pytest.mark.parametrize("old", [False, True])
    async def test_a_full_page_goes_on_if_any_key_follows(self, store: Store, old: bool) -> None:
        """Whether a query wants what follows is not looked for."""
        await fill(store, 4)
        at = store.revision if old else 0
        if old:
            await store.write([delete("/a/00003")])
        even = (Condition(("\x1fparity=even\x1f",)),)
        page = await store.list(Query("/a/", where=even, limit=2, at=at))
        assert (texts(page.values), page.next_after) == (["/a/00000", "/a/00002"], "/a/00002")
        rest = await store.list(Query("/a/", where=even, limit=2, at=at, after=page.next_after))
        assert (rest.values, rest.next_after) == ([], "")
        await store.write([delete("/a/00003")] if not old else [])
        now = await store.list(Query("/a/", where=even, limit=2))
        assert now.next_after == ""

    async def test_residual(self, store: Store) -> None:
        await fill(store, 30)
        query = Query(
            "/a/",
            where=(Condition(("\x1fparity=even\x1f",)),),
            residual=lambda terms: terms.endswith(("=4\x1f", "=5\x1f")),
        )
        expected = [f"/a/{n:05}" for n in range(0, 30, 2) if n % 7 in (4, 5)]
        assert texts((await store.list(query)).values) == expected

    async def test_short_list_does_not_suspend(self, store: Store) -> None:
        await fill(store, 20)
        for query in (Query("/a/"), Query("/a/", limit=5), Query("/a/", at=store.revision)):
            # A busy machine may use up the time that a list has before others are due.
            assert any(_ends_at_once(store.list(query)) for _ in range(10))

    async def test_long_list_is_one_snapshot_and_lets_others_run(self, store: Store) -> None:
        await fill(store, 3000)
        listing = asyncio.create_task(store.list(Query("/a/")))
        await asyncio.sleep(0)
        await store.write([delete("/a/02999"), put("/a/03000")])
        page = await listing
        names = texts(page.values)
        assert len(names) == 3000
        if page.revision < store.revision:
            assert names[-1] == "/a/02999"
        else:  # the store was quick enough to list before the write, or after it
            assert names[-1] in ("/a/02999", "/a/03000")

    async def test_count(self, store: Store) -> None:
        await fill(store, 25)
        await fill(store, 3, "/b/")
        await store.write([delete("/a/00004")])
        assert await store.count("/a/") == 24
        assert await store.count("/b/") == 3
        assert await store.count("") == 27
        assert await store.count("/c/") == 0

    async def test_list_and_watch_leave_no_gap(self, store: Store) -> None:
        """A list's revision and the events after it together are everything, once."""
        writers = [asyncio.create_task(self._write_some(store, n)) for n in range(8)]
        listener = Listener(store)
        pages = []
        while not all(writer.done() for writer in writers):
            pages.append(await store.list(Query("/w/")))
            await asyncio.sleep(0)
        assert pages
        final = sorted((await store.list(Query("/w/"))).values)
        for page in pages:
            state = dict.fromkeys(texts(page.values), b"")
            for event in (await store.history("/w/", page.revision, FOREVER, 10_000)).events:
                assert texts([event.value])[0] not in state
                state[texts([event.value])[0]] = event.value
            assert len(state) == len(final)
        assert len(listener.events) == len(final) == 8 * 25

    @staticmethod
    async def _write_some(store: Store, writer: int) -> None:
        for number in range(25):
            await store.write([put(f"/w/{writer}/{number}", expect=0)])


class TestIndexes:
    async def test_lookup(self, store: Store) -> None:
        await store.write(
            [put("/b", indexes=("owner=1", "kind=x")), put("/a", indexes=("owner=1",))]
        )
        await store.write([put("/c", indexes=("owner=2",))])
        assert store.lookup("owner=1") == ["/a", "/b"]
        assert store.lookup("owner=1", after="/a") == ["/b"]
        assert store.lookup("owner=1", limit=1) == ["/a"]
        assert store.lookup("owner") == []

    async def test_index_follows_changes(self, store: Store) -> None:
        await store.write([put("/a", indexes=("x", "y"))])
        await store.write([put("/a", indexes=("y", "z"))])
        assert [store.lookup(index) for index in "xyz"] == [[], ["/a"], ["/a"]]
        await store.write([delete("/a")])
        assert [store.lookup(index) for index in "xyz"] == [[], [], []]
        await store.write([put("/a", indexes=("x",))])
        assert store.lookup("x") == ["/a"]

    async def test_several_changes_in_one_batch(self, store: Store) -> None:
        await asyncio.gather(
            store.write([put("/a", indexes=("x",))]),
            store.write([put("/a", indexes=("y",))]),
            store.write([put("/b", indexes=("x",))]),
        )
        owners = {index: store.lookup(index) for index in "xy"}
        assert owners in ({"x": ["/b"], "y": ["/a"]}, {"x": ["/a", "/b"], "y": []})

    async def test_very_many_index_entries(self, store: Store) -> None:
        """Of one object; another one's entries stay."""
        names = [f"owner={number}" for number in range(2000)]
        await store.write([put("/a", indexes=tuple(names)), put("/b", indexes=(names[7],))])
        assert store.lookup(names[0]) == store.lookup(names[-1]) == ["/a"]
        await store.write([put("/a", indexes=(names[0], 'new"é'))])
        found = [store.lookup(name) for name in (names[0], names[7], names[-1], 'new"é')]
        assert found == [["/a"], ["/b"], [], ["/a"]]

    async def test_separator_in_an_index_is_refused(self, store: Store) -> None:
        with pytest.raises(ValueError):
            await store.write([put("/a", indexes=("x\x1fy",))])
        assert store.get("/a") is None


class TestEvents:
    async def test_what_an_event_says(self, store: Store) -> None:
        listener = Listener(store)
        created = await write_one(store, put("/a", "one", terms="\x1f1\x1f"))
        changed = await write_one(store, put("/a", "two", terms="\x1f2\x1f"))
        deleted = await write_one(store, delete("/a"))
        again = await write_one(store, put("/a", "three", terms="\x1f3\x1f"))
        expected = [
            (created, rendered("one", created), "\x1f1\x1f", "", True, False),
            (changed, rendered("two", changed), "\x1f2\x1f", "\x1f1\x1f", False, False),
            (deleted, rendered("gone", deleted), "\x1f2\x1f", "\x1f2\x1f", False, True),
            (again, rendered("three", again), "\x1f3\x1f", "", True, False),
        ]
        past = (await store.history("", created - 1, FOREVER, 100)).events
        for events in (listener.events, past):
            assert [
                (e.revision, e.value, e.terms, e.previous_terms, e.created, e.deleted)
                for e in events
            ] == expected

    async def test_each_once_in_order_and_before_write_returns(self, store: Store) -> None:
        listener = Listener(store)
        seen_in_time: list[bool] = []

        async def writer(name: int) -> None:
            for number in range(20):
                revision = await write_one(store, put(f"/{name}/{number}"))
                seen_in_time.append(listener.events[-1].revision >= revision)

        await asyncio.gather(*(writer(name) for name in range(10)))
        revisions = [event.revision for event in listener.events]
        assert len(revisions) == 200
        assert revisions == sorted(set(revisions))
        assert all(seen_in_time)

    async def test_transaction_arrives_in_one_batch(self, store: Store) -> None:
        listener = Listener(store)
        await store.write([put("/a"), put("/b"), put("/c")])
        assert [summary(batch) for batch in listener.batches] == [
            [("/a", "created"), ("/b", "created"), ("/c", "created")]
        ]

    async def test_stopped_listener_hears_nothing(self, store: Store) -> None:
        listener = Listener(store)
        listener.stop()
        listener.stop()
        await store.write([put("/a")])
        assert listener.batches == []

    async def test_a_drained_store_has_told_everything_and_is_still_read(
        self, store: Store
    ) -> None:
        listener = Listener(store)
        writing = asyncio.create_task(write_one(store, put("/a")))
        await asyncio.sleep(0)
        await store.drain()
        assert [event.key for event in listener.events] == ["/a"]
        assert store.get("/a") is not None
        await writing

    async def test_broken_listener_harms_nobody(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(_: Sequence[Event]) -> None:
            raise RuntimeError("broken listener")

        store.listen(broken)
        listener = Listener(store)
        await store.write([put("/a")])
        assert len(listener.events) == 1
        assert "broken listener" in caplog.text


class TestHistory:
    async def test_bounds_prefix_and_limit(self, store: Store) -> None:
        revisions = [
            await write_one(store, put(f"/{'ab'[number % 2]}/{number}")) for number in range(10)
        ]

        async def keys(prefix: str, after: int, until: int, limit: int) -> list[str]:
            return [e.key for e in (await store.history(prefix, after, until, limit)).events]

        assert await keys("/a/", revisions[1], FOREVER, 100) == [f"/a/{n}" for n in (2, 4, 6, 8)]
        assert await keys("", revisions[3], revisions[6], 100) == ["/a/4", "/b/5", "/a/6"]
        assert await keys("/b/", revisions[0], FOREVER, 2) == ["/b/1", "/b/3"]
        assert await keys("", revisions[9], FOREVER, 100) == []
        assert await keys("/none/", revisions[0], FOREVER, 100) == []

    async def test_pages_cover_everything_once(self, store: Store) -> None:
        start = store.revision
        for number in range(5):
            await store.write([put(f"/{number}/{n}") for n in range(3)])
        seen: list[str] = []
        after = start
        while events := (await store.history("", after, FOREVER, 4)).events:
            seen += [event.key for event in events]
            after = events[-1].revision
            if len(events) < 4:
                break
        assert seen == [f"/{number}/{n}" for number in range(5) for n in range(3)]


class TestCompaction:
    async def test_forgets_the_past_and_keeps_the_present(self, store: Store) -> None:
        await fill(store, 5)
        old = store.revision
        await store.write([put("/a/00001", "changed"), delete("/a/00002")])
        middle = store.revision
        await store.write([put("/a/00003", "changed later")])
        before = (await store.list(Query("/a/", at=middle))).values
        now = (await store.list(Query("/a/"))).values
        await store.compact(middle)
        assert store.compacted == middle
        with pytest.raises(Compacted) as raised:
            await store.list(Query("/a/", at=old))
        assert (raised.value.revision, raised.value.oldest) == (old, middle)
        with pytest.raises(Compacted):
            await store.history("", old, FOREVER, 10)
        assert (await store.list(Query("/a/", at=middle))).values == before
        assert (await store.list(Query("/a/"))).values == now
        events = (await store.history("", middle, FOREVER, 10)).events
        assert [(e.key, e.previous_terms) for e in events] == [("/a/00003", labels(3))]

    async def test_everything_compacted(self, store: Store) -> None:
        await fill(store, 3)
        last = await write_one(store, delete("/a/00002"))
        await store.compact(store.revision)
        assert store.revision >= last
        page = await store.list(Query("/a/"))
        assert page.revision >= last
        assert texts(page.values) == ["/a/00000", "/a/00001"]
        assert (await store.history("", store.revision, FOREVER, 10)).events == []
        again = await write_one(store, put("/a/00002", expect=0))
        assert again > last
        assert summary((await store.history("", store.compacted, FOREVER, 10)).events) == [
            ("/a/00002", "created")
        ]

    async def test_tombstone_before_a_later_life(self, store: Store) -> None:
        await write_one(store, put("/a", "first"))
        await write_one(store, delete("/a"))
        between = await write_one(store, put("/other"))
        reborn = await write_one(store, put("/a", "second"))
        await store.compact(between)
        assert texts((await store.list(Query("/a", at=between))).values) == []
        assert texts((await store.list(Query("/a", at=reborn))).values) == ["second"]
        (event,) = (await store.history("/a", between, FOREVER, 10)).events
        assert (event.created, event.previous_terms) == (True, "")

    async def test_repeats_and_the_impossible(self, store: Store) -> None:
        await fill(store, 3)
        revision = store.revision
        await store.compact(revision)
        await store.compact(revision)
        await store.compact(revision - 1)
        assert store.compacted == revision
        with pytest.raises(FutureRevision):
            await store.compact(store.revision + 1000)

    async def test_step_by_step_under_load(self, store: Store) -> None:
        async def change(name: int) -> None:
            for number in range(30):
                key = f"/{name}/{number % 4}"
                remove = number % 5 == 4 and store.get(key) is not None
                await store.write([delete(key) if remove else put(key, f"{name}.{number}")])

        async def compact() -> None:
            for _ in range(10):
                await store.compact(store.revision)
                await store.write([put("/tick")])

        await asyncio.gather(compact(), *(change(name) for name in range(5)))
        last = {f"/{name}/{n % 4}": f"{name}.{n}" for name in range(5) for n in range(30)
                if n % 5 != 4}  # fmt: skip
        now = (await store.list(Query("/"))).values
        alive = {text for text in texts(now) if text != "/tick"}
        assert alive <= set(last.values())
        await store.compact(store.revision)
        assert (await store.list(Query("/"))).values == now


class TestHealth:
    async def test_well(self, store: Store) -> None:
        await store.write([put("/a")])
        assert store.health() is None


class TestReadingAtOnce:
    """What is read without waiting: the keys below a prefix, and what was before."""

    async def test_keys_are_those_that_are_there_now(self, store: Store) -> None:
        """Keys of a prefix come in order, without those that were deleted."""
        for key in ("/k/b", "/k/a", "/k/c", "/other"):
            await write_one(store, put(key, "x"))
        entry = store.get("/k/b")
        assert entry is not None
        await store.write([DeleteKey("/k/b", Value(b"gone ", b""), entry.revision)])
        assert list(store.keys("/k/")) == ["/k/a", "/k/c"]

    async def test_the_value_before_a_revision(self, store: Store) -> None:
        """It is what the key held until then; nothing before its creation."""
        first = await write_one(store, put("/v", "one"))
        second = await write_one(store, put("/v", "two"))
        third = await write_one(store, put("/v", "three"))
        assert store.get_before("/v", third) == rendered("two", second)
        assert store.get_before("/v", second) == rendered("one", first)
        assert store.get_before("/v", first) is None
        assert store.get_before("/never", third) is None
