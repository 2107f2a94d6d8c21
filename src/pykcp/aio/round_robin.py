"""Queues by owner that are served in turn: one item of each, whatever the length of its queue.

Pure: no clock, no event loop. Adding, taking and removing an item take constant time, however
many owners and items there are: an `OrderedDict` finds its first entry at once, where a plain
dict walks over all that were deleted before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class RoundRobin(Generic[Owner, Item]):
    __slots__ = ("_count", "_queues")

    def __init__(self) -> None:
        self._queues: OrderedDict[Owner, OrderedDict[Item, None]] = OrderedDict()
        """The owner whose turn is next comes first; the items of each in the order they came."""
        self._count = 0

    def add(self, owner: Owner, item: Item) -> None:
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = OrderedDict()
        queue[item] = None
        self._count += 1

    def take(self) -> tuple[Owner, Item]:
        """The next item; its owner goes to the end of the line. Raises StopIteration if empty."""
        owner = next(iter(self._queues))
        queue = self._queues[owner]
        item, _ = queue.popitem(last=False)
        if queue:
            self._queues.move_to_end(owner)
        else:
            del self._queues[owner]
        self._count -= 1
        return owner, item

    def remove(self, owner: Owner, item: Item) -> bool:
        """False if it is not there (any more)."""
        queue = self._queues.get(owner)
        if queue is None or item not in queue:
            return False
        del queue[item]
        if not queue:
            del self._queues[owner]
        self._count -= 1
        return True

    def __len__(self) -> int:
        return self._count
