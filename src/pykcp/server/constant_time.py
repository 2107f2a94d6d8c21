"""Constant-time denial: the time of an answer must not disclose what its text does not.

How much there is to look up depends on whether a workspace exists, and on whether it was
requested before; so does the time until a request for it is denied. The difference is some
tenths of a millisecond, which an attacker can measure. Every denial is therefore sent at a
moment that depends only on when its request arrived.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import os
import sys
import time
import weakref
from math import ceil

INTERVAL = 0.005
"""Seconds after which a denial is sent; a multiple of it if that takes longer."""
_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1


def due(arrived: float, now: float) -> float:
    """When the denial of a request that arrived at this time is sent."""
    return arrived + INTERVAL * max(1, ceil((now - arrived) / INTERVAL))


async def wait(arrived: float) -> None:
    """Until a denial may be sent; `arrived` by `time.perf_counter`.

    All servers on an event loop share one timer: servers of views come and go, and each would
    leave an open file behind.
    """
    loop = asyncio.get_running_loop()
    timer = _of_loop.get(loop)
    if timer is None:
        timer = _of_loop[loop] = ConstantTime()
    await timer.wait(arrived)


class ConstantTime:
    """Waits to the microsecond. The timers of the event loop are exact to a millisecond only: the
    remainder would still disclose how long the work took."""

    def __init__(self) -> None:
        self._timer = -1
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    async def wait(self, arrived: float) -> None:
        """Until a denial may be sent; `arrived` by `time.perf_counter`."""
        now = time.perf_counter()
        until = due(arrived, now)
        loop = asyncio.get_running_loop()
        if self._timer < 0 and not self._start(loop):
            await asyncio.sleep(until - now)  # nearly as good
            return
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (until, next(self._numbers), future))
        if self._waiting[0][2] is future:
            self._arm()
        await future

    def _start(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether there is such a timer: only Linux has them, and a limited number of them."""
        if sys.platform != "linux":
            return False
        self._timer = _libc().timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            return False
        loop.add_reader(self._timer, self._release)
        return True

    def _release(self) -> None:
        os.read(self._timer, 8)
        now = time.perf_counter()
        while self._waiting and self._waiting[0][0] <= now:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():  # its client may have gone
                future.set_result(None)
        if self._waiting:
            self._arm()

    def _arm(self) -> None:
        """For the first that waits. `perf_counter` is the clock that the timer goes by."""
        seconds, rest = divmod(int(self._waiting[0][0] * 1e9), 1_000_000_000)
        when = (ctypes.c_long * 4)(0, 0, seconds, rest)
        _libc().timerfd_settime(self._timer, _ABSOLUTE, when, None)

    def __del__(self) -> None:
        self.close()  # its loop is gone

    def close(self) -> None:
        if self._timer >= 0:
            os.close(self._timer)
            self._timer = -1


def _libc() -> ctypes.CDLL:
    global _loaded  # noqa: PLW0603  # once for the process
    if _loaded is None:
        _loaded = ctypes.CDLL(None)
    return _loaded


_loaded: ctypes.CDLL | None = None
_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ConstantTime] = (
    weakref.WeakKeyDictionary()
)
