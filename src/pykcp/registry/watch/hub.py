"""The watch hub: delivers committed events to all watchers, each encoded once.

Watchers are indexed by the prefix they watch (a resource, a cluster's, a namespace's, or
one key). Watchers with the same selection in the same format share a group, so an event is
matched and encoded once per group and the same bytes are written to each member's sink; to
the sinks of one connection together.
There is no task, queue or timer per watcher except the client's deadline; a watcher that
reads too slowly is ended and resumes from its resource version.

On a prefix with few watchers an event is delivered when it is committed. A prefix with many
watchers has a queue: events are delivered in order, to some watchers at a time, and other
work runs on the event loop in between. The watches of a large group are ended the same way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter

from pykcp.clients.where import MOVED_AT, NOT_HERE
from pykcp.registry.keys import (
    ALL_IDENTITIES,
    all_identities_prefix,
    cluster_of_prefix,
    enclosing_prefixes,
)
from pykcp.registry.watch.bookmarks import BookmarkSchedule
from pykcp.registry.watch.crowds import AT_ONCE, EventQueue, EventQueues, is_crowded
from pykcp.registry.watch.watchers import (
    EventEncoder,
    Portion,
    Sink,
    TermsFilter,
    Trailers,
    Watcher,
    WatchGroup,
    departed,
)
from pykcp.storage.interface import Event, Store

BACKLOG_LIMIT = 8 * 1024 * 1024
"""Bytes a watcher may leave unread before its watch is ended."""
SLICE_SECONDS = 0.002
"""How long crowded prefixes hold the loop at a time."""
_ENDS_AT_ONCE = 20
_LOOK_SECONDS = 0.1
"""How often a server looks whether others have advanced the store, while somebody asked for it."""
_NO_GROUPS: dict[object, WatchGroup] = {}


class WatchHub:
    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop | None = None,
        prefixes: Callable[[str], Iterable[str]] = enclosing_prefixes,
        *,
        is_shared: bool = False,
        joined: str = "",
    ) -> None:
        """`prefixes`: under which prefixes a key may be watched. `is_shared`: other servers use the
        store, and may be asked for its progress in place of this one. `joined`: the key that is
        written when a shard joins.
        """
        self._store = store
        self._prefixes = prefixes
        self._loop = loop or asyncio.get_running_loop()
        self._buckets: dict[str, dict[object, WatchGroup]] = {}
        self._by_cluster: dict[str, set[str]] = {}
        """The prefixes that are watched in a logical cluster; in all of them, under ""."""
        self._all_identities = 0
        """How many resources are watched in all their identities."""
        self._is_shut = False
        """The process stops: no more events will come."""
        self._is_closed: Callable[[str], bool] | None = None
        self._moved: dict[str, Trailers] = {}
        """Logical clusters that are on another shard now, and how watches of them end."""
        self._moved_at: dict[str, int] = {}
        """The last revision that was written to them here."""
        self._queues = EventQueues()
        """Of crowded prefixes with events that not all of their watchers have got."""
        self._distributing: deque[Iterator[None]] = deque()
        self._ending: deque[Watcher] = deque()
        self._is_running = False
        self._bookmarks = BookmarkSchedule(self._loop, self._bookmark_idle)
        self._progress: dict[Watcher, None] = {}
        """Those that get a bookmark whenever progress is reported."""
        self._is_shared = is_shared
        self._reported = 0
        """The revision that was last reported to them."""
        self._look: asyncio.TimerHandle | None = None
        self.count = 0
        self.delivered = 0
        self.ended_slow = 0
        if joined:  # before events of the same batch are delivered
            store.listen(lambda events: self._end_merged(events, joined), (joined,))
        self._unlisten = store.listen(self.deliver)

    def close(self) -> None:
        """End every watch, and all that begin, so that a server can drain.

        Requests that came before, or on connections that still take some, begin watches later.
        """
        self._is_shut = True
        self._unlisten()
        self._bookmarks.close()
        for groups in list(self._buckets.values()):
            for group in list(groups.values()):
                for watcher in list(group.watchers):
                    self.end(watcher)
        while self._ending:
            self.end(self._ending.popleft())

    def open(
        self,
        prefix: str,
        key: object,
        matches: TermsFilter | None,
        encoder: EventEncoder,
        watcher: Watcher,
        timeout: float,
    ) -> None:
        """From now on the watcher gets every event newer than its `since`."""
        hides = self.hidden_from(watcher)
        group_key = (key, encoder.form, hides is not None)
        groups = self._buckets.get(prefix)
        if groups is None:
            groups = self._buckets[prefix] = {}
            self._all_identities += prefix.endswith(ALL_IDENTITIES)
            self._by_cluster.setdefault(cluster_of_prefix(prefix), set()).add(prefix)
        group = groups.get(group_key)
        if group is None:
            group = groups[group_key] = WatchGroup(prefix, group_key, matches, encoder, hides)
        group.add(watcher)
        watcher.group = group
        watcher.deadline = self._loop.call_later(timeout, self._expire, watcher)
        self.count += 1
        if watcher.wants_bookmarks:
            self._bookmarks.add(watcher)
        if watcher.wants_progress:
            self._progress[watcher] = None
            if self._is_shared and self._look is None:
                self._look_for_progress()
        if self._is_shut or (self._is_closed is not None and self._is_closed(prefix)):
            self.end(watcher)  # its cluster went out of use while it was catching up
        elif self._moved and cluster_of_prefix(prefix) in self._moved:
            self.end(watcher)

    def hidden_from(self, watcher: Watcher) -> Callable[[Event], bool] | None:
        """What a watch that is part of one over all shards does not get.

        A logical cluster that has moved is removed here, but its objects still exist.
        """
        return self._is_eviction if watcher.wants_progress else None

    def _is_eviction(self, event: Event) -> bool:
        moved_at = self._moved_at.get(cluster_of_prefix(event.key)) if event.deleted else None
        return moved_at is not None and event.revision > moved_at

    def refuse_when(self, is_closed: Callable[[str], bool]) -> None:
        """End watches of a prefix for which this is true when they begin."""
        self._is_closed = is_closed

    def _end_merged(self, events: Sequence[Event], joined: str) -> None:
        """End what is part of watches over all shards, of which there is one more now.

        They have got everything before it and nothing after it, and cannot go on from there.
        """
        if any(event.key == joined for event in events):
            for watcher in list(self._progress):
                self.end(watcher)

    def end_moved(self, cluster: str, shard: str, revision: int) -> None:
        """End the watches in a logical cluster that is on another shard now, and all that begin.

        They have got everything up to the revision. Trailers tell a front-proxy where they go on.
        """
        self._moved[cluster] = ((NOT_HERE, shard), (MOVED_AT, str(revision)))
        self._moved_at[cluster] = revision
        for prefix in tuple(self._by_cluster.get(cluster, ())):
            for group in list(self._buckets[prefix].values()):
                for watcher in list(group.watchers) if prefix in self._queues else ():
                    self._settle(watcher, group)
                self._end_group(group)

    def forget_moved(self, cluster: str) -> None:
        """A logical cluster is on this shard again."""
        self._moved.pop(cluster, None)
        self._moved_at.pop(cluster, None)

    def end(self, watcher: Watcher) -> None:
        """Take a watcher out and finish its stream; safe to call twice."""
        if not watcher.is_open:
            return
        watcher.is_open = False
        group = watcher.group
        if group is not None:
            group.remove(watcher)
            self.count -= 1
            if not group.watchers:
                self._drop(group)
        if watcher.deadline is not None:
            watcher.deadline.cancel()
        self._bookmarks.remove(watcher)
        self._progress.pop(watcher, None)
        if not watcher.sink.closed:
            watcher.sink.end(self._trailers(group))
        if watcher.on_end is not None:
            watcher.on_end()

    def _trailers(self, group: WatchGroup | None) -> Trailers:
        if not self._moved or group is None:
            return ()
        return self._moved.get(cluster_of_prefix(group.prefix), ())

    def end_under(self, prefix: str) -> None:
        """End all watches below a prefix: their type or their cluster is gone."""
        self._end_all([b for b in self._buckets if b.startswith(prefix)])

    def end_kind(self, resource: str, cluster: str) -> None:
        """End the watches of a resource (its `resource_id`) in a logical cluster."""
        self.end_under(f"{resource}/{cluster}/")

    def end_cluster(self, cluster: str, keeping: str = "") -> None:
        """End the watches in a logical cluster ("": those over all of them).

        `keeping`: a prefix below which they go on.
        """
        prefixes = self._by_cluster.get(cluster, ())
        self._end_all([p for p in prefixes if not (keeping and p.startswith(keeping))])

    def _end_all(self, prefixes: Sequence[str]) -> None:
        for prefix in prefixes:
            for group in list(self._buckets[prefix].values()):
                self._end_group(group)

    def _end_group(self, group: WatchGroup) -> None:
        """No member gets another event; the streams of a large group end one after the other."""
        if len(group.watchers) <= AT_ONCE:
            for watcher in list(group.watchers):
                self.end(watcher)
            return
        self._drop(group)
        group.is_ended = True
        self._ending.extend(group.watchers)
        self._run_soon()

    def _drop(self, group: WatchGroup) -> None:
        groups = self._buckets.get(group.prefix)
        if groups is None or groups.get(group.key) is not group:
            return  # out of it already
        del groups[group.key]
        if not groups:
            del self._buckets[group.prefix]
            self._all_identities -= group.prefix.endswith(ALL_IDENTITIES)
            cluster = cluster_of_prefix(group.prefix)
            prefixes = self._by_cluster[cluster]
            prefixes.discard(group.prefix)
            if not prefixes:
                del self._by_cluster[cluster]

    def deliver(self, events: Sequence[Event]) -> None:
        buckets = self._buckets
        if not buckets:
            return
        for event in events:
            for prefix in self._prefixes(event.key):
                groups = buckets.get(prefix)
                if groups:
                    self._deliver_under(prefix, groups, event)
            if self._all_identities:
                prefix = all_identities_prefix(event.key)
                groups = buckets.get(prefix)
                if groups:
                    self._deliver_under(prefix, groups, event)

    def _deliver_under(self, prefix: str, groups: dict[object, WatchGroup], event: Event) -> None:
        if prefix in self._queues or is_crowded(groups, len(event.value)):
            self._enqueue(prefix, event)
            return
        # A copy, because writing may end slow watchers and with them their group.
        for group in list(groups.values()):
            data = self._line(group, event)
            if data is not None:
                for portion in group.portions():
                    self._write_to(portion, event.revision, data)

    def _line(self, group: WatchGroup, event: Event) -> bytes | None:
        """What a group gets of an event; None if it is none of theirs."""
        kind = group.kind_of(event)
        if kind is None:
            return None
        if kind == "DELETED" and not event.deleted:
            # The object still exists but left the selection: clients expect its last matching state.
            event = departed(self._store, event)
        return group.encoder.event(kind, event)

    def _write_to(self, portion: Portion, revision: int, data: bytes) -> None:
        sinks: list[Sink] = []
        for watcher in portion.watchers:
            # A new watcher may have read this event from the log already, others may have left.
            if watcher.since < revision and watcher.is_open:
                watcher.since = revision
                sinks.append(watcher.sink)
        self.delivered += len(sinks)
        if portion.channel is not None:
            backlog = portion.channel.write_to_all(sinks, data)
        else:
            backlog = 0
            for sink in sinks:
                sink.write(data)
                backlog = max(backlog, sink.backlog)
        if backlog > BACKLOG_LIMIT:
            for watcher in portion.watchers:
                if watcher.sink.backlog > BACKLOG_LIMIT and watcher.is_open:
                    self.ended_slow += 1
                    self.end(watcher)

    # -- crowds --------------------------------------------------------------------------------

    def _enqueue(self, prefix: str, event: Event) -> None:
        queue = self._queues.get(prefix)
        if queue is None:
            queue = self._queues.open(prefix)
            self._distributing.append(self._distribute(prefix, queue))
            self._run_soon()
        elif queue.is_full:
            # Dropping single events would break the watches silently; ended ones resume by themselves.
            for group in list(self._buckets[prefix].values()):
                self.ended_slow += len(group.watchers)
                self._end_group(group)
            return
        queue.append(event)

    def _distribute(self, prefix: str, queue: EventQueue) -> Iterator[None]:
        """Events to the watchers of a prefix, with a pause after each bit of work."""
        while queue.events:
            event = queue.events[0]
            for group in list(self._buckets.get(prefix, _NO_GROUPS).values()):
                data = self._line(group, event)
                yield
                for portion in group.portions() if data is not None else ():
                    if group.is_ended:
                        break
                    assert data is not None
                    self._write_to(portion, event.revision, data)
                    yield
            queue.popleft()
        self._queues.close(prefix)

    def _run_soon(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Distribute and end for a moment, all in turn; then let the others have the loop."""
        end = perf_counter() + SLICE_SECONDS
        while (self._distributing or self._ending) and perf_counter() < end:
            if self._distributing:
                work = self._distributing.popleft()
                try:
                    next(work)
                    self._distributing.append(work)
                except StopIteration:
                    pass  # nothing is left for this prefix
            for _ in range(min(_ENDS_AT_ONCE, len(self._ending))):
                self.end(self._ending.popleft())
        if self._distributing or self._ending:
            self._loop.call_soon(self._run)
        else:
            self._is_running = False

    def _settle(self, watcher: Watcher, group: WatchGroup) -> None:
        """Give a watcher what waits for it, before something is said of a newer revision."""
        queue = self._queues.get(group.prefix)
        for event in tuple(queue.events) if queue is not None else ():
            if watcher.since < event.revision:
                data = self._line(group, event)
                if data is not None:
                    watcher.sink.write(data)
                watcher.since = event.revision

    def _expire(self, watcher: Watcher) -> None:
        """The client's time is over; a last bookmark lets it resume where it is."""
        group = watcher.group
        if watcher.is_open and watcher.wants_bookmarks and group is not None:
            if not group.is_ended:
                self._settle(watcher, group)
            self._bookmark(watcher)
        self.end(watcher)

    def report_progress(self) -> None:
        """Tell those who asked for it how far the store is."""
        self._reported = self._store.revision
        for watcher in list(self._progress):
            self._bookmark_idle(watcher)

    def _look_for_progress(self) -> None:
        """Report what another server was asked to advance to."""
        self._look = None
        if self._progress and not self._is_shut:
            if self._store.revision != self._reported:
                self.report_progress()
            self._look = self._loop.call_later(_LOOK_SECONDS, self._look_for_progress)

    def _bookmark_idle(self, watcher: Watcher) -> None:
        group = watcher.group
        # A watcher that still waits for events must not hear of a newer revision.
        if group is not None and group.prefix not in self._queues:
            self._bookmark(watcher)

    def _bookmark(self, watcher: Watcher) -> None:
        group = watcher.group
        if group is None or group.is_ended or watcher.sink.closed or not watcher.is_open:
            return
        revision = max(self._store.revision, watcher.since)
        watcher.sink.write(group.encoder.bookmark(revision, is_initial_end=False))
