"""What waits to be sent to all clients of a process, and what happens when it is too much.

Answers wait on their streams (and a little of them in sockets' buffers) until the client takes
them. All of it together has one limit: above half of it, long answers wait before they go on
(`room`); above all of it, the clients for whom most is waiting lose their answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Unsent:
    __slots__ = ("_is_shedding", "_loop", "_shed", "_waiters", "limit", "shed_count", "total")

    def __init__(
        self,
        limit: int,
        loop: asyncio.AbstractEventLoop | None = None,
        shed: Callable[[int], None] | None = None,
    ) -> None:
        """`shed`: give up so many octets, from a place where that is safe."""
        self.limit = limit
        self.total = 0
        """Octets that wait now."""
        self.shed_count = 0
        """How often somebody lost an answer for want of room."""
        self._loop = loop
        self._shed = shed
        self._is_shedding = False
        self._waiters: list[asyncio.Future[None]] = []

    def add(self, size: int) -> None:
        """So many octets more wait, or fewer."""
        self.total += size
        if self.total > self.limit:
            if not self._is_shedding and self._loop is not None:
                self._is_shedding = True
                self._loop.call_soon(self._make_room)
        elif self._waiters and size < 0 and self.has_room:
            self._wake()

    @property
    def has_room(self) -> bool:
        return self.total <= self.limit // 2

    async def room(self) -> None:
        """Wait until a long answer may go on."""
        while not self.has_room:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _make_room(self) -> None:
        self._is_shedding = False
        if self.total > self.limit and self._shed is not None:
            self._shed(self.total - self.limit * 3 // 4)
