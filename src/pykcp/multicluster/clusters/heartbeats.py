"""Clusters whose syncers report by themselves: in the modes Pull and None.

Nothing here connects to the cluster. Heartbeats are judged by the time at which they arrive.
"""

from __future__ import annotations

import time

import msgspec

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.health import NOT_READY, ClusterHealth
from pykcp.multicluster.clusters.held import ObjectsOfClusters
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.multicluster.clusters.status import ClusterStatus
from pykcp.multicluster.importing.discovery import is_named
from pykcp.multicluster.importing.importer import built_in_types
from pykcp.multicluster.importing.table import ImportTable
from pykcp.multicluster.names import NEGOTIATED, negotiated_name
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
        self,
        client: Client,
        status: ClusterStatus,
        table: ImportTable,
        held: ObjectsOfClusters,
        settings: ClusterSettings,
    ) -> None:
        self._client, self._held = client, held
        self._status, self._table, self._settings = status, table, settings
        self._imported: dict[str, list[Object]] = {}
        """Of Clusters by UID: the types that followed from imports when they were last looked at."""
        self._reported: dict[str, tuple[str, ClusterHealth]] = {}
        """Of Clusters by UID: the last heartbeat, and what follows from all."""

    def hear(self, value: bytes) -> None:
        """A Cluster object as it is now."""
        self._note(_decode_report(value))

    def forget(self, cluster: Object) -> None:
        self._reported.pop(meta.uid(cluster), None)
        self._imported.pop(meta.uid(cluster), None)

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
        types, gone = await self._types(cluster, key)
        await self._status.write(key, cluster, verdict, marks, imported=types, gone=gone)
        return left

    async def _types(self, cluster: Object, key: ObjectKey) -> tuple[list[Object], list[Object]]:
        """What follows from imports for the types of a Cluster, and which of those that it lists
        are not true any more.
        """
        named = (cluster.get("spec") or {}).get("syncResources") or ("*",)
        states = [
            one
            for one in self._table.of_location(key.cluster, key.name)
            if is_named(one.group, one.plural, named)
        ]
        built_in = built_in_types(
            (cluster.get("spec") or {}).get("syncResources") or self._settings.resources
        )
        found = report.synced_resources((), built_in, states, {})
        listed = (cluster.get("status") or {}).get("syncedResources") or ()
        known = self._imported.get(meta.uid(cluster), [])
        self._imported[meta.uid(cluster)] = found
        gone = []
        for one in report.without(listed, found):
            was_imported = not report.without([one], known) or report.is_left(one)
            is_unwanted = not is_named(one.get("group") or "", one["resource"], named)
            if was_imported or is_unwanted or await self._is_negotiated(key, one):
                gone.append(one)
        return await self._held.with_left(key, found, gone), gone

    async def _is_negotiated(self, key: ObjectKey, entry: Object) -> bool:
        """Whether a type comes from imports; otherwise a syncer elsewhere says what it does."""
        name = negotiated_name(
            entry["resource"], entry.get("version") or "v1", entry.get("group") or ""
        )
        return await self._client.get(key.cluster, NEGOTIATED, name) is not None

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
