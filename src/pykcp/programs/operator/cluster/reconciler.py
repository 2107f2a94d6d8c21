"""Makes a namespace what its objects ask for: Secrets first, then workloads, then statuses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.programs.operator.cluster.cleanup import Cleanup
from pykcp.programs.operator.cluster.reading import NamespaceReader
from pykcp.programs.operator.cluster.settings import CONFIG, GROUPS, WORKLOAD
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, CompiledWorkload
from pykcp.programs.operator.configuration.stage import Configuration, configure, longest_validity
from pykcp.programs.operator.configuration.status import ReplicaCounts, object_status
from pykcp.programs.operator.configuration.world import World
from pykcp.programs.operator.drivers.kubernetes.driver import (
    APPLIED,
    DEPLOYMENTS,
    HOST,
    KubernetesDriver,
    deployment_state,
)
from pykcp.programs.operator.drivers.kubernetes.objects import workload_objects
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


class NamespaceReconciler:
    """`reconcile` a namespace; it returns after how many seconds to do it again."""

    def __init__(
        self,
        client: Client,
        reader: NamespaceReader,
        platform: Platform,
        *,
        has_cert_manager: Callable[[], bool],
        issues_all: bool,
        groups: Collection[str] = GROUPS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`issues_all`: every certificate comes from cert-manager, not only those for which an
        issuer of the user is named. `groups`: which part of the work is done by this process.
        """
        self._client, self._reader, self._platform = client, reader, platform
        self._has_cert_manager, self._issues_all, self._clock = has_cert_manager, issues_all, clock
        self._configures, self._runs = CONFIG in groups, WORKLOAD in groups
        self._driver = KubernetesDriver(client)
        self._applied: dict[tuple[str, str], str] = {}
        """Revisions of workloads as they were applied."""

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
            is_installed=self._has_cert_manager(),
            issues_all=self._issues_all,
        )
        # Keys may take a second each to make.
        out = await asyncio.to_thread(
            configure, namespace, objects, records, self._platform, now, issuance
        )
        out.next_time = min(out.next_time, engine.next_time)
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
        if self._runs:
            await self._run(out)
        if not self._configures:
            return _LONGEST
        await self._prune(out)
        states = self._states(namespace, out.workloads)
        pause = await self._finish(world, out, states)
        return min(pause, max(1.0, out.next_time - now), _LONGEST)

    # --- what is made ----------------------------------------------------------------

    async def _apply_certificates(self, issuance: CertManagerIssuance) -> None:
        for obj in issuance.wanted:
            kind = CERTIFICATES if obj["kind"] == "Certificate" else ISSUERS
            await self._client.apply(HOST, kind, obj, force=True)

    async def _run(self, out: Configuration) -> None:
        for workload in out.workloads:
            live = self._reader.get(DEPLOYMENTS, workload.namespace, workload.name)
            if self._is_right(workload, live):
                continue
            await self._driver.run(workload, live)
            self._applied[workload.namespace, workload.name] = workload.revision

    def _is_right(self, workload: CompiledWorkload, live: Object | None) -> bool:
        """Whether the Deployment is what this process has applied, and unchanged since."""
        if live is None:
            return False
        key = (workload.namespace, workload.name)
        if self._applied.get(key) != workload.revision:
            return False
        replicas = (live.get("spec") or {}).get("replicas")
        wanted = workload_objects(workload, replicas)[0]
        return _contains(live, wanted)

    async def _prune(self, out: Configuration) -> None:
        """Delete what objects no longer need; what belonged to deleted ones is garbage."""
        for record in out.unneeded(of_deleted=False):
            _log.info("%s %s/%s is not needed any more", record.kind, out.namespace, record.name)
            await self._client.delete(HOST, APPLIED[record.kind], record.name, out.namespace)

    def _states(
        self, namespace: str, workloads: Iterable[CompiledWorkload]
    ) -> dict[str, ReplicaCounts]:
        return {
            one.name: deployment_state(
                self._reader.get(DEPLOYMENTS, namespace, one.name),
                DEFAULT_REPLICAS if one.replicas is None else one.replicas,
            )
            for one in workloads
        }

    # --- what is said of it ------------------------------------------------------------

    async def _finish(
        self, world: World, out: Configuration, states: dict[str, ReplicaCounts]
    ) -> float:
        """Write statuses and do what is left to do inside of the installations."""
        pause = _LONGEST
        cleanup = Cleanup(self._client, world)
        for (kind, name), obj in world.objects.items():
            status = object_status(obj, out, states, self._clock(), world)
            try:
                if status != (obj.get("status") or {}):
                    obj = await self._write_status(kind, obj, status)
                await cleanup.tend(obj, is_available=_is_available(status))
            except NotFound:
                continue  # deleted meanwhile
            except (StatusError, SendFailed) as error:
                _log.warning("%s %s/%s: %s", kind, world.namespace, name, error)
                pause = _ACCESS_PAUSE
        return pause

    async def _write_status(self, kind: str, obj: Object, status: Object) -> Object:
        def change(live: Object) -> None:
            live["status"] = {**(live.get("status") or {}), **status}

        metadata = obj["metadata"]
        written = await self._client.change(
            HOST, KINDS[kind], metadata["name"], change, metadata["namespace"], "status"
        )
        return {**obj, "metadata": written["metadata"], "status": written.get("status") or {}}


def _is_available(status: Object) -> bool:
    return any(
        one["type"] == "Available" and one["status"] == "True" for one in status["conditions"]
    )


def _contains(live: object, wanted: object) -> bool:
    """Whether everything that is wanted is there; servers add defaults."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            _contains(live.get(key), value)
            for key, value in wanted.items()
            if value not in ({}, [])
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(_contains(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return live == wanted
