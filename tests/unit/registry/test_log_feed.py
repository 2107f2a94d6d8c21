"""The feed: what the log still holds, then what comes, then what an index finds."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.clients.interface import Change
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.log_feed import LogFeed
from pykcp.storage.interface import Value
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import DeleteKey, PutKey

A, B = GroupVersionResource("", "v1", "a"), GroupVersionResource("", "v1", "b")


async def _put(store: MemoryStore, *keys: str) -> None:
    for key in keys:
        await store.write((PutKey(key, Value(b"", b"")),))


async def test_replay_then_live_each_event_once() -> None:
    store = MemoryStore()
    await _put(store, "core/a/c/n/1", "core/b/c/n/1")
    feed, seen = LogFeed(store), []
    feed.on(A, lambda change: seen.append(str(change.ref)))
    feed.start()
    await _put(store, "core/a/c/n/2", "core/b/c/n/2")
    await feed.run()
    await _put(store, "core/a/c/n/3")
    assert sorted(seen) == ["core/a/c/n/1", "core/a/c/n/2", "core/a/c/n/3"]
    feed.stop()
    await _put(store, "core/a/c/n/4")
    assert len(seen) == 3


async def test_one_pass_serves_all_when_somebody_wants_everything() -> None:
    store = MemoryStore()
    await _put(store, *(f"core/a/c/n/{n}" for n in range(1200)), "core/b/c/n/1")
    feed, everything, some = LogFeed(store), [], []
    feed.on_everything(lambda change: everything.append(str(change.ref)))
    feed.on(B, lambda change: some.append(str(change.ref)))
    feed.start()
    await feed.run()
    assert len(everything) == len(set(everything)) == 1201
    assert some == ["core/b/c/n/1"]


async def test_handlers_of_everything_get_what_they_ask_for() -> None:
    store = MemoryStore()
    feed = LogFeed(store)
    seen: dict[str, list[str]] = {"all": [], "some": [], "deleted": []}

    def to(name: str) -> Callable[[Change], None]:
        return lambda change: seen[name].append(f"{change.name}@{change.revision}")

    feed.on_everything(to("all"))
    feed.on_everything(to("some"), with_updates=False)
    feed.on_deletions(to("deleted"))
    feed.start()
    await _put(store, "core/a/c/n/1")
    await _put(store, "core/a/c/n/1")
    await store.write([DeleteKey("core/a/c/n/1", Value(b"", b"{}"))])
    assert seen == {"all": ["1@1", "1@2", "1@3"], "some": ["1@1", "1@3"], "deleted": ["1@3"]}


async def test_what_is_compacted_is_not_asked_for() -> None:
    store = MemoryStore()
    await _put(store, "core/a/c/n/1", "core/a/c/n/2", "core/a/c/n/3")
    await store.compact(2)
    feed, seen = LogFeed(store), []
    feed.on_everything(lambda change: seen.append(str(change.ref)))
    feed.start()
    await feed.run()
    assert seen == ["core/a/c/n/3"]


async def test_a_failing_handler_does_not_blind_the_others() -> None:
    store = MemoryStore()
    feed, seen = LogFeed(store), []

    def broken(change: Change) -> None:
        raise ValueError("a bug")

    feed.on(A, broken)
    feed.on(A, lambda change: seen.append(str(change.ref)))
    feed.start()
    await _put(store, "core/a/c/n/1")
    assert seen == ["core/a/c/n/1"]


async def test_a_run_that_failed_goes_on_where_it_was() -> None:
    store = MemoryStore()
    feed, calls = LogFeed(store), []

    async def first() -> None:
        calls.append("first")

    async def second() -> None:
        calls.append("second")
        if calls.count("second") == 1:
            raise OSError("once")

    feed.at_start(first)
    feed.at_start(second)
    feed.start()
    try:
        await feed.run()
    except OSError:
        await feed.run()
    assert calls == ["first", "second", "second"]


async def test_from_the_start_means_what_the_log_has_forgotten_too() -> None:
    store = MemoryStore()
    body = b'","annotations":{"kcp.io/cluster":"c"},"name":"1","namespace":"n"}}'
    await store.write((PutKey("core/a/c/n/1", Value(b'{"metadata":{"resourceVersion":"', body)),))
    await store.compact(store.revision)
    feed, lately, all_of_them = LogFeed(store), [], []
    feed.on(A, lambda change: lately.append(change.ref))
    feed.on(A, lambda change: all_of_them.append(change.ref), from_the_start=True)
    feed.start()
    await feed.run()
    await feed.synced()
    assert lately == []
    assert all_of_them == [ObjectRef("core/a", "c", "n", "1")]


async def test_a_change_knows_what_was_before_it() -> None:
    store = MemoryStore()
    feed, before = LogFeed(store), []
    feed.on(A, lambda change: before.append(change.previous()))
    feed.start()
    await store.write((PutKey("core/a/c/n/1", Value(b"<", b">")),))
    await store.write((PutKey("core/a/c/n/1", Value(b"<", b">")),))
    assert before == [None, b"<1>"]
