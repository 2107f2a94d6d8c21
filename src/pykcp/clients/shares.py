"""Seats shared by tenants, none of whom can occupy all of them.

A request gets a seat if each of its keys (logical cluster, user, destination) has fewer seats
than are free. So one greedy tenant gets half of them, k greedy tenants get 1/(k+1) each, and as
many stay free for the next tenant: no tenant has to wait for another's unresponsive server.
Waiting requests get seats in turn by tenant.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence


class TooManyWaiting(Exception):
    """The queue is full."""


class _Waiter:
    __slots__ = ("keys", "seated")

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self.seated: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Shares:
    def __init__(self, seats: int, waiting: int = 2048) -> None:
        """`waiting`: how many may wait, at most half of them for the same tenant."""
        self._free = seats
        self._most = waiting
        self._held: dict[str, int] = {}
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        self.taken = self.waiting = 0

    async def take(self, keys: Sequence[str]) -> None:
        """Wait for a seat. The first key is the tenant's. Raises TooManyWaiting."""
        if not self._queues.get(keys[0]) and self._fits(keys):
            self._seat(keys)
            return
        queue = self._queues.get(keys[0])
        if self.waiting >= self._most or (queue and len(queue) >= self._most // 2):
            raise TooManyWaiting
        waiter = _Waiter(keys)
        if queue is None:
            queue = self._queues[keys[0]] = deque()
        queue.append(waiter)
        self.waiting += 1
        self._seat_waiting()  # those before it may wait for something else than it does
        try:
            await waiter.seated
        except asyncio.CancelledError:
            if waiter.seated.cancelled():
                self._remove(waiter)
            else:  # it was seated in the same moment
                self.release(keys)
            raise

    def release(self, keys: Sequence[str]) -> None:
        self._free += 1
        self.taken -= 1
        for key in keys:
            left = self._held[key] - 1
            if left:
                self._held[key] = left
            else:
                del self._held[key]
        self._seat_waiting()

    def _fits(self, keys: Sequence[str]) -> bool:
        held = self._held
        return self._free > 0 and all(held.get(key, 0) < self._free for key in keys)

    def _seat(self, keys: Sequence[str]) -> None:
        self._free -= 1
        self.taken += 1
        for key in keys:
            self._held[key] = self._held.get(key, 0) + 1

    def _remove(self, waiter: _Waiter) -> None:
        tenant = waiter.keys[0]
        queue = self._queues[tenant]
        queue.remove(waiter)
        self.waiting -= 1
        if not queue:
            del self._queues[tenant]

    def _seat_waiting(self) -> None:
        """Assign seats to one request of each tenant in turn, while there are any."""
        is_moving = True
        while is_moving and self._free:
            is_moving = False
            for tenant in list(self._queues):
                if self._held.get(tenant, 0) >= self._free:
                    continue
                waiting = (w for w in self._queues[tenant] if not w.seated.done())
                waiter = next((w for w in waiting if self._fits(w.keys)), None)
                if waiter is None:
                    continue
                self._remove(waiter)
                if tenant in self._queues:
                    self._queues.move_to_end(tenant)
                self._seat(waiter.keys)
                waiter.seated.set_result(None)
                is_moving = True
