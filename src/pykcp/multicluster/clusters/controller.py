"""The controller of Clusters: connects to them, and reports what it finds.

A Cluster of the mode Push has a session, in which it is probed, its types are imported and its
objects are synchronized. Clusters of the modes Pull and None report by themselves: the heartbeats
of their syncers are judged by the time at which they arrive here.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import SECRETS
from pykcp.machinery.status import NotFound, StatusError
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.connection import (
    InvalidKubeconfig,
    Resolve,
    open_client,
    parse_kubeconfig,
    resolve_any,
)
from pykcp.multicluster.clusters.deletion import ClusterRemoval
from pykcp.multicluster.clusters.health import NOT_READY, ClusterHealth, Readiness
from pykcp.multicluster.clusters.installing import NotInstallable, SyncerInstaller
from pykcp.multicluster.clusters.manifest import PulledCluster, UnlistableTypes
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.clusters.session import ClusterSession, ClusterSyncer, RegisteredCluster
from pykcp.multicluster.clusters.settings import PULL, PUSH, ClusterSettings
from pykcp.multicluster.importing.importer import (
    ImportTarget,
    TypeImporter,
    built_in_types,
    is_built_in,
)
from pykcp.multicluster.importing.table import ImportSummary, ImportTable
from pykcp.multicluster.names import CLUSTER_FINALIZER, CLUSTERS
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "kcp-cluster-lifecycle"
_WORKERS = 16
_INSTALL_AGAIN = 5.0
"""Seconds until a syncer that could not be installed is tried again."""

MakeSyncer = Callable[[RegisteredCluster, ClusterSession], ClusterSyncer]
"""A syncer for a session, with no types yet."""


class _Refused(Exception):
    """A Cluster cannot be used as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.verdict = Readiness("False", reason, message)


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
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`make_syncer`: None if this process synchronizes nothing."""
        self._lister, self._client, self._table = lister, client, table
        self._settings, self._make_syncer, self._resolve = settings, make_syncer, resolve
        self._clock = clock
        self._removal = ClusterRemoval(client, settings.deletion_grace, clock)
        self._installer = SyncerInstaller(client, settings.syncer_image)
        self._installed: dict[ObjectKey, str] = {}
        self._sessions: dict[ObjectKey, tuple[str, ClusterSession]] = {}
        self._reported: dict[str, tuple[str, ClusterHealth]] = {}
        """Of Clusters by UID: the last heartbeat, and what follows from all."""
        self._secrets: dict[ObjectKey, set[ObjectKey]] = {}
        """Clusters by the Secrets that have their kubeconfigs."""
        self.controller = Controller(NAME, self.reconcile, workers=_WORKERS, metrics=metrics)
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
        for key in list(self._sessions):
            await self._end(key)

    # --- events

    def _on_cluster(self, change: Change) -> None:
        if not change.deleted:
            self._hear(_decode_report(change.value))
        self.controller.add(change.key)

    def _hear(self, told: _Reported) -> None:
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

    def _on_secret(self, change: Change) -> None:
        for key in self._secrets.get(change.key, ()):
            self.controller.add(key)

    def _on_import(self, key: ObjectKey, state: ImportSummary, _: bool) -> None:
        self.controller.add(ObjectKey(key.cluster, "", state.location))

    # --- one Cluster

    async def reconcile(self, key: ObjectKey) -> float | None:
        cluster = await self._client.get(key.cluster, CLUSTERS, key.name)
        if cluster is None:
            await self._end(key)
            return None
        if meta.is_deleting(cluster):
            return await self._delete(cluster, key)
        if not meta.has_finalizer(cluster, CLUSTER_FINALIZER):
            cluster = await self._client.change(key.cluster, CLUSTERS, key.name, _add_finalizer)
        mode = (cluster.get("spec") or {}).get("mode") or self._settings.mode
        if mode == PUSH:
            self._reported.pop(meta.uid(cluster), None)
            return await self._push(cluster, key)
        await self._end(key)
        installed, again = await self._install(cluster, key) if mode == PULL else (None, None)
        left = await self._judge_heartbeats(cluster, key, installed)
        return min((one for one in (left, again) if one is not None), default=None)

    async def _install(self, cluster: Object, key: ObjectKey) -> tuple[Mark | None, float | None]:
        """Install the syncer where the kubeconfig is known; otherwise users apply its manifest."""
        spec = cluster.get("spec") or {}
        if not (spec.get("kubeconfig") or spec.get("kubeconfigSecretRef")):
            return None, None
        wanted = tuple(spec.get("syncResources") or self._settings.resources)
        try:
            kubeconfig = await self._kubeconfig(spec, key)
            print_of = _fingerprint(meta.uid(cluster), kubeconfig, wanted)
            if self._installed.get(key) == print_of:
                return report.true(report.SYNCER_READY), None
            client = await open_client(
                await parse_kubeconfig(kubeconfig), key.cluster, self._resolve
            )
            try:
                pulled = PulledCluster(key.cluster, key.name, meta.uid(cluster))
                await self._installer.install(pulled, wanted, client)
            finally:
                client.close()
        except (_Refused, InvalidKubeconfig) as error:
            return report.false(report.SYNCER_READY, report.INVALID_KUBECONFIG, str(error)), None
        except (NotInstallable, UnlistableTypes, StatusError, SendFailed) as error:
            reason = report.ERROR_INSTALLING
            return report.false(report.SYNCER_READY, reason, str(error)), _INSTALL_AGAIN
        self._installed[key] = print_of
        return report.true(report.SYNCER_READY), None

    async def _push(self, cluster: Object, key: ObjectKey) -> float | None:
        try:
            session = await self._session(cluster, key)
        except _Refused as error:
            await self._end(key)
            gone = (report.REACHABLE, report.IMPORTER_READY, report.SYNCER_READY)
            marks = [Mark(kind, None) for kind in gone]
            await self._write(key, cluster, error.verdict, marks)
            return None
        marks = [self._reachable(session), Mark(report.HEARTBEAT_HEALTHY, None)]
        result, known = session.result, (cluster.get("status") or {}).get("uid") or ""
        verdict, more = session.health.verdict, Object()
        adopts = (cluster.get("spec") or {}).get("adopt")
        if result is not None and result.uid and known not in ("", result.uid) and not adopts:
            message = (
                f"the kubeconfig leads to the cluster {result.uid}, not to {known}: register it "
                "under another name, or set spec.adopt"
            )
            verdict = Readiness("False", report.IDENTITY_CHANGED, message)
            await self._write(key, cluster, verdict, marks)
            return None
        if result is not None and result.is_ready:
            more = {"uid": result.uid, "version": result.version}
            session.import_types()
            marks.append(_importer_mark(session))
            more["syncedResources"] = self._synced(key, session, cluster)
            marks.append(self._synchronize(session, more["syncedResources"]))
        await self._write(key, cluster, verdict, marks, more)
        return None

    def _reachable(self, session: ClusterSession) -> Mark:
        result = session.result
        if result is None:
            return report.unknown(report.REACHABLE, "NotProbed", "")
        if result.is_ready:
            return report.true(report.REACHABLE)
        return report.false(report.REACHABLE, result.reason, result.message)

    def _synced(self, key: ObjectKey, session: ClusterSession, cluster: Object) -> list[Object]:
        importer = session.importer
        before = (cluster.get("status") or {}).get("syncedResources")
        if importer.error is None and before:
            return list(before)  # as before a restart, until the types were looked for
        return report.synced_resources(
            importer.types,
            [one for one in importer.types if is_built_in(one)],
            self._table.of_location(key.cluster, key.name),
            importer.failed,
        )

    def _synchronize(self, session: ClusterSession, synced: list[Object]) -> Mark:
        if self._make_syncer is None:
            return report.unknown(report.SYNCER_READY, "NoSyncer", "")
        if session.syncer is None:
            session.synchronize(self._make_syncer(session.registered, session))
        assert session.syncer is not None
        session.syncer.set_resources(report.accepted(synced))
        if session.syncer_error:
            return report.false(report.SYNCER_READY, report.ERROR_SYNCER, session.syncer_error)
        return report.true(report.SYNCER_READY)

    async def _judge_heartbeats(
        self, cluster: Object, key: ObjectKey, installed: Mark | None
    ) -> float | None:
        """A syncer elsewhere reports; nothing here connects to the cluster."""
        status = cluster.get("status") or {}
        beat = status.get("lastSyncerHeartbeatTime") or ""
        now = time.monotonic()
        health = self._heartbeat_health(cluster, now)
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
        await self._write(key, cluster, verdict, marks, imported=types)
        return left

    def _heartbeat_health(self, cluster: Object, now: float) -> ClusterHealth:
        """What is known of a Cluster that reports by itself; after a restart, as its object says."""
        uid, status = meta.uid(cluster), cluster.get("status") or {}
        if uid not in self._reported:
            before = report.verdict_of(cluster)
            beat = status.get("lastSyncerHeartbeatTime") or ""
            health = ClusterHealth(self._settings, now, before, probes=False)
            self._reported[uid] = (beat if before is not None else "", health)
            self._hear(
                _Reported(_ReportMetadata(uid), msgspec.convert(_heartbeat(status), _ReportStatus))
            )
        return self._reported[uid][1]

    # --- sessions

    async def _session(self, cluster: Object, key: ObjectKey) -> ClusterSession:
        """The session that fits the object. Raises _Refused."""
        spec = cluster.get("spec") or {}
        kubeconfig = await self._kubeconfig(spec, key)
        wanted = tuple(spec.get("syncResources") or self._settings.resources)
        strategy = spec.get("schemaUpdateStrategy") or ""
        uid = meta.uid(cluster)
        print_of = _fingerprint(uid, kubeconfig, wanted, strategy)
        known = self._sessions.get(key)
        if known is not None and known[0] == print_of:
            return known[1]
        await self._end(key)
        try:
            endpoint = await parse_kubeconfig(kubeconfig)
            client = await open_client(endpoint, key.cluster, self._resolve)
        except InvalidKubeconfig as error:
            raise _Refused(report.INVALID_KUBECONFIG, str(error)) from None
        except SendFailed as error:
            raise _Refused(report.ERROR_CLIENT, str(error)) from None
        # A new kubeconfig may be the remedy of an outage: then readiness need not be waited for.
        before = report.verdict_of(cluster)
        is_new = known is not None or before is None
        health = ClusterHealth(
            self._settings, time.monotonic(), None if is_new else before, probes=True
        )
        target = ImportTarget(key.cluster, key.name, uid, wanted, strategy)
        changed = _adder(self.controller, key)
        importer = TypeImporter(self._client, client, target, changed, prefix=client.prefix)
        session = ClusterSession(
            RegisteredCluster(key, uid), client, importer, health, self._settings, changed
        )
        self._sessions[key] = (print_of, session)
        session.start()
        return session

    async def _kubeconfig(self, spec: Object, key: ObjectKey) -> str:
        self._forget_secrets(key)
        reference = spec.get("kubeconfigSecretRef")
        if reference is None:
            inline: str = spec.get("kubeconfig") or ""
            if not inline:
                message = "set spec.kubeconfig or spec.kubeconfigSecretRef"
                raise _Refused(report.NO_KUBECONFIG, message)
            return inline
        namespace, name = reference["namespace"], reference["name"]
        self._secrets.setdefault(ObjectKey(key.cluster, namespace, name), set()).add(key)
        secret = await self._client.get(key.cluster, SECRETS, name, namespace)
        what = f"secret {namespace}/{name}"
        if secret is None:
            raise _Refused(report.INVALID_KUBECONFIG, f"{what} does not exist")
        entry = reference.get("key") or "kubeconfig"
        content = (secret.get("data") or {}).get(entry)
        if not content:
            raise _Refused(report.INVALID_KUBECONFIG, f'{what} has no key "{entry}"')
        try:
            return base64.b64decode(content).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _Refused(report.INVALID_KUBECONFIG, f"{what} has no text") from None

    def _forget_secrets(self, key: ObjectKey) -> None:
        for secret in [s for s, users in self._secrets.items() if key in users]:
            self._secrets[secret].discard(key)
            if not self._secrets[secret]:
                del self._secrets[secret]

    async def _end(self, key: ObjectKey) -> None:
        known = self._sessions.pop(key, None)
        if known is not None:
            await known[1].stop()

    # --- deletion

    async def _delete(self, cluster: Object, key: ObjectKey) -> float | None:
        if not meta.has_finalizer(cluster, CLUSTER_FINALIZER):
            return None
        verdict = await self._verdict_at_deletion(cluster, key)
        is_reachable = verdict is not None and verdict.is_ready
        step = await self._removal.step(cluster, key, is_reachable=is_reachable)
        if step.is_done:
            await self._uninstall(cluster, key)
            await self._end(key)
            self._forget_secrets(key)
            self._reported.pop(meta.uid(cluster), None)
            return None
        if verdict is not None and not verdict.is_ready:
            message = (
                f"{step.remaining} objects may have copies in the cluster, which cannot be "
                f"reached: {verdict.message}"
            )
            await self._write(key, cluster, verdict._replace(message=message), [])
        return step.seconds

    async def _verdict_at_deletion(self, cluster: Object, key: ObjectKey) -> Readiness | None:
        """Whether the syncer of a Cluster that is being deleted can still remove its objects.

        The control plane may have been restarted meanwhile: then its syncer starts again.
        """
        if ((cluster.get("spec") or {}).get("mode") or self._settings.mode) != PUSH:
            now = time.monotonic()
            health = self._heartbeat_health(cluster, now)
            health.look(now)
            return health.verdict
        known = self._sessions.get(key)
        if known is not None:
            session = known[1]
        else:
            try:
                session = await self._session(cluster, key)
            except _Refused as error:
                return error.verdict
        if session.result is not None and session.result.is_ready:
            self._synchronize(session, (cluster.get("status") or {}).get("syncedResources") or [])
        return session.health.verdict

    async def _uninstall(self, cluster: Object, key: ObjectKey) -> None:
        """Remove the syncer that was installed, if the cluster can be reached."""
        if self._installed.pop(key, None) is None:
            return
        try:
            text = await self._kubeconfig(cluster.get("spec") or {}, key)
            client = await open_client(await parse_kubeconfig(text), key.cluster, self._resolve)
        except (_Refused, InvalidKubeconfig, SendFailed) as error:
            _log.warning("the syncer of cluster %s is left in it: %s", key.name, error)
            return
        try:
            pulled = PulledCluster(key.cluster, key.name, meta.uid(cluster))
            await self._installer.uninstall(pulled, client)
        except StatusError as error:
            _log.warning("the syncer of cluster %s is left in it: %s", key.name, error)
        finally:
            client.close()

    # --- status

    async def _write(
        self,
        key: ObjectKey,
        cluster: Object,
        verdict: Readiness,
        marks: list[Mark],
        more: Object | None = None,
        imported: Sequence[Object] = (),
    ) -> None:
        """`imported`: the verdicts on imports, to add to what a syncer elsewhere reports."""
        now = meta.now_rfc3339(self._clock())
        is_cordoned = bool((cluster.get("spec") or {}).get("unschedulable"))

        def change(live: Object) -> Object:
            status = {**(live.get("status") or {}), **(more or {})}
            if imported:
                reported = status.get("syncedResources") or ()
                status["syncedResources"] = _merged(reported, imported)
            all_marks = [report.ready_mark(verdict), *marks]
            status["conditions"] = report.with_marks(conditions_of(live), all_marks, now)
            before = status.pop("taints", None) or []
            taints = report.health_taints(verdict, is_cordoned=is_cordoned, before=before, now=now)
            if taints:
                status["taints"] = taints
            return {**live, "status": status}

        if change(cluster).get("status") == cluster.get("status"):
            return
        try:
            await self._client.change(key.cluster, CLUSTERS, key.name, change, subresource="status")
        except NotFound:
            return


def _add_finalizer(live: Object) -> None:
    meta.add_finalizer(live, CLUSTER_FINALIZER)


def _fingerprint(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()


def _adder(controller: Controller[ObjectKey], key: ObjectKey) -> Callable[[], None]:
    return lambda: controller.add(key)


def _importer_mark(session: ClusterSession) -> Mark:
    error = session.importer.error
    if error is None:
        return report.unknown(report.IMPORTER_READY, "Importing", "")
    if error:
        return report.false(report.IMPORTER_READY, report.ERROR_IMPORTER, error)
    return report.true(report.IMPORTER_READY)


def _heartbeat(status: Object) -> Object:
    """The part of a status that a syncer writes."""
    return {
        "lastSyncerHeartbeatTime": status.get("lastSyncerHeartbeatTime") or "",
        "syncer": status.get("syncer") or {},
    }


def _merged(reported: Sequence[Object], imported: Sequence[Object]) -> list[Object]:
    """What a syncer elsewhere reported, with the verdicts on imports."""
    found = {(one.get("group") or "", one["resource"]): one for one in reported}
    found |= {(one["group"], one["resource"]): one for one in imported}
    return [found[key] for key in sorted(found)]
