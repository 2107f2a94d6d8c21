"""Long work on the event loop, cut into slices.

slices = Slices()
for item in items:
    …
    if slices.is_over():
        await slices.next()
"""

from __future__ import annotations

import asyncio
import time

SLICE = 0.005
"""Seconds of work after which others have their turn."""


class Slices:
    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def is_over(self) -> bool:
        return time.perf_counter() - self._began > SLICE

    async def next(self) -> None:
        """Let the loop do everything else that is ready."""
        await asyncio.sleep(0)
        self._began = time.perf_counter()
