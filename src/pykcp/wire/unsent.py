"""Accounting and limit of unsent data of all clients of a process.

Answers wait on their streams (and a little of them in sockets' buffers) until the client takes
them. All of it together has one limit: above half of it, long answers wait before they go on
(`room`); above all of it, the clients for whom most is waiting lose their answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_PIECE = 2 * 1024 * 1024
"""Approximate number of bytes that a waiting response needs."""


class Unsent:
    __slots__ = (
        "_is_shedding",
        "_loop",
        "_press",
        "_shed",
        "_waiters",
        "limit",
        "shed_count",
        "total",
    )

    def __init__(
        self,
        limit: int,
        loop: asyncio.AbstractEventLoop | None = None,
        shed: Callable[[int], None] | None = None,
        press: Callable[[], None] | None = None,
    ) -> None:
        """`shed`: called to abort responses with so many bytes, when that is safe.

        `press`: called when a response waits, to find clients that do not read at all.
        """
        self.limit = limit
        self.total = 0
        """Octets that wait now."""
        self.shed_count = 0
        """Number of responses aborted for lack of buffer space."""
        self._loop = loop
        self._shed = shed
        self._press = press
        self._is_shedding = False
        self._waiters: deque[asyncio.Future[None]] = deque()

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
    def is_waited_for(self) -> bool:
        return bool(self._waiters)

    @property
    def has_room(self) -> bool:
        return self.total <= self.limit // 2

    async def reserve(self, size: int) -> None:
        """Wait until a long answer may go on, and take room for the next piece of it.

        It is given back with `add`.
        """
        while not self.has_room:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            if self._press is not None:
                self._press()
            await waiter
        self.add(size)

    def _wake(self) -> None:
        room = self.limit // 2 - self.total
        while self._waiters and room >= 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= _PIECE

    def _make_room(self) -> None:
        self._is_shedding = False
        if self.total > self.limit and self._shed is not None:
            self._shed(self.total - self.limit * 3 // 4)
