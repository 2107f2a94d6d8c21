"""Crowded prefixes: when events are queued for their watchers, and how many."""

from __future__ import annotations

from collections import deque

from pykcp.registry.watch.watchers import WatchGroup
from pykcp.storage.interface import Event

AT_ONCE = 200
"""Watchers of a prefix that get an event when it is committed."""
GROUPS_AT_ONCE = 32
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Octets that all of them together get when it is committed."""
QUEUE_LIMIT = 10_000
"""Events that may wait for the watchers of a prefix, and"""
QUEUE_BYTES = 32 * 1024 * 1024
"""how many bytes; watchers who fall further behind are ended."""
ALL_QUEUES_BYTES = 64 * 1024 * 1024
"""Bytes that may wait in all queues together; beyond that each may have an equal part of them."""


class EventQueues:
    """The queues of all crowded prefixes, by prefix."""

    def __init__(self) -> None:
        self._queues: dict[str, EventQueue] = {}
        self.size = 0
        """Bytes of all events that wait. One that waits in two queues counts twice."""

    def __contains__(self, prefix: str) -> bool:
        return prefix in self._queues

    def __len__(self) -> int:
        return len(self._queues)

    def get(self, prefix: str) -> EventQueue | None:
        return self._queues.get(prefix)

    def open(self, prefix: str) -> EventQueue:
        queue = self._queues[prefix] = EventQueue(self)
        return queue

    def close(self, prefix: str) -> None:
        """Its events have been delivered."""
        del self._queues[prefix]


class EventQueue:
    """Events that wait for the watchers of a crowded prefix."""

    __slots__ = ("_all", "_size", "events")

    def __init__(self, all_queues: EventQueues) -> None:
        self.events: deque[Event] = deque()
        self._all = all_queues
        self._size = 0

    def append(self, event: Event) -> None:
        self.events.append(event)
        self._size += len(event.value)
        self._all.size += len(event.value)

    def popleft(self) -> None:
        size = len(self.events.popleft().value)
        self._size -= size
        self._all.size -= size

    @property
    def is_full(self) -> bool:
        if len(self.events) >= QUEUE_LIMIT or self._size > QUEUE_BYTES:
            return True
        return self._all.size > ALL_QUEUES_BYTES and self._size * len(self._all) >= self._all.size


def is_crowded(groups: dict[object, WatchGroup], size: int = 0) -> bool:
    """Whether writing an event of that size to all watchers at once would hold the loop for too long."""
    if len(groups) > GROUPS_AT_ONCE:
        return True
    watchers = sum([len(group.watchers) for group in groups.values()])
    return watchers > AT_ONCE or (watchers > 1 and watchers * size > BYTES_AT_ONCE)
