"""The recent events, in memory, bounded by bytes.

Watches nearly always start from something that happened a moment ago; they are
served from here without touching the disk.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from pykcp.storage.interface import Event

_LARGE = 16 * 1024
EVENT_OVERHEAD = 400
"""Bytes of an event beside its key, value and terms: the object and its place in the lists."""


class RecentEvents:
    """Events in revision order. Everything after `floor` is here."""

    def __init__(self, floor: int, capacity: int) -> None:
        self.floor = floor
        self._capacity = capacity
        self._size = 0
        self._start = 0
        """How many at the front of the lists are gone; cut off now and then, not each time."""
        self._events: list[Event] = []
        self._revisions: list[int] = []

    def __len__(self) -> int:
        return len(self._events) - self._start

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events.append(event)
            self._revisions.append(event.revision)
            self._size += size(event)
        self._trim()

    def page(self, after: int, until: int, count: int) -> Sequence[Event] | None:
        """Up to `count` events with after < revision <= until; None if some are gone."""
        if after < self.floor:
            return None
        first = bisect_right(self._revisions, after, self._start)
        last = bisect_right(self._revisions, until, first)
        return self._events[first : min(last, first + count)]

    def _trim(self) -> None:
        events, start = self._events, self._start
        while self._size > self._capacity and start < len(events):
            oldest = events[start]
            self._size -= size(oldest)
            self.floor = max(self.floor, oldest.revision)
            start += 1
        self._start = start
        # What is cut off still holds memory, so a few large events do not wait for many.
        if start > 256 or (start and size(events[start - 1]) > _LARGE):
            del events[:start], self._revisions[:start]
            self._start = 0


def size(event: Event) -> int:
    return len(event.value) + len(event.key) + len(event.terms) + EVENT_OVERHEAD
