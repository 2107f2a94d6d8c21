"""Pauses between slices of long work: one of the waiting tasks continues at a time.

    for step in steps:
        …  # a millisecond or two
        await rest()

With `asyncio.sleep(0)` every such task would run a slice in each iteration of the loop, and a new
request would wait for all of them. `ShortSlices` says when a slice is over, for steps of any size.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from time import perf_counter

SLICE_SECONDS = 0.002


async def rest() -> None:
    """Yield to all other work on the loop, then to tasks whose slices were due earlier."""
    loop = asyncio.get_running_loop()
    queue = _of_loop.get(loop)
    if queue is None:
        queue = _of_loop[loop] = _Resting(loop)
    await queue.rest()


class ShortSlices:
    """Slices of two milliseconds, and a rest after each.

    slices = ShortSlices()
    for step in steps:
        …
        if slices.is_over():
            await slices.rest()
    """

    __slots__ = ("_deadline",)

    def __init__(self) -> None:
        self._deadline = perf_counter() + SLICE_SECONDS

    def is_over(self) -> bool:
        return perf_counter() > self._deadline

    async def rest(self) -> None:
        await rest()
        self._deadline = perf_counter() + SLICE_SECONDS


class _Resting:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop is the key under which this is kept, and must not be kept alive by it.
        self._loop = weakref.proxy(loop)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False

    async def rest(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._next)
        await waiter

    def _next(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        if self._waiting:
            # Twice: one turn for its slice and for who is ready, another for who became so.
            self._loop.call_soon(self._loop.call_soon, self._next)
        else:
            self._is_due = False


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Resting] = (
    weakref.WeakKeyDictionary()
)
