"""A queue of unique keys: each is processed by one worker at a time, and retried with backoff.

Keys belong to lanes, usually one per logical cluster. Lanes take turns, so that a key of one
lane does not wait for the thousands of another; a lane cannot occupy all workers, either.
The more keys of a lane fail, the longer each of them waits.

Pure: it has no clock and no event loop; callers pass the current time. A key that is added
while it is being processed is queued again afterwards, so the last change is always seen.
No state is kept for a key that is neither waiting, nor running, nor failing.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY, LAST_DELAY = 0.005, 60.0
"""Seconds before the first retry of a key, and at most."""
_DOUBLINGS = 14
"""After so many the longest delay is reached; more would only overflow."""
FAILING = 64
"""Keys of a lane that may fail at a time without waiting longer for that."""
_SET_ASIDE = 3
"""How many times as many keys of a lane may run as otherwise, if those take long."""
_ADVANCE = 1024
"""Delayed keys that are queued at a time."""


def backoff(failures: int, jitter: float) -> float:
    """Seconds to wait after so many failures in a row; jitter in [0, 1) takes up to a fifth off."""
    delay = min(LAST_DELAY, FIRST_DELAY * (1 << min(failures - 1, _DOUBLINGS)))
    return delay * (1 - jitter / 5)


def one_lane(_: Hashable) -> str:
    return ""


class _Failure(NamedTuple):
    number: int
    lane: str


class KeyedQueue(Generic[K]):
    def __init__(self, lane: Callable[[K], str] = one_lane, at_a_time: int | None = None) -> None:
        """`lane`: returns the lane of a key, "" for keys without one; `at_a_time`: the number of keys
        of a lane that may run concurrently.
        """
        self._lane, self._at_a_time = lane, at_a_time
        self._ready: dict[K, str] = {}
        """Keys to be worked on, with their lanes."""
        self._lanes: OrderedDict[str, deque[K]] = OrderedDict()
        """Lanes with ready keys, the one whose turn it is first."""
        self._full: dict[str, deque[K]] = {}
        """Lanes with ready keys that have all the workers they may have."""
        self._open = 0
        self._running: dict[K, str] = {}
        self._busy: Counter[str] = Counter()
        """How many keys of each lane run, without those that are set aside."""
        self._aside: dict[K, str] = {}
        """Running keys that do not count for their lanes."""
        self._aside_of: Counter[str] = Counter()
        self._again: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._failures: dict[K, _Failure] = {}
        self._failing: Counter[str] = Counter()
        self._count = 0

    def __len__(self) -> int:
        """How many keys are waiting for a worker."""
        return len(self._ready)

    @property
    def takable(self) -> int:
        """How many of them `take` would hand out, as long as no more of a lane may run."""
        return self._open

    @property
    def is_held(self) -> bool:
        """Whether keys wait only because so many of their lane run."""
        return bool(self._full)

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
        found = self._failures.get(key)
        return found.number if found is not None else 0

    def add(self, key: K) -> bool:
        """Work on this key as soon as possible; False if that was planned already."""
        self._due.pop(key, None)
        if key in self._running:
            is_new = key not in self._again
            self._again.add(key)
            return is_new
        if key in self._ready:
            return False
        lane = self._ready[key] = self._lane(key)
        full = self._full.get(lane)
        if full is not None:
            full.append(key)
            return True
        if lane in self._lanes:
            self._lanes[lane].append(key)
        elif self._is_full(lane):
            self._full[lane] = deque((key,))
            return True
        else:
            self._lanes[lane] = deque((key,))
        self._open += 1
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
        """Queue the keys that are due. If there are very many, call it again for the rest."""
        for _ in range(_ADVANCE):
            due = self.next_due()
            if due is None or due > now:
                return
            self.add(heapq.heappop(self._heap)[2])

    def take(self) -> K | None:
        """The next key to work on; `done` must be called for it."""
        if not self._lanes:
            return None
        lane = next(iter(self._lanes))
        keys = self._lanes[lane]
        key = keys.popleft()
        del self._ready[key]
        self._open -= 1
        self._running[key] = lane
        self._busy[lane] += 1
        if not keys:
            del self._lanes[lane]
        elif self._is_full(lane):
            self._full[lane] = self._lanes.pop(lane)
            self._open -= len(keys)
        else:
            self._lanes.move_to_end(lane)
        return key

    def _is_full(self, lane: str) -> bool:
        limit = self._at_a_time if lane else None
        return limit is not None and self._busy[lane] >= limit

    def done(self, key: K) -> None:
        """The work on a key ended."""
        lane = self._running.pop(key, None)
        if lane is not None:
            if self._aside.pop(key, None) is not None:
                _less(self._aside_of, lane)
            else:
                self._free(lane)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _free(self, lane: str) -> None:
        """One less of a lane runs."""
        _less(self._busy, lane)
        keys = self._full.pop(lane, None)
        if keys is not None:
            self._lanes[lane] = keys
            self._open += len(keys)

    def set_aside(self, key: K) -> None:
        """The key takes long, so that it does not keep others of its lane from running; but not
        any number of them.
        """
        lane = self._running.get(key)
        if not lane or self._at_a_time is None or key in self._aside:
            return
        if self._aside_of[lane] < _SET_ASIDE * self._at_a_time:
            self._aside[key] = lane
            self._aside_of[lane] += 1
            self._free(lane)

    def forget(self, key: K) -> None:
        """The key succeeded: its failures are forgiven."""
        found = self._failures.pop(key, None)
        if found is not None:
            _less(self._failing, found.lane)

    def fail(self, key: K, now: float, jitter: float) -> float:
        """The key failed and comes back later; returns the delay."""
        found = self._failures.get(key)
        if found is None:
            found = _Failure(0, self._lane(key))
            self._failing[found.lane] += 1
        self._failures[key] = found._replace(number=found.number + 1)
        crowd = max(1.0, self._failing[found.lane] / FAILING)
        delay = backoff(found.number + 1, jitter) * crowd
        self.add_at(key, now + delay)
        return delay

    def lane_of(self, key: K) -> str:
        """The lane of a key that is being worked on, or that failed."""
        found = self._running.get(key)
        if found is None:
            failure = self._failures.get(key)
            found = failure.lane if failure is not None else self._lane(key)
        return found


def _less(counter: Counter[str], lane: str) -> None:
    """One less; lanes that have nothing are not remembered."""
    counter[lane] -= 1
    if counter[lane] <= 0:
        del counter[lane]
