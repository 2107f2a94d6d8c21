"""A queue of keys: each is there once, is never worked on twice at a time, and fails gently.

Pure: it knows no clock and no event loop; whoever drives it says what time it is. A key that
is added while it is being worked on is queued again when that is done, so the last change is
always seen. Nothing is remembered of a key that is neither waiting, nor running, nor failing.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY, LAST_DELAY = 0.005, 60.0
"""Seconds before the first retry of a key, and at most."""
_DOUBLINGS = 14
"""After so many the longest delay is reached; more would only overflow."""


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after so many failures in a row; jitter in [0, 1) takes up to a fifth off."""
    delay = min(LAST_DELAY, FIRST_DELAY * (1 << min(failures - 1, _DOUBLINGS)))
    return delay * (1 - jitter / 5)


class KeyedQueue(Generic[K]):
    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._failures: dict[K, int] = {}
        self._count = 0

    def __len__(self) -> int:
        """How many keys could be worked on now."""
        return len(self._ready)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def delayed(self) -> int:
        return len(self._due)

    @property
    def is_idle(self) -> bool:
        """Nothing is known of any key."""
        return not (self._ready or self._running or self._due or self._failures)

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> bool:
        """Work on this key as soon as possible; False if that was planned already."""
        self._due.pop(key, None)
        if key in self._running:
            is_new = key not in self._again
            self._again.add(key)
            return is_new
        if key in self._ready:
            return False
        self._ready[key] = None
        return True

    def add_at(self, key: K, when: float) -> bool:
        """Work on this key then, unless it is planned sooner."""
        if key in self._ready:
            return False
        due = self._due.get(key)
        if due is not None and due <= when:
            return False
        self._due[key] = when
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, key))
        return True

    def next_due(self) -> float | None:
        """When the first of the delayed keys is due."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)  # it was moved or is queued already
        return heap[0][0] if heap else None

    def advance(self, now: float) -> None:
        """Queue the keys that are due."""
        while (due := self.next_due()) is not None and due <= now:
            self.add(heapq.heappop(self._heap)[2])

    def take(self) -> K | None:
        """The next key to work on; `done` must be called for it."""
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """The work on a key ended."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def forget(self, key: K) -> None:
        """The key succeeded: its failures are forgiven."""
        self._failures.pop(key, None)

    def fail(self, key: K, now: float, jitter: float) -> float:
        """The key failed and comes back later; returns the delay."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = backoff(failures, jitter)
        self.add_at(key, now + delay)
        return delay
