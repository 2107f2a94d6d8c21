"""Clusters of other shards that serve workspaces of this one.

For each of them a syncer runs here that follows those workspaces only, and reaches the cluster
through the shard of its registration. That shard probes the cluster, imports its types and reports
its state.
"""

from __future__ import annotations

import asyncio
import logging

from pykcp.aio.owner import TaskOwner, spawn
from pykcp.clients.interface import Change, Feed
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.multicluster.clusters.sessions import fingerprint
from pykcp.multicluster.clusters.settings import PUSH
from pykcp.multicluster.elsewhere import ClustersElsewhere, key_of, provider_of
from pykcp.multicluster.names import home_shard
from pykcp.multicluster.syncer.engine import Syncer
from pykcp.multicluster.syncer.metrics import SyncMetrics
from pykcp.multicluster.syncer.servers import Follower, LeafHolder, SyncServer, Upstream
from pykcp.multicluster.syncer.settings import Registration, SyncSettings
from pykcp.multicluster.syncer.types import synced_types
from pykcp.types import Object

_log = logging.getLogger(__name__)
NAME = "kcp-consumed-clusters"
_AGAIN_SECONDS = 5.0
"""After which a Cluster of a shard that is not known is looked at again."""


class _Session:
    def __init__(self, client: ClusterClient, syncer: Syncer) -> None:
        self.client, self.syncer = client, syncer
        self.task = spawn(self._run(), "multicluster/consumed")

    async def _run(self) -> None:
        async with TaskOwner("consumed-cluster") as owner:
            owner.start_restartable("syncer", self.syncer.run)
            await asyncio.Event().wait()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.client.close()


class ConsumedClusters:
    def __init__(
        self,
        elsewhere: ClustersElsewhere,
        upstream: Upstream,
        default_mode: str,
        sync_metrics: SyncMetrics,
        metrics: ControllerMetrics | None = None,
        settings: SyncSettings | None = None,
    ) -> None:
        """`upstream`: this shard; `default_mode`: of Clusters that name none."""
        self._elsewhere, self._upstream = elsewhere, _ConsumersAlone(upstream)
        self._default_mode, self._sync_metrics = default_mode, sync_metrics
        self._settings = settings or SyncSettings()
        self._sessions: dict[ObjectKey, tuple[str, _Session]] = {}
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=4, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(API_BINDINGS, self._on_binding)
        self._elsewhere.follow(self.controller.add)

    def add_all(self) -> None:
        for cluster in self._elsewhere.all():
            self.controller.add(key_of(cluster))

    def _on_binding(self, change: Change) -> None:
        """A workspace may be the first one of this shard that some Clusters serve."""
        provider = provider_of(change.value)
        for cluster in self._elsewhere.all(provider) if provider else ():
            key = key_of(cluster)
            if key not in self._sessions:
                self.controller.add(key)

    async def stop(self) -> None:
        for key in list(self._sessions):
            await self._end(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster = self._elsewhere.get(key)
        if cluster is None or not self._is_pushed(cluster):
            await self._end(key)
            return None
        wanted = fingerprint(meta.uid(cluster), home_shard(cluster))
        known = self._sessions.get(key)
        if known is not None and known[0] != wanted:
            await self._end(key)
            known = None
        resources = report.accepted((cluster.get("status") or {}).get("syncedResources") or [])
        if known is not None:
            # A workspace that binds nothing any more may still have copies: the syncer stays.
            known[1].syncer.set_resources(resources)
            return None
        if not any(self._upstream.consumers(key.cluster)):
            return None
        try:
            client = self._elsewhere.open(cluster)
        except StatusError as error:
            _log.debug("cluster %s: %s", key, error)
            return _AGAIN_SECONDS
        syncer = Syncer(
            Registration.of(cluster),
            self._upstream,
            SyncServer(client),
            resources,
            self._settings,
            self._sync_metrics,
            retired=synced_types(cluster, is_accepted=False),
        )
        self._sessions[key] = (wanted, _Session(client, syncer))
        return None

    def _is_pushed(self, cluster: Object) -> bool:
        return ((cluster.get("spec") or {}).get("mode") or self._default_mode) == PUSH

    async def _end(self, key: ObjectKey) -> None:
        known = self._sessions.pop(key, None)
        if known is not None:
            await known[1].stop()


class _ConsumersAlone:
    """An upstream without the workspace of the Cluster, which another shard has."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.client = upstream.client
        self.consumers, self.hosts = upstream.consumers, upstream.hosts
        self.follow_consumers = upstream.follow_consumers

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: LeafHolder
    ) -> Follower:
        return _NothingFollowed()


class _NothingFollowed:
    def __init__(self) -> None:
        self.is_synced = asyncio.Event()
        self.is_synced.set()

    async def run(self) -> None:
        await asyncio.Event().wait()
