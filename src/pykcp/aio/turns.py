"""Turns for long steps on the event loop, so that they never run back to back.

    async with heavy_turn(tenant):
        …  # a step of some milliseconds that cannot leave the loop; nothing is awaited in it

At most one such step runs at a time. Between two of them the loop runs several iterations, so that
all other tasks that are ready continue: reads are answered, writes take their next step. If other
tenants have requests in progress, the pause is as long as the step was (up to a limit): a write
has several steps and would otherwise wait for a long one before each.
Tenants take turns, however many steps one of them has.

A step for which no other is waiting begins immediately.

Steps of less than a millisecond need no turn, as long as they do not add up: `free_left` says for
how long the loop may still be held in this iteration.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable
from types import TracebackType

from pykcp.aio.costs import payer
from pykcp.aio.round_robin import RoundRobin

_PASSES = 8
"""How often the loop goes round between two steps: the hops of a small write without waiting."""
_LONGEST_PAUSE = 0.05
_FREE_TOGETHER = 0.005
"""Seconds of steps without a turn, in one iteration of the loop."""

Contended = Callable[[], bool]


def heavy_turn(tenant: str = "") -> HeavyTurn:
    """A turn for one long step, on the running loop.

    Requests take turns by who pays for them; `tenant` is for work that is part of none.
    """
    return HeavyTurn(turns_of(asyncio.get_running_loop()), payer().tenant or tenant)


def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    """The turns of a loop, which all of its servers share."""
    turns = _of_loop.get(loop)
    if turns is None:
        turns = _of_loop[loop] = Turns()
    return turns


class Turns:
    def __init__(self) -> None:
        self._waiting: RoundRobin[str, asyncio.Future[None]] = RoundRobin()
        self._holder: asyncio.Task[object] | None = None
        self._is_closed = False
        """A step runs, or the loop has its time for the others."""
        self.contended: Contended = _never
        """Whether others have requests in progress that need time on the loop."""
        self.free_left = _FREE_TOGETHER
        """Seconds of this iteration that short steps may take without a turn."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def spend(self, seconds: float) -> None:
        """A step without a turn took so long."""
        if self.free_left == _FREE_TOGETHER:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        self.free_left -= seconds

    def _begin_iteration(self) -> None:
        self.free_left = _FREE_TOGETHER

    async def enter(self, tenant: str) -> bool:
        """Wait for a turn. False: this task has it already."""
        # The task is not kept in a variable: if it is cancelled here, its error holds this frame.
        if self._is_closed:
            if self._holder is not None and self._holder is asyncio.current_task():
                return False
            await self._wait(tenant)
        self._is_closed = True
        self._holder = asyncio.current_task()
        return True

    def leave(self, seconds: float) -> None:
        """The step is over and took so long."""
        self._holder = None
        loop = asyncio.get_running_loop()
        if self.contended():
            loop.call_later(min(seconds, _LONGEST_PAUSE), self._pass, 0)
        else:
            loop.call_soon(self._pass, _PASSES)

    async def _wait(self, tenant: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(tenant, future)
        try:
            await future
        except asyncio.CancelledError:
            self._waiting.remove(tenant, future)
            if not future.cancelled():
                self._open()  # its turn had come: the next one's
            raise

    def _pass(self, more: int) -> None:
        """Let the loop go round, then let the next one in."""
        if more:
            asyncio.get_running_loop().call_soon(self._pass, more - 1)
        else:
            self._open()

    def _open(self) -> None:
        while self._waiting:
            _, future = self._waiting.take()
            if not future.done():  # a cancelled one waits until its task runs again
                future.set_result(None)
                return
        self._is_closed = False


class HeavyTurn:
    """One step; see `heavy_turn`."""

    __slots__ = ("_began", "_tenant", "_turns")

    def __init__(self, turns: Turns, tenant: str) -> None:
        self._turns, self._tenant = turns, tenant
        self._began = 0.0

    async def __aenter__(self) -> None:
        if await self._turns.enter(self._tenant):
            self._began = time.perf_counter()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._began:  # otherwise it is part of a step that goes on
            self._turns.leave(time.perf_counter() - self._began)


def _never() -> bool:
    return False


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = weakref.WeakKeyDictionary()
