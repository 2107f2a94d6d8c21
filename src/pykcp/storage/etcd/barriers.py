"""Waiting for everything that any server has acknowledged: one read of etcd for all who wait.

A request may not use a read that began before it came. So there are at most two groups: those for
whom a read is under way, and those who came since, for whom the next one is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pykcp.aio.owner import spawn_detached


class SharedBarrier:
    def __init__(self, catch_up: Callable[[], Awaitable[None]]) -> None:
        """`catch_up`: returns when everything acknowledged until its call can be read here."""
        self._catch_up = catch_up
        self._next: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.reads = 0

    async def wait(self) -> None:
        """Raises what `catch_up` raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = spawn_detached(self._run(), "etcd-barrier")
        await asyncio.shield(self._next)

    async def _run(self) -> None:
        try:
            while self._next is not None:
                waiting, self._next = self._next, None
                self.reads += 1
                try:
                    await self._catch_up()
                except Exception as error:
                    waiting.set_exception(error)
                    waiting.exception()  # all who waited may have given up
                else:
                    waiting.set_result(None)
        finally:
            self._task = None
