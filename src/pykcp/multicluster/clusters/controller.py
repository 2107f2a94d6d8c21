"""The controller of Clusters: what is to be done with one, in which mode, and when it is deleted.

A Cluster of the mode Push has a session, in which it is probed, its types are imported and its
objects are synchronized (`pushed`). Clusters of the modes Pull and None report by themselves
(`heartbeats`); in the mode Pull the syncer may be installed from here (`pulled`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import SECRETS
from pykcp.multicluster.clusters.connection import Resolve, resolve_any
from pykcp.multicluster.clusters.deletion import ClusterRemoval
from pykcp.multicluster.clusters.health import Readiness
from pykcp.multicluster.clusters.heartbeats import ReportingClusters
from pykcp.multicluster.clusters.held import ObjectsOfClusters
from pykcp.multicluster.clusters.kubeconfigs import ClusterKubeconfigs, ClusterRefused
from pykcp.multicluster.clusters.pulled import PulledClusters
from pykcp.multicluster.clusters.pushed import MakeSyncer, PushedClusters
from pykcp.multicluster.clusters.served import ServedWorkspaces
from pykcp.multicluster.clusters.sessions import ClusterSessions
from pykcp.multicluster.clusters.settings import PULL, PUSH, ClusterSettings
from pykcp.multicluster.clusters.status import ClusterStatus
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.importing.table import ImportSummary, ImportTable
from pykcp.multicluster.names import CLUSTER_FINALIZER, CLUSTERS
from pykcp.types import Object

NAME = "kcp-cluster-lifecycle"
_WORKERS = 16


class ClusterLifecycle:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        table: ImportTable,
        settings: ClusterSettings,
        make_syncer: MakeSyncer | None,
        *,
        resolve: Resolve = resolve_any,
        compute: Compute = compute_here,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.time,
        served: ServedWorkspaces | None = None,
    ) -> None:
        """`make_syncer`: None if this process synchronizes nothing; `served`: where objects may be
        assigned to Clusters; None: only in the workspaces of their registration.
        """
        self._lister, self._client, self._settings = lister, client, settings
        self.controller = Controller(NAME, self.reconcile, workers=_WORKERS, metrics=metrics)
        held = ObjectsOfClusters(served or ServedWorkspaces(client), client)
        self._removal = ClusterRemoval(held, client, settings.deletion_grace, clock)
        self._status = ClusterStatus(client, clock)
        self._kubeconfigs = ClusterKubeconfigs(client, compute)
        self._sessions = ClusterSessions(
            client, self._kubeconfigs, settings, resolve, self.controller.add
        )
        self._pushed = PushedClusters(self._sessions, self._status, table, held, make_syncer)
        self._pulled = PulledClusters(client, self._kubeconfigs, settings, resolve)
        self._reporting = ReportingClusters(client, self._status, table, held, settings)
        table.listen(self._on_import)

    def follow(self, feed: Feed) -> None:
        feed.on(CLUSTERS, self._on_cluster)
        feed.on(SECRETS, self._on_secret)

    def add_all(self) -> None:
        """Look at all Clusters."""
        for key in self._lister.keys(CLUSTERS):
            self.controller.add(key)

    async def stop(self) -> None:
        """End all sessions."""
        await self._sessions.end_all()

    # --- events

    def _on_cluster(self, change: Change) -> None:
        if not change.deleted:
            self._reporting.hear(change.value)
        self.controller.add(change.key)

    def _on_secret(self, change: Change) -> None:
        for key in self._kubeconfigs.users_of(change.key):
            self.controller.add(key)

    def _on_import(self, key: ObjectKey, state: ImportSummary, _: bool) -> None:
        self.controller.add(ObjectKey(key.cluster, "", state.location))

    # --- one Cluster

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster = await self._client.get(key.cluster, CLUSTERS, key.name)
        if cluster is None:
            await self._sessions.end(key)
            return None
        if meta.is_deleting(cluster):
            return await self._delete(cluster, key)
        if not meta.has_finalizer(cluster, CLUSTER_FINALIZER):
            cluster = await self._client.change(key.cluster, CLUSTERS, key.name, _add_finalizer)
        mode = (cluster.get("spec") or {}).get("mode") or self._settings.mode
        if mode == PUSH:
            self._reporting.forget(cluster)
            await self._pushed.reconcile(cluster, key)
            return None
        await self._sessions.end(key)
        installed, again = (
            await self._pulled.install(cluster, key) if mode == PULL else (None, None)
        )
        left = await self._reporting.reconcile(cluster, key, installed)
        return min((one for one in (left, again) if one is not None), default=None)

    async def _delete(self, cluster: Object, key: ObjectKey) -> float | None:
        if not meta.has_finalizer(cluster, CLUSTER_FINALIZER):
            return None
        verdict = await self._verdict_at_deletion(cluster, key)
        is_reachable = verdict is not None and verdict.is_ready
        step = await self._removal.step(cluster, key, is_reachable=is_reachable)
        if step.is_done:
            await self._pulled.uninstall(cluster, key)
            await self._sessions.end(key)
            self._kubeconfigs.forget(key)
            self._reporting.forget(cluster)
            return None
        session = self._sessions.get(key)
        if session is not None and session.syncer is not None:
            session.syncer.retire(step.types)
        if verdict is not None and not verdict.is_ready:
            message = (
                f"{step.remaining} objects may have copies in the cluster, which cannot be "
                f"reached: {verdict.message}"
            )
            await self._status.write(key, cluster, verdict._replace(message=message), [])
        return step.seconds

    async def _verdict_at_deletion(self, cluster: Object, key: ObjectKey) -> Readiness | None:
        """Whether the syncer of a Cluster that is being deleted can still remove its objects.

        The control plane may have been restarted meanwhile: then its syncer starts again.
        """
        if ((cluster.get("spec") or {}).get("mode") or self._settings.mode) != PUSH:
            now = time.monotonic()
            health = self._reporting.health(cluster, now)
            health.look(now)
            return health.verdict
        session = self._sessions.get(key)
        if session is None:
            try:
                session = await self._sessions.fitting(cluster, key)
            except ClusterRefused as error:
                return error.verdict
        if session.result is not None and session.result.is_ready:
            synced = (cluster.get("status") or {}).get("syncedResources") or []
            self._pushed.synchronize(session, synced)
        return session.health.verdict


def _add_finalizer(live: Object) -> None:
    meta.add_finalizer(live, CLUSTER_FINALIZER)
