"""Clusters whose syncers report by themselves: in the modes Pull and None.

Nothing here connects to the cluster. Heartbeats are judged by the time at which they arrive.
"""

from __future__ import annotations

import time

import msgspec

from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.health import NOT_READY, ClusterHealth
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.multicluster.clusters.status import ClusterStatus
from pykcp.multicluster.importing.importer import built_in_types
from pykcp.multicluster.importing.table import ImportTable
from pykcp.types import Object


class _SyncerReport(msgspec.Struct, rename="camel"):
    downstream_ready: bool = True
    downstream_message: str = ""


class _ReportStatus(msgspec.Struct, rename="camel"):
    last_syncer_heartbeat_time: str = ""
    syncer: _SyncerReport = msgspec.field(default_factory=_SyncerReport)


class _ReportMetadata(msgspec.Struct):
    uid: str = ""


class _Reported(msgspec.Struct):
    metadata: _ReportMetadata
    status: _ReportStatus = msgspec.field(default_factory=_ReportStatus)


_decode_report = msgspec.json.Decoder(_Reported).decode


class ReportingClusters:
    def __init__(
        self, status: ClusterStatus, table: ImportTable, settings: ClusterSettings
    ) -> None:
        self._status, self._table, self._settings = status, table, settings
        self._reported: dict[str, tuple[str, ClusterHealth]] = {}
        """Of Clusters by UID: the last heartbeat, and what follows from all."""

    def hear(self, value: bytes) -> None:
        """A Cluster object as it is now."""
        self._note(_decode_report(value))

    def forget(self, cluster: Object) -> None:
        self._reported.pop(meta.uid(cluster), None)

    def _note(self, told: _Reported) -> None:
        """Note a heartbeat; when it was sent does not matter, clocks differ."""
        known = self._reported.get(told.metadata.uid)
        beat = told.status.last_syncer_heartbeat_time
        if known is None or not beat or beat == known[0]:
            return
        health = known[1]
        self._reported[told.metadata.uid] = (beat, health)
        syncer, now = told.status.syncer, time.monotonic()
        if syncer.downstream_ready:
            health.succeeded(now)
        else:
            health.failed(now, NOT_READY, syncer.downstream_message)

    async def reconcile(
        self, cluster: Object, key: ObjectKey, installed: Mark | None
    ) -> float | None:
        """Returns seconds until silence has to be noticed. `installed`: how the installation went."""
        status = cluster.get("status") or {}
        beat = status.get("lastSyncerHeartbeatTime") or ""
        now = time.monotonic()
        health = self.health(cluster, now)
        left = health.look(now)
        verdict = health.verdict
        syncer = status.get("syncer") or {}
        marks = [Mark(report.IMPORTER_READY, None), installed or Mark(report.SYNCER_READY, None)]
        if not beat:
            marks.append(report.unknown(report.HEARTBEAT_HEALTHY, verdict.reason))
            marks.append(Mark(report.REACHABLE, None))
        elif left is None:
            reason, message = verdict.reason, verdict.message
            marks.append(report.false(report.HEARTBEAT_HEALTHY, reason, message))
            marks.append(report.unknown(report.REACHABLE, reason))
        else:
            marks.append(report.true(report.HEARTBEAT_HEALTHY))
            is_ready = syncer.get("downstreamReady", True)
            message = syncer.get("downstreamMessage") or ""
            marks.append(
                report.true(report.REACHABLE)
                if is_ready
                else report.false(report.REACHABLE, NOT_READY, message)
            )
        states = self._table.of_location(key.cluster, key.name)
        wanted = (cluster.get("spec") or {}).get("syncResources") or self._settings.resources
        types = report.synced_resources((), built_in_types(wanted), states, {})
        await self._status.write(key, cluster, verdict, marks, imported=types)
        return left

    def health(self, cluster: Object, now: float) -> ClusterHealth:
        """What is known of a Cluster that reports by itself; after a restart, as its object says."""
        uid, status = meta.uid(cluster), cluster.get("status") or {}
        if uid not in self._reported:
            before = report.verdict_of(cluster)
            beat = status.get("lastSyncerHeartbeatTime") or ""
            health = ClusterHealth(self._settings, now, before, probes=False)
            self._reported[uid] = (beat if before is not None else "", health)
            self._note(
                _Reported(_ReportMetadata(uid), msgspec.convert(_heartbeat(status), _ReportStatus))
            )
        return self._reported[uid][1]


def _heartbeat(status: Object) -> Object:
    """The part of a status that a syncer writes."""
    return {
        "lastSyncerHeartbeatTime": status.get("lastSyncerHeartbeatTime") or "",
        "syncer": status.get("syncer") or {},
    }
