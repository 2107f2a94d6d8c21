"""The life of `syncer`: connect both servers, hold the lease, synchronize, report."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

from pykcp.aio.owner import TaskOwner
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of
from pykcp.machinery.status import StatusError
from pykcp.multicluster.clusters.settings import DEFAULT_RESOURCES
from pykcp.multicluster.importing.importer import ImportTarget, TypeImporter
from pykcp.multicluster.names import CLUSTERS, DOWNSTREAM_CLUSTER, FIELD_MANAGER, syncer_path
from pykcp.multicluster.syncer.consumers import ViewClient, ViewUpstream
from pykcp.multicluster.syncer.engine import Syncer
from pykcp.multicluster.syncer.heartbeat import SyncerHeartbeat
from pykcp.multicluster.syncer.lease import SyncerLease
from pykcp.multicluster.syncer.metrics import SyncMetrics
from pykcp.multicluster.syncer.servers import SyncServer
from pykcp.multicluster.syncer.settings import Registration, SyncSettings
from pykcp.multicluster.tunnel import PATH
from pykcp.multicluster.tunnel.dialing import TunnelDialer
from pykcp.multicluster.tunnel.serving import TunnelApplication
from pykcp.observe.metrics import Registry
from pykcp.programs.kit.run import run_program
from pykcp.programs.syncer.credentials import FreshKubeconfig
from pykcp.programs.syncer.endpoint import StatusEndpoint
from pykcp.programs.syncer.settings import IN_CLUSTER, SyncerSettings
from pykcp.server.documents.version import GIT_VERSION
from pykcp.types import Object
from pykcp.wire.listener import Listener

_log = logging.getLogger(__name__)
_REQUEST_SECONDS = 30.0
_CLUSTERS = "/clusters/"
ACCEPTED = "Accepted"
C = TypeVar("C", bound=RemoteClient)


def run(settings: SyncerSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_syncer(settings), settings.logging, warnings)


class running_syncer:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = "syncer"

    def __init__(self, settings: SyncerSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("syncer-program")
        self._registry = Registry()
        self._metrics = SyncMetrics(self._registry)
        self._listener: Listener | None = None
        self._problem = "it does not hold the lease"
        self._identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"

    async def __aenter__(self) -> None:
        options = self._settings.control_plane
        endpoint = load_endpoint(options.from_kubeconfig, options.from_context)
        self._workspace = options.from_cluster or _cluster_of(endpoint.url)
        if not self._workspace:
            raise CredentialError("--from-cluster: the kubeconfig names no logical cluster")
        self._upstream = ViewUpstream(
            _client(ViewClient, options.from_kubeconfig, options.from_context)
        )
        self._downstream = SyncServer(self._connect_downstream())
        self._times = SyncSettings(
            workers=self._settings.sync.workers,
            sweep_interval=self._settings.sync.sweep_interval,
            namespace_grace=self._settings.sync.namespace_clean_delay,
            heartbeat_interval=self._settings.sync.heartbeat_interval,
            lease_seconds=self._settings.sync.lease_duration,
        )
        self._lease = SyncerLease(
            self._upstream.client,
            self._workspace,
            options.workload_cluster_name,
            self._identity,
            self._times.lease_seconds,
        )
        address = self._settings.status.address
        if address is not None:
            application = StatusEndpoint(self._registry, lambda: self._problem)
            self._listener = await Listener(application).start(*address)
        await self._owner.__aenter__()
        self._owner.start_restartable("lease", lambda: self._lease.run(self._lead))

    def _connect_downstream(self) -> RemoteClient:
        options = self._settings.downstream
        if options.to_kubeconfig:
            return _client(RemoteClient, options.to_kubeconfig, options.to_context)
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise CredentialError("KUBERNETES_SERVICE_HOST is not set")
        host = f"[{host}]" if ":" in host else host
        endpoint = KubeconfigServer(
            f"https://{host}:{port}",
            authority_file=str(IN_CLUSTER / "ca.crt"),
            token_file=str(IN_CLUSTER / "token"),
        )
        return client_of(endpoint, FIELD_MANAGER, timeout=_REQUEST_SECONDS)

    async def __aexit__(self, *exc: object) -> None:
        await self._owner.stop()
        try:
            async with asyncio.timeout(2):
                await self._lease.release()
        except (StatusError, TimeoutError) as error:
            _log.debug("the lease is left to expire: %s", error)
        if self._listener is not None:
            await self._listener.drain(0)
        self._upstream.client.http.close()
        self._downstream.client.http.close()

    def announcement(self) -> Iterator[str]:
        name = self._settings.control_plane.workload_cluster_name
        yield f"synchronizing {self._workspace} with cluster {name}"
        if self._listener is not None:
            yield f"health and metrics are served on port {self._listener.port}"

    # --- while the lease is held

    async def _lead(self) -> None:
        """Synchronize for the Cluster object as it is now."""
        cluster = await self._cluster()
        registration = Registration.of(cluster)
        syncer = Syncer(
            registration,
            self._upstream,
            self._downstream,
            self._resources(cluster),
            self._times,
            self._metrics,
        )
        heartbeat = SyncerHeartbeat(
            registration,
            self._upstream.client,
            self._downstream,
            self._times,
            self._identity,
            GIT_VERSION,
        )
        self._upstream.listen(syncer)
        view = syncer_path(registration.workspace, registration.name, registration.uid)
        self._upstream.client.open_view(view, self._workspace, registration.workspace)
        async with TaskOwner("syncer-leading") as owner:
            owner.start_restartable("syncer", syncer.run)
            owner.start_restartable("consumers", self._upstream.keep_consumers)
            owner.start_restartable("import", self._importer(cluster).run)
            if self._settings.sync.tunnel:
                owner.start_restartable("tunnel", lambda: self._serve_tunnel(registration, syncer))
            while True:
                try:
                    serves = self._upstream.served is not None
                    await heartbeat.beat(syncer.health(), serves_consumers=serves)
                    cluster = await self._cluster()
                except StatusError as error:
                    self._problem = f"the report was not written: {error}"
                    _log.warning("%s", self._problem)
                else:
                    self._problem = ""
                    if Registration.of(cluster) != registration:
                        _log.warning("the Cluster was created anew: its syncer starts again")
                        return
                    syncer.set_resources(self._resources(cluster))
                await asyncio.sleep(self._times.heartbeat_interval)

    async def _serve_tunnel(self, registration: Registration, syncer: Syncer) -> None:
        """Until cancelled; requests of the control plane arrive on connections made from here."""
        selector = f"{DOWNSTREAM_CLUSTER}={registration.downstream_label}"
        application = TunnelApplication(self._downstream.client, selector, syncer.owns_namespace)
        listener = Listener(application)
        listener.open()
        root = syncer_path(registration.workspace, registration.name, registration.uid)
        dialer = TunnelDialer(self._upstream.client, f"{root}{PATH}", listener.adopt)
        try:
            await dialer.run()
        finally:
            await listener.close()

    def _importer(self, cluster: Object) -> TypeImporter:
        """The control plane does not connect to the cluster: its types are read from here."""
        spec = cluster.get("spec") or {}
        wanted = self._settings.sync.resources or spec.get("syncResources") or DEFAULT_RESOURCES
        target = ImportTarget(
            self._workspace,
            cluster["metadata"]["name"],
            cluster["metadata"]["uid"],
            tuple(wanted),
            spec.get("schemaUpdateStrategy") or "",
        )
        return TypeImporter(self._upstream.client, self._downstream.client, target)

    async def _cluster(self) -> Object:
        """The Cluster object; waits for it."""
        options = self._settings.control_plane
        name, wanted = options.workload_cluster_name, options.workload_cluster_uid
        while True:
            found = await self._upstream.client.get(self._workspace, CLUSTERS, name)
            if found is not None and wanted in ("", found["metadata"]["uid"]):
                return found
            _log.warning('there is no Cluster "%s" for this syncer', name)
            await asyncio.sleep(self._times.heartbeat_interval)

    def _resources(self, cluster: Object) -> tuple[str, ...]:
        if self._settings.sync.resources:
            return self._settings.sync.resources
        listed = (cluster.get("status") or {}).get("syncedResources") or ()
        return tuple(
            ".".join(one[part] for part in ("resource", "version", "group") if one.get(part))
            for one in listed
            if one.get("state") == ACCEPTED
        )


def _client(kind: type[C], kubeconfig: str, context: str) -> C:
    fresh = FreshKubeconfig(kubeconfig, context)
    return kind(
        fresh.http(), FIELD_MANAGER, token=fresh.token, timeout=_REQUEST_SECONDS, root=fresh.root
    )


def _cluster_of(url: str) -> str:
    """The logical cluster that an address names."""
    path = urlsplit(url).path
    return path.partition(_CLUSTERS)[2].strip("/") if _CLUSTERS in path else ""
