"""The watch hub: each event to whom it concerns, encoded once, and nobody holds others up."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from pykcp.registry.context import RequestContext
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.delete import delete
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.update import update
from pykcp.registry.watch import crowds
from pykcp.registry.watch import hub as hubs
from pykcp.registry.watch.bookmarks import BOOKMARK_PERIOD
from pykcp.registry.watch.hub import WatchHub
from pykcp.registry.watch.selection import select
from pykcp.registry.watch.verb import JSONEncoder, WatchOptions, watch
from pykcp.registry.watch.watchers import Watcher
from pykcp.storage.interface import Event
from pykcp.types import Object


class ListSink:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.backlog = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        self.lines.append(data)

    def end(self, trailers: Sequence[tuple[str, str]] = ()) -> None:
        self.closed = True

    @property
    def events(self) -> list[tuple[str, str]]:
        """Type and name of each event."""
        found = [json.loads(line) for line in self.lines]
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in found]


async def follow(
    world: Any, namespace: str = "", *, labels: str = "", fields: str = "", **options: Any
) -> tuple[ListSink, Watcher]:
    resource = world.resource("configmaps")
    selection = resource.select(labels, fields)
    sink = ListSink()
    options.setdefault("since", world.store.revision)
    watcher = await watch(
        resource, world.context, namespace, WatchOptions(selection, **options), sink, JSONEncoder(resource)
    )  # fmt: skip
    return sink, watcher


async def relabel(world: Any, name: str, **labels: str) -> None:
    def make(live: Object | None) -> Object:
        assert live is not None
        return {**live, "metadata": {**live["metadata"], "labels": labels}}

    target = WriteTarget(world.resource("configmaps"), world.context, "n", name)
    await update(target, ObjectChange(make))


async def remove(world: Any, name: str) -> None:
    await delete(world.resource("configmaps"), world.context, "n", name, DeleteOptions())


async def test_scopes(world: Any) -> None:
    """A namespace, a cluster, one name: each watcher sees what is below its prefix."""
    everything, _ = await follow(world)
    here, _ = await follow(world, "n")
    elsewhere, _ = await follow(world, "other")
    one, _ = await follow(world, "n", fields="metadata.name=b")
    await world.config_map("a")
    await world.config_map("b")
    assert everything.events == here.events == [("ADDED", "a"), ("ADDED", "b")]
    assert elsewhere.events == []
    assert one.events == [("ADDED", "b")]


async def test_other_clusters_are_not_seen(world: Any) -> None:
    """An event of one cluster reaches its own watchers and those of the wildcard."""
    mine, _ = await follow(world)
    resource = world.resource("configmaps")
    everywhere = ListSink()
    context = RequestContext("*", world.context.user)
    await watch(resource, context, "", WatchOptions(), everywhere, JSONEncoder(resource))
    world.context.cluster = "d"
    await world.config_map("a")
    assert mine.events == []
    assert everywhere.events == [("ADDED", "a")]


async def test_selections_turn_changes_into_arrivals_and_departures(world: Any) -> None:
    """ADDED when an object begins to match, DELETED when it stops, nothing when it never did."""
    web, _ = await follow(world, labels="app=web")
    await world.config_map("a", app="db")
    await relabel(world, "a", app="web")
    await relabel(world, "a", app="web", tier="x")
    await relabel(world, "a", app="db")
    await remove(world, "a")
    await world.config_map("b", app="web")
    await remove(world, "b")
    kinds = ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert [kind for kind, _ in web.events] == kinds


async def test_equal_watchers_share_one_encoding(world: Any) -> None:
    """The very same bytes go to everybody who asked for the same."""
    sinks = [(await follow(world, labels="app=web"))[0] for _ in range(3)]
    await world.config_map("a", app="web")
    assert len({id(sink.lines[0]) for sink in sinks}) == 1
    assert world.hub.count == 3


async def test_catching_up_misses_nothing_and_repeats_nothing(world: Any) -> None:
    """From an old revision: history first, then what is new."""
    await world.config_map("a")
    since = world.store.revision
    await world.config_map("b")
    sink, _ = await follow(world, since=since)
    await world.config_map("c")
    assert sink.events == [("ADDED", "b"), ("ADDED", "c")]


async def test_initial_state_and_its_mark(world: Any) -> None:
    """Streaming lists begin with the state and a bookmark that says so."""
    await world.config_map("a")
    sink, _ = await follow(world, sends_initial=True, marks_initial_end=True)
    assert sink.events == [("ADDED", "a"), ("BOOKMARK", "")]
    last = json.loads(sink.lines[-1])["object"]
    assert last["metadata"] == {
        "resourceVersion": str(world.store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_a_forgotten_revision_is_told_and_ended(world: Any) -> None:
    """410 comes as an ERROR event, then the stream ends."""
    for name in "abc":
        await world.config_map(name)
    await world.store.compact(world.store.revision)
    sink, watcher = await follow(world, since=1)
    (line,) = sink.lines
    event = json.loads(line)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["message"].startswith("too old resource version: 1")
    assert sink.closed
    assert not watcher.is_open


async def test_a_slow_watcher_is_ended_alone(world: Any) -> None:
    """Whoever leaves too much unread is ended; the others go on."""
    slow, watcher = await follow(world)
    quick, _ = await follow(world)
    slow.backlog = hubs.BACKLOG_LIMIT + 1
    await world.config_map("a")
    assert slow.closed
    assert not watcher.is_open
    assert not quick.closed
    assert (world.hub.count, world.hub.ended_slow) == (1, 1)


class SharedConnection:
    """Writes to all its sinks at once, and counts how often."""

    def __init__(self) -> None:
        self.writes = 0

    def write_to_all(self, sinks: Sequence[ListSink], data: bytes) -> int:
        self.writes += 1
        for sink in sinks:
            sink.write(data)
        return max((sink.backlog for sink in sinks), default=0)


async def test_watches_of_one_connection_are_written_together(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one go for each event; a slow one among them, and one that left, are no trouble."""
    shared, other = SharedConnection(), SharedConnection()
    channels = iter([shared, other, shared, None, shared])
    monkeypatch.setattr(ListSink, "channel", property(lambda _: next(channels)), raising=False)
    members = [await follow(world) for _ in range(5)]
    await world.config_map("a")
    assert (shared.writes, other.writes) == (1, 0)  # a single one is written to directly
    members[0][0].backlog = hubs.BACKLOG_LIMIT + 1
    world.hub.end(members[2][1])
    await world.config_map("b")
    await world.config_map("c")
    seen = [[name for _, name in sink.events] for sink, _ in members]
    assert seen == [["a", "b"], ["a", "b", "c"], ["a"], ["a", "b", "c"], ["a", "b", "c"]]
    assert (world.hub.count, world.hub.ended_slow) == (3, 1)


async def test_ends_below_a_prefix(world: Any) -> None:
    """When a type or a cluster goes, its watches end, and only they."""
    gone, _ = await follow(world, "n")
    stays, _ = await follow(world, "other")
    world.hub.end_under("core/configmaps/c/n/")
    assert gone.closed
    assert not stays.closed
    world.hub.end_under("core/configmaps/")
    assert stays.closed
    assert world.hub.count == 0


async def test_ends_in_a_cluster(world: Any) -> None:
    """Watches of one cluster, or those over all of them, end; a prefix may be kept."""
    cluster = world.context.cluster
    inside, _ = await follow(world)
    world.context.cluster = "*"
    everywhere, _ = await follow(world)
    world.context.cluster = cluster
    world.hub.end_cluster("another")
    world.hub.end_cluster(cluster, keeping=world.resource("configmaps").prefix)
    assert not inside.closed
    world.hub.end_cluster(cluster)
    assert inside.closed
    assert not everywhere.closed
    world.hub.end_cluster("")
    assert everywhere.closed
    assert world.hub.count == 0


async def test_nobody_begins_where_it_is_closed(world: Any) -> None:
    """A watch that was catching up when its cluster went out of use ends as it begins."""
    closed = world.resource("configmaps").prefix
    world.hub.refuse_when(lambda prefix: prefix.startswith(closed))
    sink, watcher = await follow(world)
    assert sink.closed
    assert not watcher.is_open
    assert world.hub.count == 0


async def test_ending_twice_is_once(world: Any) -> None:
    """The client and the server may both end a watch."""
    _, watcher = await follow(world)
    ended: list[int] = []
    watcher.on_end = lambda: ended.append(1)
    world.hub.end(watcher)
    world.hub.end(watcher)
    assert (ended, world.hub.count) == ([1], 0)


class Timers:
    """A loop whose timers go off when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Any, tuple[Any, ...]]] = []

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        self.waiting.append((delay, callback, args))
        loop = asyncio.get_running_loop()
        return asyncio.TimerHandle(0, callback, args, loop)

    def fire(self) -> None:
        due, self.waiting = self.waiting, []
        for _, callback, args in due:
            callback(*args)


async def test_bookmarks_come_round_and_deadlines_end(world: Any) -> None:
    """Within one period every watcher that wants bookmarks has got one; the last comes at the end."""
    timers = Timers()
    hub = WatchHub(world.store, timers)  # type: ignore[arg-type]
    resource = world.resource("configmaps")
    encoder = JSONEncoder(resource)
    sink = ListSink()
    hub.open(resource.prefix, "", None, encoder, Watcher(sink, 0, wants_bookmarks=True), 100.0)
    expiry = timers.waiting.pop(0)
    assert expiry[0] == 100.0
    rounds = 0
    while not sink.lines:
        timers.fire()
        rounds += 1
        assert rounds <= 12
    assert rounds * BOOKMARK_PERIOD / 12 <= BOOKMARK_PERIOD
    assert sink.events == [("BOOKMARK", "")]
    expiry[1](*expiry[2])
    assert sink.events == [("BOOKMARK", "")] * 2
    assert sink.closed
    hub.close()


@pytest.mark.parametrize("labels", ["", "app=web"])
async def test_closing_ends_everybody(world: Any, labels: str) -> None:
    """A draining server leaves no watch open and hears no more events."""
    sink, _ = await follow(world, labels=labels)
    world.hub.close()
    assert sink.closed
    await world.config_map("late", app="web")
    assert sink.lines == []


def test_selections_are_compared_by_text() -> None:
    """The hub groups by the selection's text."""
    assert select("a=b", "", None).key == "a=b&"


# -- crowds ----------------------------------------------------------------------------------------


async def settled(hub: WatchHub) -> None:
    """Until nothing waits for a crowd any more."""
    for _ in range(10_000):
        if not hub._is_running:
            return
        await asyncio.sleep(0)
    raise AssertionError("the crowd never got its events")


async def crowd(world: Any, count: int, **options: Any) -> list[tuple[ListSink, Watcher]]:
    return [await follow(world, **options) for _ in range(count)]


async def test_a_crowd_is_served_in_slices_and_in_order(world: Any):
    """Nobody has to wait for all of it; every watcher gets every event once, in order."""
    members = await crowd(world, 500)
    hub = world.hub
    for name in ("a", "b", "c"):
        await world.config_map(name)
    served = [len(sink.lines) for sink, _ in members]
    assert sum(served) < 3 * 500
    await settled(hub)
    for sink, _ in members:
        assert sink.events == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert not hub._queues


async def test_many_selections_are_a_crowd(world: Any):
    """Matching takes time as well."""
    members = [await follow(world, labels=f"a!=x{number}") for number in range(100)]
    await world.config_map("a")
    assert any(not sink.lines for sink, _ in members)
    await settled(world.hub)
    assert all(sink.events == [("ADDED", "a")] for sink, _ in members)


async def test_who_joins_a_crowd_gets_what_is_newer(world: Any):
    """Events that wait for the others are older than a new watch."""
    members = await crowd(world, 300)
    await world.config_map("a")
    late, _ = await follow(world)
    await world.config_map("b")
    await settled(world.hub)
    assert late.events == [("ADDED", "b")]
    assert all(sink.events == [("ADDED", "a"), ("ADDED", "b")] for sink, _ in members)


async def test_bookmarks_never_overtake_events(world: Any):
    """The last bookmark of a watch in a crowd comes after what waited for it."""
    members = await crowd(world, 300, wants_bookmarks=True)
    await world.config_map("a")
    hub = world.hub
    sink, watcher = members[-1]
    assert not sink.lines
    hub._bookmarks._send_some(deque([watcher]))
    assert not sink.lines  # another time
    hub._expire(watcher)
    assert [kind for kind, _ in sink.events] == ["ADDED", "BOOKMARK"]
    assert sink.closed
    await settled(hub)
    assert len(sink.lines) == 2
    assert all(other.events == [("ADDED", "a")] for other, _ in members[:-1])


async def test_a_crowd_ends_in_slices(world: Any):
    """From one moment on nobody gets anything; a new watch of the same is not affected."""
    members = await crowd(world, 500, wants_bookmarks=True)
    hub = world.hub
    hub.end_cluster(world.context.cluster)
    assert sum(sink.closed for sink, _ in members) < 500
    late, late_watcher = await follow(world)
    await world.config_map("a")
    hub._bookmarks._send_some(deque(watcher for _, watcher in members))
    await settled(hub)
    assert all(sink.closed and not sink.lines for sink, _ in members)
    assert late.events == [("ADDED", "a")]
    assert hub.count == 1
    hub.end(late_watcher)
    assert not hub._buckets
    assert not hub._by_cluster


async def test_a_crowd_that_falls_too_far_behind_is_ended(
    world: Any, monkeypatch: pytest.MonkeyPatch
):
    """It resumes where it was; what waits for it does not fill the memory."""
    monkeypatch.setattr(crowds, "QUEUE_BYTES", 10)
    members = await crowd(world, 300)
    before = world.hub.ended_slow
    for name in ("a", "b"):
        await world.config_map(name)
    await settled(world.hub)
    assert all(sink.closed for sink, _ in members)
    assert world.hub.ended_slow == before + 300


def _event_of(size: int) -> Event:
    return Event(1, "core/configmaps/c/ns/x", b"x" * size, "", "", created=True, deleted=False)


def test_crowds_share_what_may_wait(monkeypatch: pytest.MonkeyPatch):
    """Many crowded prefixes do not fill the memory, and the one that waits for most is ended."""
    monkeypatch.setattr(crowds, "ALL_QUEUES_BYTES", 1000)
    queues = crowds.EventQueues()
    large, small = queues.open("large"), queues.open("small")
    large.append(_event_of(900))
    small.append(_event_of(50))
    assert (large.is_full, small.is_full) == (False, False)
    large.append(_event_of(200))
    assert (large.is_full, small.is_full) == (True, False)
    large.popleft()
    assert (large.is_full, small.is_full) == (False, False)
    for queue in (large, small):
        queue.popleft()
    queues.close("large")
    assert (queues.size, len(queues)) == (0, 1)
