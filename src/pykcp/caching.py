"""A bounded cache for results that can be computed again.

    known: BoundedCache[str, Decision] = BoundedCache("authorization", 8192)
    decision = known.get(key)
    if decision is None:
        decision = known.put(key, decide(key))

Every cache of the server is one of these, so that its bound is visible where it is made and its
hits, misses and evictions are visible in the metrics.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """Evicts what was not used for long, at nearly the price of a plain dict.

    Entries live in two generations. New ones join the young generation. One that is found in
    the old generation moves to the young one. Evicted are the entries of the old generation, in
    the order in which they came there. When the young generation is the larger one, its entries
    join the end of the old one.

    Hence the more recently used half of the entries is never evicted. A true LRU would reorder
    its entries on every hit, which doubles the cost of a hit for a few percent more of them.

    None is not a value: `get` returns it for a key that is not there. There is no lock: when
    several threads use a cache, an entry may get lost, but no wrong one is found.
    """

    __slots__ = (
        "__weakref__", "_cost", "_half", "_limit", "_old", "_queue", "_total", "_young",
        "evictions", "hits", "misses", "name",
    )  # fmt: skip

    def __init__(
        self, name: str, limit: int, *, cost: Callable[[Value], int] | None = None
    ) -> None:
        """`limit`: entries, or with `cost` the sum of the costs of all values.

        `name`: for the metrics; caches of one name are added up. Empty for a cache that lives
        shorter than the process: its numbers would vanish with it. `cost` must return the same
        number for a value whenever it is called.
        """
        self.name = name
        self._limit, self._half, self._cost = limit, limit // 2, cost
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}
        self._queue: list[Key] = []
        """Keys of the old generation, the next one to evict at the end; some may have left it."""
        self._total = 0
        self.hits = self.misses = self.evictions = 0
        if name:
            _caches.add(self)

    def get(self, key: Key) -> Value | None:
        try:  # faster than dict.get when it is there
            found = self._young[key]
        except KeyError:
            return self._get_old(key)
        self.hits += 1
        return found

    def _get_old(self, key: Key) -> Value | None:
        found = self._old.pop(key, None)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        self._young[key] = found
        if len(self._young) > len(self._old):
            self._age()
        return found

    def put(self, key: Key, value: Value) -> Value:
        """Keep a value, and return it. One that alone costs more than the limit is not kept."""
        cost = self._cost
        if cost is not None:
            self.pop(key)
            added = cost(value)
            if added > self._limit:
                return value
            self._total += added
        elif self._old:
            self._old.pop(key, None)
        self._young[key] = value
        size = len(self._young) + len(self._old) if cost is None else self._total
        if size > self._half:
            if len(self._young) > len(self._old):
                self._age()
            if size > self._limit:
                self._evict()
        return value

    def _age(self) -> None:
        self._old.update(self._young)
        self._young = {}
        self._queue = list(self._old)
        self._queue.reverse()

    def _evict(self) -> None:
        old, queue, cost = self._old, self._queue, self._cost
        while self.size > self._limit:
            if not queue:  # what was added last costs as much as many others
                self._age()
                queue = self._queue
            try:
                gone = old.pop(queue.pop(), None)
            except IndexError:  # another thread was faster
                self._total = 0 if not old else self._total
                return
            if gone is not None:  # otherwise it is in the young generation now, or was removed
                self.evictions += 1
                if cost is not None:
                    self._total -= cost(gone)

    def pop(self, key: Key) -> Value | None:
        """Remove an entry, if it is there; returns its value."""
        found = self._young.pop(key, None)
        if found is None:
            found = self._old.pop(key, None)
        if found is not None and self._cost is not None:
            self._total -= self._cost(found)
        return found

    def clear(self) -> None:
        self._young.clear()
        self._old.clear()
        self._queue.clear()
        self._total = 0

    def __iter__(self) -> Iterator[Key]:
        """The keys; the cache must not change while they are read."""
        return chain(self._old, self._young)

    def values(self) -> Iterator[Value]:
        return chain(self._old.values(), self._young.values())

    def __contains__(self, key: Key) -> bool:
        """Does not count as a use."""
        return key in self._young or key in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    @property
    def size(self) -> int:
        """What counts against the limit: entries, or the sum of their costs."""
        return self._total if self._cost is not None else len(self)


_caches: weakref.WeakSet[BoundedCache[Any, Any]] = weakref.WeakSet()


class CacheTotals(NamedTuple):
    """Of all caches of one name."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0


def totals() -> dict[str, CacheTotals]:
    """By name, in alphabetical order."""
    found: dict[str, CacheTotals] = {}
    for cache in sorted(_caches, key=lambda each: each.name):
        before = found.get(cache.name, CacheTotals())
        found[cache.name] = CacheTotals(
            before.hits + cache.hits,
            before.misses + cache.misses,
            before.evictions + cache.evictions,
            before.entries + len(cache),
        )
    return found
