"""A bounded memory for answers that can be computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class Bounded(Generic[Key, Answer]):
    """Keeps the recently used half, roughly, at the price of a plain dict.

    Two generations: a hit is one lookup in the young one; what is found in the old one is
    taken over; a full young one becomes the old one, and the old one is forgotten.
    """

    __slots__ = ("_half", "_old", "_weights", "_young_weight", "young")

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self.young: dict[Key, Answer] = {}
        self._old: dict[Key, Answer] = {}
        self._young_weight = 0
        self._weights: dict[Key, int] = {}
        """Of those answers that count for more than one."""

    def get(self, key: Key) -> Answer | None:
        found = self.young.get(key)
        if found is not None:
            return found
        found = self._old.pop(key, None)
        if found is not None:
            self.put(key, found, self._weights.get(key, 1))
        return found

    def put(self, key: Key, answer: Answer, weight: int = 1) -> None:
        """`weight`: for how many answers of the usual size it counts."""
        if self._young_weight >= self._half:
            for forgotten in self._old.keys() - self.young.keys() if self._weights else ():
                self._weights.pop(forgotten, None)
            self._old = self.young
            self.young = {}
            self._young_weight = 0
        self.young[key] = answer
        self._young_weight += weight
        if weight > 1:
            self._weights[key] = weight

    def drop(self, key: Key) -> None:
        self.young.pop(key, None)
        self._old.pop(key, None)
        self._weights.pop(key, None)

    def values(self) -> Iterator[Answer]:
        yield from self.young.values()
        yield from self._old.values()

    def clear(self) -> None:
        self.young.clear()
        self._old.clear()
        self._weights.clear()
        self._young_weight = 0

    def __len__(self) -> int:
        return len(self.young) + len(self._old)
