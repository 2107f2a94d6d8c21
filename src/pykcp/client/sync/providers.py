"""The runtime for API providers, with a reconcile function without `await`.

provider = SyncProvider(kcp.workspace("root:provider"), "widgets", "widgets.example.org")

@provider.reconciler
def reconcile(item: SyncReconciliation) -> None:
    if item.object is not None:
        item.objects.patch(item.place.name, {"status": {...}}, subresource="status")

provider.run()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pykcp.client.informers import Place
from pykcp.client.portal import Portal
from pykcp.client.providers import Provider, Reconciliation
from pykcp.client.sync.objects import SyncObjects
from pykcp.client.sync.workspaces import SyncWorkspace
from pykcp.types import Object


class SyncReconciliation:
    """One call of a reconcile function; see `pykcp.client.Reconciliation`."""

    def __init__(self, portal: Portal, item: Reconciliation) -> None:
        self._portal, self._item = portal, item

    @property
    def place(self) -> Place:
        return self._item.place

    @property
    def object(self) -> Object | None:
        return self._item.object

    @property
    def workspace(self) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self._item.workspace)

    @property
    def kind(self) -> str:
        return self._item.kind

    @property
    def objects(self) -> SyncObjects:
        return SyncObjects(self._portal, self._item.objects)


SyncReconcile = Callable[[SyncReconciliation], None]


class SyncProvider:
    """Reconciles the objects of all consumers; see `pykcp.client.Provider`.

    The reconcile function runs in as many threads as objects are reconciled at once.
    """

    def __init__(
        self,
        workspace: SyncWorkspace,
        export: str,
        kind: str,
        *,
        labels: str = "",
        concurrency: int = 10,
    ) -> None:
        self._portal, self._concurrency = workspace.portal, concurrency
        self._provider = Provider(
            workspace.workspace, export, kind, labels=labels, concurrency=concurrency
        )
        self._reconcile: SyncReconcile | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def reconciler(self, function: SyncReconcile) -> SyncReconcile:
        """Register the reconcile function; usable as a decorator."""
        self._reconcile = function
        return function

    def run(self) -> None:
        """Until `stop` is called, or the program is interrupted."""
        function = self._reconcile
        if function is None:
            raise ValueError("register a reconcile function first: @provider.reconciler")
        with ThreadPoolExecutor(self._concurrency, "reconcile") as threads:

            async def reconcile(item: Reconciliation) -> None:
                loop = asyncio.get_running_loop()
                call = SyncReconciliation(self._portal, item)
                await loop.run_in_executor(threads, function, call)

            self._provider.reconciler(reconcile)
            self._portal.run(self._run())

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        try:
            if not self._is_stopped:
                await self._provider.run()
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise

    def stop(self) -> None:
        """Let `run` return when the calls under way have ended. For another thread."""
        self._portal.call(self._stop)

    def _stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
