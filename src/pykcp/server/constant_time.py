"""Refusals that come at an even time, so that time does not tell what the words do not.

Whether a workspace exists that one may not enter, and whether somebody asked for it before,
decides how much there is to look up, and so how long a refusal takes: some tenths of a
millisecond, which a patient stranger can measure. A refusal therefore waits for a moment that
depends on nothing but the arrival of its request.
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

EVENLY = 0.005
"""Seconds after which a refusal is sent; or twice as many, and so on, if it took longer."""
_CLOCK_MONOTONIC, _ABSOLUTE = 1, 1


def due(arrived: float, now: float) -> float:
    """When the refusal of a request goes out that came then."""
    return arrived + EVENLY * max(1, ceil((now - arrived) / EVENLY))


async def wait(arrived: float) -> None:
    """Until a refusal may go out; `arrived` by `time.perf_counter`.

    All servers on an event loop share one timer: views come and go, and would leave theirs.
    """
    loop = asyncio.get_running_loop()
    patience = _of_loop.get(loop)
    if patience is None:
        patience = _of_loop[loop] = ConstantTime()
    await patience.wait(arrived)


class ConstantTime:
    """Waits to the microsecond. The loop's own timers know whole milliseconds only: what is left
    of one would still show how long the work took."""

    def __init__(self) -> None:
        self._timer = -1
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    async def wait(self, arrived: float) -> None:
        """Until a refusal may go out; `arrived` by `time.perf_counter`."""
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
        """Whether there is such a timer here: only Linux has them, and not without end."""
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
