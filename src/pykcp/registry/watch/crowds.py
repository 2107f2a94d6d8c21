"""Crowded prefixes: when events are queued for their watchers, and how many."""

from __future__ import annotations

from collections import deque

from pykcp.registry.watch.watchers import WatchGroup
from pykcp.storage.interface import Event

AT_ONCE = 200
"""Watchers of a prefix that get an event when it is committed."""
GROUPS_AT_ONCE = 32
QUEUE_LIMIT = 10_000
"""Events that may wait for the watchers of a prefix, and"""
QUEUE_BYTES = 32 * 1024 * 1024
"""how many bytes; watchers who fall further behind are ended."""


class EventQueue:
    """Events that wait for the watchers of a crowded prefix."""

    __slots__ = ("_size", "events")

    def __init__(self) -> None:
        self.events: deque[Event] = deque()
        self._size = 0

    def append(self, event: Event) -> None:
        self.events.append(event)
        self._size += len(event.value)

    def popleft(self) -> None:
        self._size -= len(self.events.popleft().value)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= QUEUE_LIMIT or self._size > QUEUE_BYTES


def is_crowded(groups: dict[object, WatchGroup]) -> bool:
    """Whether writing an event to all watchers at once would hold the loop for too long."""
    if len(groups) > GROUPS_AT_ONCE:
        return True
    return sum([len(group.watchers) for group in groups.values()]) > AT_ONCE
