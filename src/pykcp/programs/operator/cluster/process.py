"""The life of `kcp operator`: connect, lead, follow the kinds, reconcile namespaces."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator

from pykcp.aio.owner import TaskOwner
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Change
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of
from pykcp.clients.remote.feed import RemoteFeed
from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery.conditions import is_true
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import StatusError
from pykcp.multicluster.syncer.lease import SyncerLease
from pykcp.observe.metrics import Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.kit.run import run_program
from pykcp.programs.operator.cluster.metrics import OperatorMetrics, error_type
from pykcp.programs.operator.cluster.reading import NamespaceReader
from pykcp.programs.operator.cluster.reconciler import CertManagerLookup, NamespaceReconciler
from pykcp.programs.operator.cluster.settings import CERT_MANAGER, OperatorSettings
from pykcp.programs.operator.drivers.kubernetes.driver import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    HOST,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
)
from pykcp.programs.operator.kinds.definitions import definitions
from pykcp.programs.operator.names import KINDS, MANAGER
from pykcp.programs.operator.pages import PlainPages
from pykcp.programs.operator.platform import KubernetesPlatform, Platform
from pykcp.server.health import Health
from pykcp.types import Object
from pykcp.wire.listener import Listener

_log = logging.getLogger(__name__)
_REQUEST_SECONDS = 30.0
_CONTROLLER = "namespace"
_ASK_AGAIN = 0.1


def run(settings: OperatorSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_operator(settings), settings.logging, warnings)


class running_operator:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = "kcp operator"

    def __init__(self, settings: OperatorSettings, platform: Platform | None = None) -> None:
        self._settings = settings
        self._platform = platform or KubernetesPlatform()
        self._owner = TaskOwner("operator")
        self._health = Health()
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._listeners: list[Listener] = []
        self.metrics = Registry()

    async def __aenter__(self) -> None:
        endpoint = self._settings.host.endpoint()
        self._client = client_of(endpoint, MANAGER, timeout=_REQUEST_SECONDS)
        self._feed = RemoteFeed(self._client, HOST)
        self._reader = NamespaceReader(self._feed)
        self._counts = OperatorMetrics(self.metrics, self._objects)
        self.metrics.add(*process_metrics())
        options = self._settings.operator
        await self._owner.__aenter__()
        try:
            await self._listen(options.health_probe_bind_address)
            await self._listen(options.metrics_bind_address)
            if self._settings.host.install_crds:
                await install_definitions(self._client)
        except BaseException:  # a failed start must leave nothing behind
            await self.__aexit__()
            raise
        self._lease = SyncerLease(
            self._client,
            HOST,
            "",
            self._identity,
            options.lease_duration,
            name=options.lease_name,
            namespace=self._settings.host.namespace(),
        )
        lead = (lambda: self._lease.run(self._lead)) if options.leader_elect else self._lead
        self._owner.start_restartable("operator", lead)

    async def _listen(self, address: str) -> None:
        if address in ("", "0"):
            return
        host, _, port = address.rpartition(":")
        listener = Listener(PlainPages(self._health, self.metrics))
        await listener.start(host.strip("[]"), int(port))
        self._listeners.append(listener)

    @property
    def ports(self) -> list[int]:
        """Those of health and metrics, as far as they are served."""
        return [listener.port for listener in self._listeners]

    async def __aexit__(self, *exc: object) -> None:
        self._health.is_draining = True
        await self._owner.stop()
        if self._settings.operator.leader_elect and exc:
            try:
                async with asyncio.timeout(2):
                    await self._lease.release()
            except (StatusError, SendFailed, TimeoutError, AttributeError) as error:
                _log.debug("the lease is left to expire: %s", error)
        for listener in self._listeners:
            await listener.drain(self._settings.shutdown_seconds)
        self._client.http.close()

    def announcement(self) -> Iterator[str]:
        yield f"operating installations in {self._client.http.server.authority}"

    # --- while this process leads --------------------------------------------------------

    async def _lead(self) -> None:
        cert_manager = CertManagerLookup(self._client)
        await cert_manager.look()
        feed = self._feed = RemoteFeed(self._client, HOST)
        self._reader = NamespaceReader(feed)
        reconciler = NamespaceReconciler(
            self._client,
            self._reader,
            self._platform,
            cert_manager=cert_manager,
            issues_all=self._settings.host.issue_with == CERT_MANAGER,
            groups=self._settings.operator.enabled_controller_groups,
        )
        controller = Controller[str](_CONTROLLER, lambda key: self._reconcile(reconciler, key))

        def changed(change: Change) -> None:
            controller.add(change.namespace)

        async def resume() -> None:
            for namespace in self._reader.namespaces():
                controller.add(namespace)

        applied = (SECRETS, CONFIG_MAPS, DEPLOYMENTS, SERVICES, VOLUME_CLAIMS)
        for kind in (*KINDS.values(), *applied):
            feed.on(kind, changed, from_the_start=True)
        feed.at_start(resume)
        async with TaskOwner("operator-leading") as owner:
            owner.start_restartable("feed", feed.run)
            await feed.synced()
            owner.start_restartable("controller", controller.run)
            await asyncio.Event().wait()

    async def _reconcile(self, reconciler: NamespaceReconciler, namespace: str) -> float | None:
        began = time.monotonic()
        result = "success"
        try:
            return await reconciler.reconcile(namespace)
        except (StatusError, SendFailed) as error:
            result = "error"
            self._counts.errors.add((_CONTROLLER, error_type(error)))
            raise
        finally:
            self._counts.seconds.observe((_CONTROLLER, result), time.monotonic() - began)

    def _objects(self) -> list[Object]:
        try:
            found = self._reader.namespaces()
        except LookupError:  # nothing is followed before this process leads
            return []
        return [obj for namespace in found for obj in self._reader.objects(namespace)]


async def install_definitions(client: RemoteClient) -> None:
    """Create or update the CustomResourceDefinitions of the operator's kinds.

    Returns when they are served.
    """
    for obj in definitions():
        applied = await client.apply(HOST, CUSTOM_RESOURCE_DEFINITIONS, obj, force=True)
        while not is_true(applied, "Established"):
            await asyncio.sleep(_ASK_AGAIN)
            name = obj["metadata"]["name"]
            applied = await client.get(HOST, CUSTOM_RESOURCE_DEFINITIONS, name) or applied
