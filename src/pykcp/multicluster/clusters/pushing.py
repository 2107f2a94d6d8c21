"""The syncer of a Cluster of the mode Push: the engine, and its reports."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable

from pykcp.aio.owner import spawn
from pykcp.clients.interface import Client
from pykcp.machinery.status import StatusError
from pykcp.multicluster.clusters.session import ClusterSession, RegisteredCluster
from pykcp.multicluster.names import CLUSTERS
from pykcp.multicluster.syncer.engine import Syncer
from pykcp.multicluster.syncer.heartbeat import SyncerHeartbeat
from pykcp.multicluster.syncer.metrics import SyncMetrics
from pykcp.multicluster.syncer.servers import SyncServer, Upstream
from pykcp.multicluster.syncer.settings import Registration, SyncSettings

_log = logging.getLogger(__name__)


class PushSyncer:
    """See `ClusterSyncer`."""

    def __init__(
        self,
        registered: RegisteredCluster,
        upstream: Upstream,
        downstream: SyncServer,
        settings: SyncSettings,
        metrics: SyncMetrics,
    ) -> None:
        self._registered, self._upstream, self._downstream = registered, upstream, downstream
        self._settings, self._metrics = settings, metrics
        self._resources: tuple[str, ...] = ()
        self._syncer: Syncer | None = None

    def set_resources(self, resources: Iterable[str]) -> None:
        self._resources = tuple(resources)
        if self._syncer is not None:
            self._syncer.set_resources(self._resources)

    def retire(self, types: Iterable[str]) -> None:
        if self._syncer is not None:
            self._syncer.retire(types)

    async def run(self) -> None:
        key = self._registered.key
        cluster = await self._upstream.client.get(key.cluster, CLUSTERS, key.name)
        if cluster is None:
            return
        registration = Registration.of(cluster)
        self._syncer = syncer = Syncer(
            registration,
            self._upstream,
            self._downstream,
            self._resources,
            self._settings,
            self._metrics,
        )
        task = spawn(syncer.run(), "multicluster/syncer")
        try:
            await self._report(registration, syncer, self._upstream.client, task)
        finally:
            self._syncer = None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report(
        self,
        registration: Registration,
        syncer: Syncer,
        client: Client,
        task: asyncio.Task[None],
    ) -> None:
        """Write heartbeats for as long as the syncer runs; its failure is raised."""
        identity = f"{socket.gethostname()}_{os.getpid()}"
        heartbeat = SyncerHeartbeat(
            registration, client, self._downstream, self._settings, identity
        )
        while True:
            try:
                await heartbeat.beat(syncer.health())
            except StatusError as error:
                _log.debug("the report of cluster %s was not written: %s", registration.name, error)
            done, _ = await asyncio.wait({task}, timeout=self._settings.heartbeat_interval)
            if done:
                task.result()
                return


class PushSyncers:
    """Makes the syncers of one process; see `MakeSyncer`."""

    def __init__(
        self,
        upstream: Upstream,
        settings: SyncSettings | None = None,
        metrics: SyncMetrics | None = None,
    ) -> None:
        self._upstream = upstream
        self._settings = settings or SyncSettings()
        self._metrics = metrics or SyncMetrics()

    def __call__(self, registered: RegisteredCluster, session: ClusterSession) -> PushSyncer:
        return PushSyncer(
            registered,
            self._upstream,
            SyncServer(session.client),
            self._settings,
            self._metrics,
        )
