"""Other workspaces that a Cluster serves, for a syncer that reaches its control plane over HTTP.

The view of the syncer (`syncer_path`) tells which workspaces bind an API of the Cluster's own one, and
shows the objects of each that are assigned to the Cluster. Each workspace is followed by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

import orjson

from pykcp.aio.owner import TaskOwner
from pykcp.clients.interface import Change
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.informer import ObjectHolder
from pykcp.clients.remote.paths import collection_path, object_path
from pykcp.machinery.meta import CLUSTER_ANNOTATION
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound, StatusError
from pykcp.multicluster.names import CONSUMERS
from pykcp.multicluster.syncer.servers import SyncServer, WatchedInformer
from pykcp.types import Object

_log = logging.getLogger(__name__)
INTERVAL, _SOON = 5.0, 0.1
"""Seconds between looks for workspaces that are new, and for objects that are being read."""


class ViewClient(RemoteClient):
    """Uses the workspace of its Cluster as its kubeconfig says, and others by the syncer's view."""

    home: tuple[str, ...] = ()
    view = ""

    def open_view(self, view: str, *home: str) -> None:
        """`view`: the path of the syncer's view; `home`: what the workspace of the Cluster is
        called, its path and the name of its logical cluster.
        """
        self.home, self.view = home, view

    def _is_other(self, cluster: str) -> bool:
        return bool(self.view) and cluster not in self.home

    def collection(self, cluster: str, kind: GroupVersionResource, namespace: str = "") -> str:
        if self._is_other(cluster):
            return f"{self.view}{collection_path(cluster, kind, namespace)}"
        return super().collection(cluster, kind, namespace)

    def object(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        subresource: str = "",
    ) -> str:
        if self._is_other(cluster):
            return f"{self.view}{object_path(cluster, kind, name, namespace, subresource)}"
        return super().object(cluster, kind, name, namespace, subresource)


class ViewUpstream(SyncServer):
    """The control plane of a syncer that is a program; see `Upstream`."""

    def __init__(self, client: ViewClient, interval: float = INTERVAL) -> None:
        super().__init__(client)
        self.client: ViewClient = client
        self._interval = interval
        self.served: frozenset[str] | None = None
        """The workspaces beside that of the Cluster; None if they are not shown."""
        self.is_answered = False
        """Whether the control plane said which ones there are, or that it does not show them."""
        self._looked = asyncio.Condition()

    async def keep_consumers(self) -> None:
        """Ask again and again which workspaces there are, until cancelled."""
        while True:
            try:
                answer = await self.client.send("GET", f"{self.client.view}{CONSUMERS}")
            except (NotFound, Forbidden) as error:  # the account sees one workspace only
                _log.debug("other workspaces are not shown: %s", error)
                self.served, self.is_answered = None, True
            except StatusError as error:
                _log.debug("other workspaces are not known: %s", error)
            else:
                self.is_answered = True
                found = answer.get("workspaces") or ()
                self.served = frozenset(one for one in found if isinstance(one, str))
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(self._interval)

    async def look(self) -> None:
        """Wait for the next answer."""
        async with self._looked:
            await self._looked.wait()

    def consumers(self, workspace: str) -> Iterable[str]:
        return self.served or ()

    def follow_consumers(
        self, kind: GroupVersionResource, workspace: str, labels: str, held: ObjectHolder
    ) -> ConsumerInformers:
        return ConsumerInformers(self, kind, labels, held)

    def hosts(self, workspace: str) -> bool:
        """An answer about an object of another workspace comes from the shard that has it."""
        return True


class ConsumerInformers:
    """Follows the objects of one type in all workspaces that are served.

    One that is served no longer is followed until nothing of it is assigned.
    """

    def __init__(
        self, upstream: ViewUpstream, kind: GroupVersionResource, labels: str, held: ObjectHolder
    ) -> None:
        self.is_synced = asyncio.Event()
        self._upstream, self._kind, self._labels, self._held = upstream, kind, labels, held
        self._informers: dict[str, _ConsumerInformer] = {}
        self._leaves: dict[str, WorkspaceLeaves] = {}
        """By workspace; they outlive a failure, so that no deletion is missed."""

    async def run(self) -> None:
        """Until cancelled."""
        async with TaskOwner("syncer-consumers") as owner:
            self._informers.clear()
            while True:
                served = self._upstream.served
                if served is not None:
                    await self._adjust(owner, served)
                known = all(one.is_known for one in self._informers.values())
                if self._upstream.is_answered and known:
                    self.is_synced.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if self.is_synced.is_set() else _SOON):
                        await self._upstream.look()

    async def _adjust(self, owner: TaskOwner, served: frozenset[str]) -> None:
        for workspace in sorted(served - self._informers.keys()):
            leaves = self._leaves.setdefault(workspace, WorkspaceLeaves(self._held))
            one = _ConsumerInformer(self._upstream, self._kind, leaves, workspace, self._labels)
            self._informers[workspace] = one
            self.is_synced.clear()
            owner.start_restartable(workspace, one.run)
        for workspace in self._informers.keys() - served:
            if not self._leaves[workspace]:
                del self._informers[workspace], self._leaves[workspace]
                await owner.stop_one(workspace)


class _ConsumerInformer(WatchedInformer):
    def __init__(
        self,
        upstream: ViewUpstream,
        kind: GroupVersionResource,
        leaves: WorkspaceLeaves,
        workspace: str,
        labels: str,
    ) -> None:
        super().__init__(
            upstream, kind, leaves, workspace, labels=labels, relist_seconds=60.0, events=None
        )
        self._is_missing = False

    @property
    def is_known(self) -> bool:
        """Whether all objects were told, or the workspace does not have the type."""
        return self.is_synced.is_set() or self._is_missing

    def connected(self) -> None:
        super().connected()
        self._is_missing = False

    def report(self, error: Exception) -> None:
        super().report(error)
        self._is_missing = isinstance(error, NotFound)


class WorkspaceLeaves:
    """The objects of one workspace among all that are held: only these are replaced by a list."""

    def __init__(self, held: ObjectHolder) -> None:
        self._held = held
        self._values: dict[tuple[str, str], bytes] = {}
        """By namespace and name: what tells the holder that an object is gone."""
        self._unseen: set[tuple[str, str]] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def put(self, value: bytes) -> Change | None:
        key, mark = _identity(value)
        if self._unseen is not None:
            self._unseen.discard(key)
        self._values[key] = mark
        return self._held.put(value)

    def remove(self, value: bytes) -> Change | None:
        self._values.pop(_identity(value)[0], None)
        return self._held.remove(value)

    def begin_replacing(self) -> None:
        self._unseen = set(self._values)

    def end_replacing(self) -> Iterable[Change]:
        for key in self._unseen or ():
            self._held.remove(self._values.pop(key))
        self._unseen = None
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""


def _identity(value: bytes) -> tuple[tuple[str, str], bytes]:
    metadata: Object = orjson.loads(value)["metadata"]
    place = {CLUSTER_ANNOTATION: (metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION)}
    kept: Object = {"name": metadata["name"], "annotations": place}
    if metadata.get("namespace"):
        kept["namespace"] = metadata["namespace"]
    return (metadata.get("namespace") or "", metadata["name"]), orjson.dumps({"metadata": kept})
