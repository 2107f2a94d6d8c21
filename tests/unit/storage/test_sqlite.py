"""What only the store on SQLite has: batches, checkpoints, sweeps, restarts."""

from __future__ import annotations

import asyncio
import math
import pathlib
import time
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from pykcp.aio import resting
from pykcp.aio.costs import set_payer
from pykcp.storage.errors import Compacted, RevisionMismatch, StoreFull
from pykcp.storage.interface import HISTORY_BYTES, Condition, Event, Query, Value
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteSettings, SQLiteStore, scans, sweeps
from pykcp.storage.sqlite.commits import CommitBatch, GroupCommit

BODY = b"x" * 1500
FOREVER = 1 << 62


class Stores:
    """Opens stores on one file, one after the other."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.store: SQLiteStore | None = None

    async def open(self, **settings: int) -> SQLiteStore:
        await self.close()
        self.store = SQLiteStore(self.path, settings=SQLiteSettings(**settings))
        await self.store.start()
        return self.store

    async def close(self) -> None:
        if self.store is not None:
            await self.store.stop()


@pytest.fixture
async def stores(tmp_path: pathlib.Path) -> AsyncIterator[Stores]:
    stores = Stores(tmp_path / "store")
    yield stores
    await stores.close()


class Tenant:
    """Who pays for a task's writes."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant

    def charge(self, seconds: float) -> None: ...


def put(key: str, *, expect: int | None = None, body: bytes = BODY) -> PutKey:
    return PutKey(key, Value(b"", body), "\x1fx\x1f", ("i",), expect)


def delete(key: str) -> DeleteKey:
    return DeleteKey(key, Value(b"", b""))


async def fill(store: SQLiteStore, count: int, prefix: str = "/a/") -> None:
    await asyncio.gather(*(store.write([put(f"{prefix}{n:05}")]) for n in range(count)))


def rows(store: SQLiteStore, table: str) -> int:
    assert store._writer is not None
    return int(store._writer.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def look_again(commits: GroupCommit, *, before: int) -> None:
    """What the timer does."""
    assert commits._gathering is not None
    commits._gathering.cancel()
    commits._look_again(before)


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what happens in threads tells nobody
            await asyncio.sleep(0.001)


class TestBatches:
    async def test_writers_share_commits(self, stores: Stores) -> None:
        store = await stores.open()
        batches: list[int] = []
        store.listen(lambda events: batches.append(len(events)))
        await fill(store, 150)
        assert batches == [150]

    @pytest.mark.parametrize("limits", [{"batch_operations": 40}, {"batch_bytes": 40 * 1500}])
    async def test_batches_are_bounded(self, stores: Stores, limits: dict[str, int]) -> None:
        store = await stores.open(**limits)
        batches: list[int] = []
        store.listen(lambda events: batches.append(len(events)))
        await fill(store, 150)
        assert sum(batches) == 150
        assert max(batches) == 40

    async def test_large_writes_have_batches_of_their_own(self, stores: Stores) -> None:
        """A small write waits for one of them, however many there are."""
        store = await stores.open()
        batches: list[list[str]] = []
        store.listen(lambda events: batches.append([event.key for event in events]))
        large = [store.write([put(f"/large/{n}", body=b"x" * 900_000)]) for n in range(9)]
        small = [store.write([put(f"/small/{n}")]) for n in range(3)]
        await asyncio.gather(*large, *small)
        sizes = [len(keys) for keys in batches]
        assert batches[1] == ["/small/0", "/small/1", "/small/2"]
        assert sizes == [1, 3, 1, 1, 1, 1, 1, 1, 1, 1]

    async def test_tenants_take_turns(self, stores: Stores) -> None:
        store = await stores.open(batch_operations=10)
        order: list[str] = []
        store.listen(lambda events: order.extend(event.key for event in events))

        async def write(tenant: str, count: int) -> None:
            set_payer(Tenant(tenant))
            await fill(store, count, f"/{tenant}/")

        await asyncio.gather(*(asyncio.create_task(write(*each)) for each in (("a", 50), ("b", 5))))
        assert [key for key in order[:10] if key.startswith("/b/")] == sorted(
            key for key in order if key.startswith("/b/")
        )
        assert len(order) == 55

    async def test_failed_commit_is_everybodys(self, stores: Stores) -> None:
        """Also of those whose compare failed against what was never committed."""
        store = await stores.open()
        await fill(store, 10)
        revision, events = store.revision, listening(store)
        assert store._writer is not None
        (pages,) = store._writer.execute("PRAGMA page_count").fetchone()
        store._writer.execute(f"PRAGMA max_page_count={pages}").fetchone()
        answers = await asyncio.gather(
            store.write([put("/big", body=b"x" * 100_000)]),
            store.write([put("/big", expect=0)]),
            store.write([put("/small")]),
            return_exceptions=True,
        )
        assert [type(answer) for answer in answers] == [StoreFull, StoreFull, StoreFull]
        assert events == []
        assert store.revision == revision
        assert store.get("/small") is None
        store._writer.execute("PRAGMA max_page_count=1000000").fetchone()
        assert await store.write([put("/big", expect=0)]) == [revision + 1]
        with pytest.raises(RevisionMismatch):
            await store.write([put("/big", expect=0)])


def listening(store: SQLiteStore) -> list[Event]:
    events: list[Event] = []
    store.listen(lambda batch: events.extend(batch))
    return events


class TestCheckpoints:
    async def test_log_stays_small(self, stores: Stores) -> None:
        store = await stores.open(checkpoint_bytes=1 << 20)
        log = stores.path.with_name("store-wal")
        for round_number in range(30):
            await fill(store, 150, f"/{round_number % 4}/")
            assert log.stat().st_size < 12 << 20
        assert await store.count("/") == 600

    async def test_busy_writers_wait_only_when_the_log_is_long(self, stores: Stores) -> None:
        store = await stores.open(checkpoint_bytes=256 << 10)
        assert store._checkpoints is not None
        assert store._commits is not None
        checkpoints, commits = store._checkpoints, store._commits
        intermission, lengths = checkpoints._intermission, list[int]()

        def record(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
            if not commits.is_idle:
                lengths.append(checkpoints._log_bytes)
            intermission(work, done)

        checkpoints._intermission = record
        async with asyncio.TaskGroup() as writers:
            for name in "abcdefgh":
                writers.create_task(fill(store, 600, f"/{name}/"))
        assert lengths
        assert min(lengths) > 1 << 20

    async def test_scans_wait_rather_than_let_the_log_grow(self, stores: Stores) -> None:
        """A scan keeps the log from starting over; beyond a limit, others have to wait for it."""
        store = await stores.open(checkpoint_bytes=256 << 10, log_bytes=2 << 20)
        assert store._checkpoints is not None
        checkpoints, readers = store._checkpoints, store._readers
        await fill(store, 10)
        reader = await readers.take()
        with scans.snapshot(reader):
            while not readers._is_held:
                await fill(store, 50)
            assert checkpoints._log_bytes > 2 << 20
            listing = asyncio.create_task(store.list(Query("/a/")))
            await fill(store, 10)
            assert not listing.done()
        readers.give(reader)
        assert len((await listing).values) == 50
        await fill(store, 50)
        await wait_until(lambda: checkpoints._log_bytes < 2 << 20)

    async def test_all_is_in_the_file_after_a_stop(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 100)
        await stores.close()
        stores.store = None
        assert not stores.path.with_name("store-wal").exists()


class TestCompaction:
    async def test_rows_and_disk_are_given_back(self, stores: Stores) -> None:
        store = await stores.open()
        for _ in range(20):
            await fill(store, 600)
        await asyncio.gather(*(store.write([delete(f"/a/{n:05}")]) for n in range(300)))
        assert rows(store, "log") == 12_300
        large = stores.path.stat().st_size
        await store.compact(store.revision)
        assert rows(store, "log") == 300
        assert rows(store, "current") == 300
        assert rows(store, "idx") == 300
        await stores.close()
        stores.store = None
        assert stores.path.stat().st_size < large - (5 << 20)
        spare = (sweeps.SPARE_PAGES + 400) * 8192
        assert stores.path.stat().st_size < spare

    async def test_large_values(self, stores: Stores) -> None:
        store = await stores.open()
        for _ in range(5):
            await store.write([put("/big", body=b"x" * (1 << 20)), put("/small")])
        await store.compact(store.revision)
        assert rows(store, "log") == 2

    async def test_interrupted_sweep_is_taken_up(self, stores: Stores) -> None:
        store = await stores.open()
        for _ in range(4):
            await fill(store, 200)
        compacting = asyncio.create_task(store.compact(store.revision))
        await wait_until(lambda: rows(store, "log") < 800)
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        left = rows(store, "log")
        assert 200 < left < 800
        revision, compacted = store.revision, store.compacted
        store = await stores.open()
        assert (store.revision, store.compacted) == (revision, compacted)
        with pytest.raises(Compacted):
            await store.history("", compacted - 1, FOREVER, 1)
        await store.write([put("/more")])
        await store.compact(store.revision)
        assert rows(store, "log") == 201

    async def test_revision_does_not_go_back(self, stores: Stores) -> None:
        """Though the newest rows, being tombstones, are gone."""
        store = await stores.open()
        await fill(store, 5)
        await asyncio.gather(*(store.write([delete(f"/a/{n:05}")]) for n in range(5)))
        revision = store.revision
        await store.compact(revision)
        assert rows(store, "log") == 0
        assert (await store.list(Query("/"))).revision == revision
        store = await stores.open()
        assert store.revision == store.compacted == revision
        assert await store.write([put("/a")]) == [revision + 1]

    async def test_snapshots_outlive_it(self, stores: Stores) -> None:
        """A scan that began before goes on in what it began with."""
        store = await stores.open()
        await fill(store, 4000)
        listing = asyncio.create_task(store.list(Query("/a/")))
        await asyncio.sleep(0)
        await asyncio.gather(*(store.write([delete(f"/a/{n:05}")]) for n in range(2000, 4000)))
        await store.compact(store.revision)
        page = await listing
        assert len(page.values) in (4000, 2000)
        assert await store.count("/a/") == 2000


class TestGathering:
    async def test_writers_who_ask_in_turn_share_commits(self, stores: Stores) -> None:
        store = await stores.open()
        sizes: list[int] = []
        store.listen(lambda events: sizes.append(len(events)))

        async def write(name: str) -> None:
            for number in range(50):
                await store.write([put(f"/{name}/{number}")])

        async with asyncio.TaskGroup() as writers:
            for name in "abcdefgh":
                writers.create_task(write(name))
        assert sum(sizes) == 400
        assert len(sizes) < 80

    async def test_a_batch_waits_while_more_writers_join(self, stores: Stores) -> None:
        store = await stores.open()
        commits = store._commits
        assert commits is not None
        commits._busy = True  # a commit of four writers has just ended
        commits._worker.ended = time.perf_counter()
        commits._gather(4)
        commits._gathers_until = math.inf
        writes: list[asyncio.Task[Sequence[int]]] = []
        for waiting in range(3):
            look_again(commits, before=waiting - 1 if waiting else 0)
            assert commits._gathering is not None
            writes.append(asyncio.create_task(store.write([put(f"/a/{waiting}")])))
            await asyncio.sleep(0)
        assert len(commits._small) == 3
        look_again(commits, before=3)  # nobody has come since
        assert commits._gathering is None
        assert [len(await write) for write in writes] == [1, 1, 1]

    async def test_a_batch_does_not_wait_for_ever(self, stores: Stores) -> None:
        store = await stores.open()
        commits = store._commits
        assert commits is not None
        commits._busy = True
        commits._worker.ended = time.perf_counter()
        commits._gather(4)
        write = asyncio.create_task(store.write([put("/a/0")]))
        await asyncio.sleep(0)
        commits._gathers_until = time.perf_counter()
        look_again(commits, before=0)
        assert commits._gathering is None
        await write

    async def test_a_writer_waits_once_for_another_who_has_finished(self, stores: Stores) -> None:
        store = await stores.open()
        commits = store._commits
        assert commits is not None
        commits._busy = True  # a commit of two writers has just ended, one of whom is done
        commits._worker.ended = time.perf_counter()
        commits._gather(2)
        commits._gathers_until = math.inf
        write = asyncio.create_task(store.write([put("/a/0")]))
        await asyncio.sleep(0)
        look_again(commits, before=1)
        assert commits._gathering is None
        assert len(await write) == 1


class TestReading:
    async def test_history_from_disk(self, stores: Stores) -> None:
        """What has left the memory is in the log, and looks the same."""
        small = await stores.open(recent_bytes=20_000)
        events = listening(small)
        for number in range(40):
            await small.write([put(f"/{number % 3}/{n}") for n in range(60)])
        await small.write([delete("/1/3")])
        for prefix in ("", "/1/", "/none"):
            found: list[Event] = []
            after = 0
            while page := (await small.history(prefix, after, FOREVER, 37)).events:
                found += page
                after = page[-1].revision
            expected = [event for event in events if event.key.startswith(prefix)]
            assert [described(event) for event in found] == [described(e) for e in expected]

    async def test_pages_of_large_events_are_short(self, stores: Stores) -> None:
        small = await stores.open(recent_bytes=20_000)
        large = b"x" * 1_000_000
        written: list[int] = []
        for number in range(7):
            written += await small.write([put(f"/{number}", body=large)])
        seen: list[int] = []
        after = 0
        while after < small.revision:
            page = await small.history("", after, small.revision, 100)
            assert sum(len(event.value) for event in page.events) < 2 * HISTORY_BYTES
            seen += [event.revision for event in page.events]
            after = page.reached
        assert seen == written

    async def test_restart(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 50)
        events = (await store.history("", 0, FOREVER, 1000)).events
        before = await store.list(Query("/"))
        store = await stores.open()
        assert store.revision == before.revision
        assert (await store.list(Query("/"))).values == before.values
        again = (await store.history("", 0, FOREVER, 1000)).events
        assert [described(event) for event in again] == [described(event) for event in events]

    async def test_restart_with_ten_thousand_objects_is_quick(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 10_000)
        await stores.close()
        started = time.thread_time()
        store = await stores.open()
        assert time.thread_time() - started < 0.1
        assert store.revision == 10_000

    async def test_long_list_takes_turns(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 10_000)
        turns = 0
        listing = asyncio.create_task(store.list(Query("/a/")))
        while not listing.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(listing.result().values) == 10_000
        assert turns > 2

    @pytest.mark.parametrize("at_newest", [True, False])
    async def test_a_scan_that_is_interrupted_goes_on(
        self, stores: Stores, monkeypatch: pytest.MonkeyPatch, at_newest: bool
    ) -> None:
        """SQLite finds nothing for too long: the same rows come, a few keys at a time."""
        monkeypatch.setattr(scans, "OPERATIONS_PER_LOOK", 500)
        monkeypatch.setattr(scans, "ROWS_PER_WINDOW", 7)
        store = await stores.open()
        for n in range(300):
            terms = f"\x1fl:n={n % 10}\x1f"
            await store.write([PutKey(f"/a/{n:05}", Value(b"", b"%d" % n), terms)])
        await store.write([delete("/a/00042"), delete("/a/00299"), put("/b/1")])
        at = 0 if at_newest else store.revision
        if not at_newest:
            await store.write([delete("/a/00052"), put("/a/00062"), put("/a/00063")])
        three, not_three = (Condition(("\x1fl:n=3\x1f",), negated) for negated in (False, True))
        queries = [
            Query("/a/", at=at, where=where, residual=residual, limit=limit, after=after)
            for where in ((), (three,), (not_three,), (three, not_three))
            for residual in (None, lambda terms: "=2" not in terms)
            for limit, after in ((0, ""), (5, ""), (29, "/a/00100"))
        ]
        expected = [await store.list(query) for query in queries]
        monkeypatch.setattr(scans, "FETCH_SECONDS", -1.0)
        for query, page in zip(queries, expected, strict=True):
            assert await store.list(query) == page

    async def test_looking_for_what_is_nowhere_takes_turns(
        self, stores: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scans, "FETCH_SECONDS", -1.0)
        monkeypatch.setattr(resting, "SLICE_SECONDS", 0.0)
        store = await stores.open()
        await fill(store, 5_000)
        turns = 0
        query = Query("/a/", where=(Condition(("\x1fnowhere\x1f",)),))
        listing = asyncio.create_task(store.list(query))
        while not listing.done():
            await asyncio.sleep(0)
            turns += 1
        assert not listing.result().values
        assert turns > 5_000 // scans.ROWS_PER_WINDOW

    async def test_conditions_beyond_what_a_statement_may_have(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 10)
        some = tuple(f"\x1f{n}\x1f" for n in range(50_000))
        for where, count in (
            ((Condition(some),), 0),
            ((Condition(some, negated=True),), 10),
            (tuple(Condition((text,), negated=True) for text in some), 10),
            (tuple(Condition(("\x1fx\x1f", text)) for text in some), 10),
        ):
            assert len((await store.list(Query("/a/", where=where))).values) == count
            at = store.revision
            await store.write([put("/b/1")])
            assert len((await store.list(Query("/a/", where=where, at=at))).values) == count

    async def test_more_scans_than_readers(self, stores: Stores) -> None:
        store = await stores.open(readers=2)
        await fill(store, 5_000)
        pages = await asyncio.gather(*(store.list(Query("/a/")) for _ in range(10)))
        assert {len(page.values) for page in pages} == {5_000}

    async def test_given_up_scans_leave_no_snapshot_behind(self, stores: Stores) -> None:
        store = await stores.open(readers=2)
        await fill(store, 5_000)
        for _ in range(5):
            scans = [asyncio.create_task(store.list(Query("/a/"))) for _ in range(5)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for scan in scans:
                scan.cancel()
            await asyncio.gather(*scans, return_exceptions=True)
        await fill(store, 1, "/b/")
        page = await store.list(Query("/"))
        assert len(page.values) == 5_001

    async def test_remaining_is_counted_once_per_list(self, stores: Stores) -> None:
        store = await stores.open()
        await fill(store, 1_000)
        page = await store.list(Query("/a/", limit=100, count_remaining=True))
        seen = [page.remaining]
        while page.next_after:
            await store.write([put(f"/a/{len(seen):05}x")])
            page = await store.list(
                Query("/a/", page.next_after, 100, page.revision, count_remaining=True)
            )
            seen.append(page.remaining)
        assert seen == [900, 800, 700, 600, 500, 400, 300, 200, 100, None]


def described(event: Event) -> tuple[object, ...]:
    return (
        event.revision, event.key, event.value, event.terms,
        event.previous_terms, event.created, event.deleted,
    )  # fmt: skip


class TestIdleCache:
    async def test_the_cache_is_freed_when_writing_has_stopped(self, stores: Stores) -> None:
        """After much was written, and not while it is; and the store goes on."""
        store = await stores.open()
        freed = asyncio.Event()
        cache = store.idle_cache
        assert cache is not None
        done = cache._done

        def note(error: BaseException | None) -> None:
            done(error)
            freed.set()

        cache._done, cache._seconds = note, 0.01  # type: ignore[method-assign]
        await store.write([put("/a/small")])
        assert cache._timer is None
        for number in range(6):
            await store.write([put(f"/a/{number}", body=b"x" * (1 << 20))])
        await asyncio.wait_for(freed.wait(), 10)
        assert (cache.freed, cache._timer) == (1, None)
        await store.write([put("/a/again")])
        assert await store.count("/a/") == 8


def value_of(store: SQLiteStore, key: str) -> bytes:
    """Without the revision, which is in front of it."""
    entry = store.get(key)
    return b"" if entry is None else entry.value.lstrip(b"0123456789")


async def test_a_get_is_never_older_than_a_list_before(stores: Stores):
    """A list shows what is committed but not announced yet; then a get does, whatever was cached."""
    store = await stores.open()
    await store.write([put("/a/x", body=b"old")])
    assert store.get("/a/x") is store.get("/a/x")  # it is cached
    commits = store._started()
    announce, held = commits._done, asyncio.Queue[tuple[CommitBatch, BaseException | None]]()
    commits._done = lambda *done: held.put_nowait(done)  # type: ignore[method-assign]
    writing = asyncio.create_task(store.write([put("/a/x", body=b"new")]))
    done = await held.get()
    seen = [value_of(store, "/a/x")]  # the writer has not been told either
    page = await store.list(Query("/a/"))
    seen.append(value_of(store, "/a/x"))
    is_ahead = page.revision > store.revision
    del commits._done
    announce(*done)
    await writing
    assert (seen, is_ahead) == ([b"old", b"new"], True)
    assert value_of(store, "/a/x") == b"new"


async def test_cached_entries_follow_writes(stores: Stores):
    """Changed, deleted and made again: a get shows the last state that was acknowledged."""
    store = await stores.open()
    for body in (b"a", b"b", b"", b"c"):
        await store.write([put("/a/x", body=body) if body else delete("/a/x")])
        assert [value_of(store, "/a/x"), value_of(store, "/a/x")] == [body, body]
    await store.write([put("/a/large", body=b"x" * 100_000)])
    assert value_of(store, "/a/large")
    assert list(store._entries) == ["/a/x"]


class BrokenFollowers:
    """Serving processes that cannot be told of a commit."""

    def announce(self, revision: int) -> None:
        raise ValueError(f"revision {revision} cannot be announced")


async def test_writes_go_on_when_others_cannot_be_told_of_one(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
):
    store = await stores.open()
    faults: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
    with monkeypatch.context() as broken:
        broken.setattr(store, "_followers", BrokenFollowers())
        async with asyncio.timeout(10):
            await store.write([put("/a")])
    loop.set_exception_handler(None)
    assert [str(fault) for fault in faults] == ["revision 1 cannot be announced"]
    async with asyncio.timeout(10):
        await store.write([put("/b")])
        await stores.close()
    again = await stores.open()
    assert again.get("/a") is not None
    assert again.get("/b") is not None
