"""A cache of values derived from objects, keyed by the identity of the object.

For shared immutable objects, such as those in a cache of decoded ones: a lookup takes the same
time for large and small objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from pykcp.caching import BoundedCache
from pykcp.types import Object

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[Object], Made], keep: int) -> None:
        """`keep`: of how many objects it is remembered, the most recently used ones."""
        self._make = make
        self._known: BoundedCache[int, tuple[Object, Made]] = BoundedCache("", keep)

    def __call__(self, obj: Object) -> Made:
        known = self._known.get(id(obj))
        if known is not None and known[0] is obj:
            return known[1]
        return self._known.put(id(obj), (obj, self._make(obj)))[1]
