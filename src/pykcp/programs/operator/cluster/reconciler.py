"""Makes a namespace what its objects ask for: Secrets first, then workloads, then statuses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping

from pykcp.caching import BoundedCache
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.programs.operator.cluster.cleanup import Cleanup
from pykcp.programs.operator.cluster.metrics import error_type
from pykcp.programs.operator.cluster.reading import NamespaceReader
from pykcp.programs.operator.cluster.settings import CONFIG, GROUPS, WORKLOAD
from pykcp.programs.operator.cluster.workloads import WorkloadRunner
from pykcp.programs.operator.configuration.stage import Configuration, configure, longest_validity
from pykcp.programs.operator.configuration.status import (
    NOTHING_KNOWN,
    AccessNotes,
    ReplicaCounts,
    object_status,
)
from pykcp.programs.operator.configuration.world import World, name_of
from pykcp.programs.operator.drivers.kubernetes.driver import (
    APPLIED,
    HOST,
    KubernetesDriver,
)
from pykcp.programs.operator.names import KINDS
from pykcp.programs.operator.pki.cert_manager import CertManagerIssuance
from pykcp.programs.operator.pki.engine import CertificateEngine
from pykcp.programs.operator.platform import Platform
from pykcp.types import Object

_log = logging.getLogger(__name__)
CERTIFICATES = GroupVersionResource("cert-manager.io", "v1", "certificates")
ISSUERS = GroupVersionResource("cert-manager.io", "v1", "issuers")
_LONGEST = 3600.0
"""Seconds after which a namespace is looked at again in any case."""
_ACCESS_PAUSE = 5.0
_AT_ONCE = 0.01
_LOOK_PAUSE = 30.0
"""cert-manager may be installed while the operator runs."""
_PODS_PAUSE = 15.0
"""Pods are not followed: what they say is asked for as long as something is not available."""
_ASK_PAUSE = 600.0
_MOST_NOTES = 10_000


class CertManagerLookup:
    """Whether cert-manager is installed, as it was seen the last time."""

    def __init__(self, client: Client) -> None:
        self._client, self.is_installed = client, False

    async def look(self) -> bool:
        try:
            await self._client.list(HOST, CERTIFICATES, "default")
        except StatusError:
            self.is_installed = False
        else:
            self.is_installed = True
        return self.is_installed


class NamespaceReconciler:
    """`reconcile` a namespace; it returns after how many seconds to do it again."""

    def __init__(
        self,
        client: Client,
        reader: NamespaceReader,
        platform: Platform,
        *,
        cert_manager: CertManagerLookup,
        issues_all: bool,
        groups: Collection[str] = GROUPS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`issues_all`: every certificate comes from cert-manager, not only those for which an
        issuer of the user is named. `groups`: which part of the work is done by this process.
        """
        self._client, self._reader, self._platform = client, reader, platform
        self._cert_manager, self._issues_all, self._clock = cert_manager, issues_all, clock
        self._configures, self._runs = CONFIG in groups, WORKLOAD in groups
        self._driver = KubernetesDriver(client)
        self._runner = WorkloadRunner(client, reader)
        self._notes = BoundedCache[str, AccessNotes]("operator-access", _MOST_NOTES)
        """By the uid of the object."""
        self._asked = BoundedCache[tuple[str, str, str], tuple[Object, float]](
            "operator-certificates", _MOST_NOTES
        )
        """Certificates and Issuers as they were applied, and until when that is believed."""

    async def reconcile(self, namespace: str) -> float | None:
        objects = self._reader.objects(namespace)
        if not objects:
            return None
        records, now = self._reader.records(namespace), self._clock()
        engine = CertificateEngine(records, now, self._platform.settle_seconds)
        engine.longest_seconds = longest_validity(objects)
        issuance = CertManagerIssuance(
            engine,
            namespace,
            is_installed=self._cert_manager.is_installed,
            issues_all=self._issues_all,
        )
        # Keys may take a second each to make.
        out = await asyncio.to_thread(
            configure, namespace, objects, records, self._platform, now, issuance
        )
        out.next_time = min(out.next_time, engine.next_time)
        is_missed = any(one.reason == "IssuerMissing" for one in out.problems.values())
        if is_missed and not self._cert_manager.is_installed:
            if await self._cert_manager.look():
                return _AT_ONCE
            out.next_time = min(out.next_time, now + _LOOK_PAUSE)
        world = World.of(namespace, objects, records, self._platform, issuance)
        if self._configures:
            for written in await self._driver.write(namespace, records.changed.values()):
                self._reader.wrote(namespace, written)
            await self._apply_certificates(issuance)
        elif records.changed:
            # Without the Secrets of the other process, the workloads are not what they will be.
            names = ", ".join(name for _, name in records.changed)
            _log.info("%s: waiting until these are written: %s", namespace, names)
            return _LONGEST
        refused = await self._runner.run(out.workloads) if self._runs else {}
        pause = min(_LONGEST, max(1.0, out.next_time - now))
        if self._configures:
            await self._prune(out)
            states = await self._runner.states(namespace, out.workloads, refused)
            if not all(one.is_available for one in states.values()):
                pause = min(pause, _PODS_PAUSE)
            pause = min(pause, await self._finish(world, out, states))
        for error in refused.values():
            raise error  # it is counted and tried again, later and later
        return pause if self._configures else _LONGEST

    # --- what is made ----------------------------------------------------------------

    async def _apply_certificates(self, issuance: CertManagerIssuance) -> None:
        """They are not followed: what somebody has changed is restored after a while."""
        now = time.monotonic()
        for obj in issuance.wanted:
            metadata = obj["metadata"]
            key = (metadata["namespace"], obj["kind"], metadata["name"])
            asked = self._asked.get(key)
            if asked is not None and asked[0] == obj and now < asked[1]:
                continue
            kind = CERTIFICATES if obj["kind"] == "Certificate" else ISSUERS
            await self._client.apply(HOST, kind, obj, force=True)
            self._asked.put(key, (obj, now + _ASK_PAUSE))

    async def _prune(self, out: Configuration) -> None:
        """Delete what objects no longer need; what belonged to deleted ones is garbage."""
        for record in out.unneeded(of_deleted=False):
            _log.info("%s %s/%s is not needed any more", record.kind, out.namespace, record.name)
            await self._client.delete(HOST, APPLIED[record.kind], record.name, out.namespace)

    # --- what is said of it ------------------------------------------------------------

    async def _finish(
        self, world: World, out: Configuration, states: dict[str, ReplicaCounts]
    ) -> float:
        """Write statuses and do what is left to do inside of the installations."""
        pause = _LONGEST
        cleanup = Cleanup(self._client, world)
        written = []
        # All statuses first: an installation that does not answer takes its time.
        for obj in world.objects.values():
            live = await self._state(obj, out, states, world)
            if live is not None:
                written.append(live)
            else:
                pause = _ACCESS_PAUSE
        for obj in written:
            before = self._notes.get(_uid(obj))
            notes = await self._tend(cleanup, obj)
            if notes is None:
                continue
            self._notes.put(_uid(obj), notes)
            if notes.problem is not None:
                pause = _ACCESS_PAUSE
            if notes != before and await self._state(obj, out, states, world) is None:
                pause = _ACCESS_PAUSE
        return pause

    async def _tend(self, cleanup: Cleanup, obj: Object) -> AccessNotes | None:
        """None if there is nothing to say, or nobody to say it of."""
        is_available = _is_available(obj["status"])
        try:
            is_closed = await cleanup.tend(obj, is_available=is_available)
        except NotFound as gone:
            if gone.name == name_of(obj):
                return None  # deleted meanwhile
            return self._failed(obj, gone)
        except (StatusError, SendFailed) as error:
            return self._failed(obj, error)
        if not is_available:
            return None
        return AccessNotes(is_closed, was_tried=True)

    def _failed(self, obj: Object, error: StatusError | SendFailed) -> AccessNotes:
        metadata = obj["metadata"]
        _log.warning("%s %s/%s: %s", obj["kind"], metadata["namespace"], metadata["name"], error)
        seen = self._notes.get(_uid(obj)) or NOTHING_KNOWN
        return AccessNotes(seen.is_closed, (error_type(error), str(error)), was_tried=True)

    async def _state(
        self, obj: Object, out: Configuration, states: Mapping[str, ReplicaCounts], world: World
    ) -> Object | None:
        """The object with its status, which is written if it has changed; None if it cannot be."""
        notes = self._notes.get(_uid(obj)) or NOTHING_KNOWN
        status = object_status(obj, out, states, self._clock(), world, notes)
        if status == (obj.get("status") or {}):
            return obj
        try:
            return await self._write_status(str(obj["kind"]), obj, status)
        except NotFound:
            return {**obj, "status": status}  # deleted meanwhile
        except (StatusError, SendFailed) as error:
            _log.warning("%s %s/%s: %s", obj["kind"], world.namespace, name_of(obj), error)
            return None

    async def _write_status(self, kind: str, obj: Object, status: Object) -> Object:
        # Where bindings were made is recorded by others, and must not be overwritten.
        given = {key: value for key, value in status.items() if key != "authorization"}

        def change(live: Object) -> None:
            live["status"] = {**(live.get("status") or {}), **given}

        metadata = obj["metadata"]
        written = await self._client.change(
            HOST, KINDS[kind], metadata["name"], change, metadata["namespace"], "status"
        )
        return {**obj, "metadata": written["metadata"], "status": written.get("status") or {}}


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid") or "")


def _is_available(status: Object) -> bool:
    return any(
        one["type"] == "Available" and one["status"] == "True" for one in status["conditions"]
    )
