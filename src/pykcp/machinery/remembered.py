"""What was made of an object, remembered by the object's identity.

For objects that many share and nobody changes, such as those of a cache of decoded ones: a
lookup takes no longer for a large object than for a small one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from pykcp.types import Object

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    __slots__ = ("_keep", "_known", "_make")

    def __init__(self, make: Callable[[Object], Made], keep: int) -> None:
        """`keep`: of how many objects it is remembered, the most recently used ones."""
        self._make, self._keep = make, keep
        self._known: OrderedDict[int, tuple[Object, Made]] = OrderedDict()

    def __call__(self, obj: Object) -> Made:
        known = self._known.get(id(obj))
        if known is not None and known[0] is obj:
            self._known.move_to_end(id(obj))
            return known[1]
        made = self._make(obj)
        self._known[id(obj)] = (obj, made)
        if len(self._known) > self._keep:
            self._known.popitem(last=False)
        return made
