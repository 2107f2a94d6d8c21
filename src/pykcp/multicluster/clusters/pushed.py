"""Clusters of the mode Push: probed, imported and synchronized from here."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.health import Readiness
from pykcp.multicluster.clusters.held import ObjectsOfClusters
from pykcp.multicluster.clusters.kubeconfigs import ClusterRefused
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.clusters.session import ClusterSession, ClusterSyncer, RegisteredCluster
from pykcp.multicluster.clusters.sessions import ClusterSessions
from pykcp.multicluster.clusters.status import ClusterStatus
from pykcp.multicluster.importing.importer import is_built_in
from pykcp.multicluster.importing.table import ImportTable
from pykcp.types import Object

MakeSyncer = Callable[[RegisteredCluster, ClusterSession], ClusterSyncer]
"""A syncer for a session, with no types yet."""


class PushedClusters:
    def __init__(
        self,
        sessions: ClusterSessions,
        status: ClusterStatus,
        table: ImportTable,
        held: ObjectsOfClusters,
        make_syncer: MakeSyncer | None,
    ) -> None:
        """`make_syncer`: None if this process synchronizes nothing."""
        self._sessions, self._status, self._table = sessions, status, table
        self._held, self._make_syncer = held, make_syncer

    async def reconcile(self, cluster: Object, key: ObjectKey) -> None:
        try:
            session = await self._sessions.fitting(cluster, key)
        except ClusterRefused as error:
            await self._sessions.end(key)
            gone = (report.REACHABLE, report.IMPORTER_READY, report.SYNCER_READY)
            marks = [Mark(kind, None) for kind in gone]
            await self._status.write(key, cluster, error.verdict, marks)
            return
        marks = [_reachable(session), Mark(report.HEARTBEAT_HEALTHY, None)]
        result, known = session.result, (cluster.get("status") or {}).get("uid") or ""
        verdict, more = session.health.verdict, Object()
        if result is not None and result.uid and known not in ("", result.uid):
            if (cluster.get("spec") or {}).get("adopt"):
                # What is known of the other cluster does not hold here: a new session begins.
                await self._sessions.end(key)
                await self._status.write(key, cluster, verdict, marks, {"uid": result.uid})
                return
            message = (
                f"the kubeconfig leads to the cluster {result.uid}, not to {known}: register it "
                "under another name, or set spec.adopt"
            )
            session.client.identity = known
            verdict = Readiness("False", report.IDENTITY_CHANGED, message)
            await self._status.write(key, cluster, verdict, marks)
            return
        if result is not None and result.is_ready:
            more = {"uid": result.uid, "version": result.version}
            session.client.identity = result.uid
            session.import_types()
            marks.append(_importer_mark(session))
            more["syncedResources"] = await self._synced(key, session, cluster)
            marks.append(self.synchronize(session, more["syncedResources"]))
        await self._status.write(key, cluster, verdict, marks, more)

    async def _synced(
        self, key: ObjectKey, session: ClusterSession, cluster: Object
    ) -> list[Object]:
        importer = session.importer
        before = (cluster.get("status") or {}).get("syncedResources")
        if importer.error is None and before:
            return list(before)  # as before a restart, until the types were looked for
        found = report.synced_resources(
            importer.types,
            [one for one in importer.types if is_built_in(one)],
            self._table.of_location(key.cluster, key.name),
            importer.failed,
        )
        return await self._held.with_left(key, found, before or ())

    def synchronize(self, session: ClusterSession, synced: list[Object]) -> Mark:
        """Run a syncer for these types; the condition that says how it is."""
        if self._make_syncer is None:
            return report.unknown(report.SYNCER_READY, "NoSyncer", "")
        if session.syncer is None:
            session.synchronize(self._make_syncer(session.registered, session))
        assert session.syncer is not None
        session.syncer.set_resources(report.accepted(synced))
        if session.syncer_error:
            return report.false(report.SYNCER_READY, report.ERROR_SYNCER, session.syncer_error)
        return report.true(report.SYNCER_READY)


def _reachable(session: ClusterSession) -> Mark:
    result = session.result
    if result is None:
        return report.unknown(report.REACHABLE, "NotProbed", "")
    if result.is_ready:
        return report.true(report.REACHABLE)
    return report.false(report.REACHABLE, result.reason, result.message)


def _importer_mark(session: ClusterSession) -> Mark:
    error = session.importer.error
    if error is None:
        return report.unknown(report.IMPORTER_READY, "Importing", "")
    if error:
        return report.false(report.IMPORTER_READY, report.ERROR_IMPORTER, error)
    return report.true(report.IMPORTER_READY)
