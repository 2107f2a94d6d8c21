"""Long work on the event loop, divided into slices between which other tasks run.

A loop that awaits something asks after each round whether its slice is over:

    slices = Slices(tenant)
    for item in items:
        …
        if slices.is_over():
            await slices.next()

Pure work is written as `Steps` and run by `await in_slices(steps, tenant)`.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

from pykcp.aio.turns import heavy_turn, turns_of
from pykcp.steps import Result, Steps

SLICE = 0.005
"""Seconds of work after which others have their turn."""
FREE = 0.001
"""Seconds of work that need no turn."""


class Slices:
    __slots__ = ("_end", "_tenant")

    def __init__(self, tenant: str = "") -> None:
        self._tenant = tenant
        # Many may begin in the same iteration of the loop, without waiting for each other.
        self._end = perf_counter() + FREE

    def is_over(self) -> bool:
        return perf_counter() > self._end

    async def next(self) -> None:
        """Let the loop do everything else that is ready; tenants take turns."""
        await asyncio.sleep(0)
        async with heavy_turn(self._tenant):
            self._end = perf_counter() + SLICE


async def in_slices(steps: Steps[Result], tenant: str = "") -> Result:
    """The result of all steps; tenants whose work takes long take turns."""
    turns = turns_of(asyncio.get_running_loop())
    try:
        if turns.free_left > 0:
            began = perf_counter()
            try:
                _advance(steps, min(FREE, turns.free_left))
            finally:
                turns.spend(perf_counter() - began)
        while True:
            async with heavy_turn(tenant):
                _advance(steps, SLICE)
    except StopIteration as end:  # of the steps: coroutines do not raise it
        result: Result = end.value
        return result
    finally:
        steps.close()


def _advance(steps: Steps[Result], seconds: float) -> None:
    """Some steps. Raises StopIteration when there are no more."""
    deadline = perf_counter() + seconds
    while perf_counter() < deadline:
        next(steps)
