"""Controllers run in one of the servers that share a store: the leader.

They start when this server becomes the leader, find unfinished work in the log as after any
start, and are cancelled as soon as its lease is not certain any more. Their steps are idempotent,
so that a step which another server repeats does no harm.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.aio.owner import TaskOwner
from pykcp.controllers.runtime.manager import ControllerSet
from pykcp.storage.group import ServerGroup


class LedControllers:
    """`run` it: the controllers run while this server leads."""

    def __init__(self, group: ServerGroup, make: Callable[[], ControllerSet]) -> None:
        self._group, self._make = group, make
        self._made: ControllerSet | None = None

    async def run(self) -> None:
        while True:
            await self._group.leading(True)
            made = self._made = self._made or self._make()
            async with TaskOwner("leader") as owner:
                made.start(owner)
                try:
                    await self._group.leading(False)
                finally:
                    made.feed.stop()
