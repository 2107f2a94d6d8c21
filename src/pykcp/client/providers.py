"""A small runtime for API providers: one reconcile function for the objects of all consumers.

provider = Provider(kcp.workspace("root:provider"), "widgets", "widgets.example.org")

@provider.reconciler
async def reconcile(item: Reconciliation) -> None:
    if item.object is not None:
        await item.objects.patch(item.place.name, {"status": {...}}, subresource="status")

await provider.run()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pykcp.aio.owner import spawn
from pykcp.client.informers import ExportInformers, Place, place_of
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.workspaces import Workspace
from pykcp.machinery.status import Conflict
from pykcp.types import Object

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 300.0


class RetryLater(Exception):
    """Raise it in a reconcile function to be called again for the same object."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One call of a reconcile function."""

    place: Place
    object: Object | None
    """None if it was deleted."""
    workspace: Workspace
    """The consumer's workspace, seen through the export: exported and claimed kinds."""
    kind: str

    @property
    def objects(self) -> Objects:
        """The objects of the kind in the consumer's workspace, in the object's namespace."""
        return self.workspace.objects(self.kind, self.place.namespace)


Reconcile = Callable[[Reconciliation], Awaitable[None]]


class Provider:
    """Follows the consumers of an export and reconciles their objects, each by one call at a time.

    A failed call is repeated after a pause that grows from 0.1 seconds to five minutes.
    """

    def __init__(
        self,
        workspace: Workspace,
        export: str,
        kind: str,
        *,
        labels: str = "",
        concurrency: int = 10,
    ) -> None:
        self._workspace, self._kind = workspace, kind
        self._informers = ExportInformers(workspace, export, kind, labels=labels)
        self._reconcile: Reconcile | None = None
        self._concurrency = concurrency
        self._queue: asyncio.Queue[Place] = asyncio.Queue()
        self._waiting: set[Place] = set()
        self._running: set[Place] = set()
        self._again: set[Place] = set()
        """What changed while it was reconciled."""
        self._failures: dict[Place, int] = {}
        self._seen: dict[Place, Workspace] = {}

    def reconciler(self, function: Reconcile) -> Reconcile:
        """Register the reconcile function; usable as a decorator."""
        self._reconcile = function
        return function

    async def run(self) -> None:
        """Until cancelled. Raises what the first reading of the endpoint slice raises."""
        if self._reconcile is None:
            raise ValueError("register a reconcile function first: @provider.reconciler")
        self._informers.on(self._heard)
        workers = [
            spawn(self._work(), name=f"reconcile {self._kind}") for _ in range(self._concurrency)
        ]
        try:
            await self._informers.run()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _heard(self, event: ObjectEvent) -> None:
        self._add(place_of(event.object))

    def _add(self, place: Place) -> None:
        if place in self._running:
            self._again.add(place)
        elif place not in self._waiting:
            self._waiting.add(place)
            self._queue.put_nowait(place)

    async def _work(self) -> None:
        while True:
            place = await self._queue.get()
            self._waiting.discard(place)
            self._running.add(place)
            try:
                await self._call(place)
            finally:
                self._running.discard(place)
                if place in self._again:
                    self._again.discard(place)
                    self._add(place)

    async def _call(self, place: Place) -> None:
        assert self._reconcile is not None
        workspace = self._informers.consumer(place.cluster) or self._seen.get(place)
        if workspace is None:
            return  # its endpoint is gone
        obj = self._informers.get(place)
        self._seen[place] = workspace
        try:
            await self._reconcile(Reconciliation(place, obj, workspace, self._kind))
        except RetryLater as later:
            self._later(place, later.seconds)
        except Exception as error:  # whatever it is: it is logged, and the object tried again
            self._failed(place, error)
        else:
            self._failures.pop(place, None)
            if obj is None:
                self._seen.pop(place, None)

    def _failed(self, place: Place, error: Exception) -> None:
        count = self._failures.get(place, 0)
        self._failures[place] = count + 1
        pause = min(_FIRST_PAUSE * 2**count, _LAST_PAUSE)
        if isinstance(error, Conflict):
            _log.debug("%s of %s changed meanwhile", self._kind, place)
        else:
            _log.warning(
                "%s of %s failed, next try in %.1f s", self._kind, place, pause, exc_info=error
            )
        self._later(place, pause)

    def _later(self, place: Place, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._add, place)
