"""What runs for one Cluster that the control plane can reach: probes, import of types, a syncer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from pykcp.aio.owner import spawn
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.multicluster.clusters.health import ClusterHealth
from pykcp.multicluster.clusters.probe import ProbeResult, probe
from pykcp.multicluster.clusters.settings import ClusterSettings
from pykcp.multicluster.importing.importer import TypeImporter

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0
_IDENTITY_SECONDS = 60.0
"""Between two looks at which cluster it is, and at its version."""


@dataclass(frozen=True, slots=True)
class RegisteredCluster:
    """The Cluster object that a session is for."""

    key: ObjectKey
    uid: str


class ClusterSyncer(Protocol):
    """A syncer that runs in the control plane."""

    async def run(self) -> None:
        """Until cancelled."""

    def set_resources(self, resources: Iterable[str]) -> None:
        """Synchronize these types from now on."""

    def retire(self, types: Iterable[str]) -> None:
        """Look after what may be left of these types."""


class ClusterSession:
    """`start` it; `stop` it in the end."""

    def __init__(
        self,
        registered: RegisteredCluster,
        client: ClusterClient,
        importer: TypeImporter,
        health: ClusterHealth,
        settings: ClusterSettings,
        changed: Callable[[], None],
    ) -> None:
        """`changed`: called when there is something new to report."""
        self.registered, self.client, self.importer = registered, client, importer
        self.health, self._settings, self._changed = health, settings, changed
        self.result: ProbeResult | None = None
        self.syncer: ClusterSyncer | None = None
        self.syncer_error = ""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._run("probe", self._probe())

    def import_types(self) -> None:
        """Begin to import types, once the cluster is known to be the right one."""
        self._run_once("import", self._keep("importer", self.importer.run))

    def synchronize(self, syncer: ClusterSyncer) -> None:
        self.syncer = syncer
        self._run_once("sync", self._keep("syncer", syncer.run, self._note_syncer))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self.client.close()

    def _run(self, name: str, body: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(spawn(body, f"multicluster/{name}"))

    def _run_once(self, name: str, body: Coroutine[Any, Any, None]) -> None:
        if any(task.get_name() == f"multicluster/{name}" for task in self._tasks):
            body.close()
        else:
            self._run(name, body)

    async def _keep(
        self,
        what: str,
        body: Callable[[], Coroutine[Any, Any, None]],
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Run it, and again after a failure: one cluster's trouble is no other's."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await body()
            except Exception as error:  # whatever it is: it is reported, and tried again
                _log.exception("the %s of cluster %s failed", what, self.registered.key)
                note(f"{type(error).__name__}: {error}")
            if time.monotonic() - began > _LAST_PAUSE:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
            note("")

    def _note_syncer(self, error: str) -> None:
        if error != self.syncer_error:
            self.syncer_error = error
            self._changed()

    async def _probe(self) -> None:
        settings, read_at = self._settings, 0.0
        while True:
            now = time.monotonic()
            known = self.result if self.result is not None and self.result.is_ready else None
            if now - read_at >= _IDENTITY_SECONDS:
                known = None
            result = await probe(self.client, settings.probe_timeout, known)
            if known is None:
                read_at = now
            now = time.monotonic()
            before = (self.health.verdict, self.result)
            self.result = result
            if result.is_ready:
                self.health.succeeded(now)
            else:
                self.health.failed(now, result.reason, result.message)
            if before != (self.health.verdict, self.result):
                self._changed()
            # After a failure sooner, so that an outage is noticed in time.
            pause = settings.probe_interval * (1.0 if result.is_ready else 0.5)
            await asyncio.sleep(pause)
