"""Following the resources that ClusterCachedResources ask for, as these come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pykcp.aio.owner import TaskOwner
from pykcp.cache.synthesized import RequestedResource, requested_resources
from pykcp.registry.stored import StoreReader

Run = Callable[[], Coroutine[Any, Any, None]]


class RequestedFollowers:
    """One restartable task for each resource that is asked for in the cache.

    `follow` returns what the task runs. `forget` is called when a resource is asked for no longer,
    with all that still are.
    """

    def __init__(
        self,
        name: str,
        store: StoreReader,
        follow: Callable[[RequestedResource], Run],
        forget: Callable[[RequestedResource, set[RequestedResource]], Awaitable[None]]
        | None = None,
    ) -> None:
        self._name, self._store = name, store
        self._follow, self._forget = follow, forget
        self._owners: dict[RequestedResource, TaskOwner] = {}
        self.changed = asyncio.Event()
        """Set it when ClusterCachedResources have changed."""

    async def run(self) -> None:
        try:
            while True:
                await self.changed.wait()
                self.changed.clear()
                await self._update(set(requested_resources(self._store)))
        finally:
            for owner in self._owners.values():
                await owner.stop()
            self._owners.clear()

    async def _update(self, wanted: set[RequestedResource]) -> None:
        for one in set(self._owners).difference(wanted):
            await self._owners.pop(one).stop()
            if self._forget is not None:
                await self._forget(one, wanted)
        for one in wanted.difference(self._owners):
            owner = self._owners[one] = TaskOwner(self._name)
            owner.start_restartable("follow", self._follow(one))
