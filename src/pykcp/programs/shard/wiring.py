"""The composition root of a shard: every part, in the order in which it is needed."""

from __future__ import annotations

import asyncio
import pathlib
import ssl
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pykcp.admission.plugins.object_count import ObjectCountLimit
from pykcp.admission.plugins.resource_quota import Quotas
from pykcp.admission.tenants import TenantAdmission, check_cel, schema_checks
from pykcp.admission.webhooks.conversions import ConversionCalls
from pykcp.aio.costs import payer
from pykcp.aio.owner import TaskOwner
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import RoleCache
from pykcp.cache.publishing import CachePublisher
from pykcp.cache.server import Cache, make_cache
from pykcp.cache.server import make_server as make_cache_server
from pykcp.controllers import kcp as kcp_controllers
from pykcp.controllers.kube import all as kube_controllers
from pykcp.controllers.runtime.manager import ControllerSet, join
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.observe.metrics import Gauge, Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.shard.access import AccessObjects
from pykcp.programs.shard.admission import make_admission
from pykcp.programs.shard.clusters import ShardClusters
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.egress import Egress, make_egress
from pykcp.programs.shard.permission_ceiling import PermissionCeiling
from pykcp.programs.shard.serving import make_audit, make_server, workspace_sign_in
from pykcp.programs.shard.settings import ShardSettings
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.custom import CustomResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_custom, make_renamed, make_resource
from pykcp.registry.catalog.old_names import OldNames
from pykcp.registry.catalog.virtual_storage import find_storage
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.keys import enclosing_prefixes
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.paths import PathIndex
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.restore import Trash
from pykcp.registry.watch.hub import WatchHub
from pykcp.server.filters.sending import Sender
from pykcp.server.health import Health
from pykcp.server.large.work import WorkerWork
from pykcp.server.mount import FrontDoor, ServiceRoutes
from pykcp.storage.interface import SEALED_INDEX, Store
from pykcp.virtual.all import VirtualSettings, virtual_workspaces
from pykcp.virtual.elsewhere import VirtualResources
from pykcp.virtual.forwarding import RemoteServer
from pykcp.virtual.remote import RemoteWorkspaces
from pykcp.virtual.serving import Host, VirtualWorkspaces
from pykcp.workers.pool import WorkerPool

if TYPE_CHECKING:
    from pykcp.observe.audit.trail import AuditTrail


@dataclass(slots=True)
class Shard:
    """The parts of a shard that its process starts and stops."""

    settings: ShardSettings
    store: Store
    hub: WatchHub
    directory: Directory
    bound: BoundResources
    lookup: ObjectLookup
    client: LocalClient
    server: FrontDoor
    health: Health
    metrics: Registry
    credentials: Credentials
    owner: TaskOwner
    quotas: Quotas
    cache: Cache
    trash: Trash
    egress: Egress
    audit: AuditTrail | None = None
    port: int = 0


def make_store(settings: ShardSettings) -> Store:
    """The store of a shard, with encryption at rest if it is configured."""
    return settings.store.make(settings.generic.root_directory)


async def start_store(store: Store) -> Store:
    """Start it; encrypted values without a configuration are refused rather than misread."""
    await store.start()
    if not store.lookup(SEALED_INDEX, limit=1):
        return store
    from pykcp.storage.encryption.store import guarded

    return guarded(store)


def wire(
    settings: ShardSettings,
    store: Store,
    cache_store: Store,
    credentials: Credentials,
    owner: TaskOwner,
) -> Shard:
    """Build everything on started stores."""
    loop = asyncio.get_running_loop()
    metrics = Registry()
    health = Health(is_fair=settings.fairness.fairness)
    hub = WatchHub(store, loop)
    sources = Sources(now=Timestamps(time.time))
    egress = make_egress(settings, metrics, owner)
    quotas = Quotas(store)
    object_count = ObjectCountLimit(store, lambda: directory, settings.tenancy.total_object_limit)
    object_count.show(metrics, settings.shard.shard_name)
    tenants = TenantAdmission(
        store,
        lambda: directory,
        lambda: authorizer,
        egress.webhooks,
        provider_of=lambda *what: bound.provider(*what),
    )
    admission = make_admission(
        store,
        tenants,
        quotas,
        object_count,
        lambda: lookup,
        lambda: authorizer,
        lambda: directory,
        tenants_set_limits=settings.tenancy.tenant_object_limits,
    )
    workers = _worker_pool(settings, metrics, owner)
    conversions = ConversionCalls(egress.webhooks)
    services = Services(
        store,
        hub,
        admission,
        sources,
        check_cel,
        schema_checks,
        conversions,
        WorkerWork(workers) if workers is not None else None,
    )

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    directory = Directory(builtin_definitions(), make)
    bound = BoundResources(
        store,
        lambda d, version, since: make_custom(d, version, since, services),
        directory.find_system,
    )
    directory.add_source(bound)
    directory.add_source(
        CustomResources(store, lambda d, version, since: make_custom(d, version, since, services))
    )
    if "CacheAPIs" in settings.features.gates:
        directory.add_source(OldNames(lambda d, version, c: make_renamed(d, version, services, c)))
    client = LocalClient(directory, "system:apiserver", writes_own=True)
    external = credentials.external_sign_in(client)
    paths = PathIndex(store)
    cache = make_cache(cache_store, settings.shard.shard_name)
    lookup = ObjectLookup(store, directory, paths, cache.replica)
    clusters = ShardClusters(store, paths, hub, settings.shard.shard_name)
    clusters.blocks_moving = "LogicalClusterMigration" in settings.features.gates
    access = AccessObjects(store, cache.replica)
    roles = RoleCache(access.load)
    access.follow(roles)
    ceiling = PermissionCeiling(store, roles, bound, lambda: lookup)
    authorizer = Authorizer(
        RbacChain(roles, ceiling),
        order=settings.authorization.authorization_order,
        always_allow_paths=settings.authorization.authorization_always_allow_paths,
        webhook=external.authorizer,
    )
    authentication = credentials.authentication(
        client,
        external,
        workspace_sign_in(settings, credentials, lookup, owner, egress.webhooks),
    )
    owner.start_restartable("sign-in", external.run)
    audit = make_audit(settings, store, metrics)
    services_below = ServiceRoutes()
    remote = None
    if "CacheAPIs" in settings.features.gates:
        bound.find_storage = partial(find_storage, lookup)
        remote = _virtual_resources(
            settings, bound, directory, lookup, services_below, egress
        ).serve
    serving = make_server(
        settings,
        store,
        directory,
        authentication,
        authorizer,
        clusters,
        credentials,
        health,
        metrics,
        client,
        owner,
        audit,
        lookup,
        workers,
        egress,
        remote,
    )
    server = serving.server
    now, window = services.sources.now, settings.tenancy.workspace_undelete_window
    trash = Trash(store, directory, lookup, now, window)
    shown = VirtualSettings(settings.shard.shard_name, settings.features.gates)
    address = lambda: credentials.address  # noqa: E731
    host = Host(
        serving.shared,
        authorizer,
        serving.presence,
        serving.resolver.check,
        serving.verbs,
        server.take_over,
        remote,
        address,
        workers,
    )
    local = VirtualWorkspaces(
        host,
        virtual_workspaces(
            store, directory, bound, lookup, authorizer, cache, clusters.inactive, trash, shown
        )
        if settings.shard.run_virtual_workspaces or settings.shard.shard_virtual_workspace_url
        else (),
    )
    away = _elsewhere(settings, owner)
    services_below.mount_default(local if away is None else RemoteWorkspaces(away, local))
    services_below.mount("cache", make_cache_server(cache, authentication, Registry(), address))
    front = FrontDoor(server, services_below)
    for check in () if away else local.checks:
        health.add(check, lambda: None, only_ready=True)
    metrics.add(*_gauges(store, hub), *process_metrics())
    if settings.store.encryption_provider_config:
        _tend_encryption(settings, store, hub, health, metrics, owner)
    health.add("etcd", store.health)
    health.add("etcd-readiness", store.health, only_ready=True)
    shard = Shard(
        settings,
        store,
        hub,
        directory,
        bound,
        lookup,
        client,
        front,
        health,
        metrics,
        credentials,
        owner,
        quotas,
        cache,
        trash,
        egress,
    )
    shard.audit = audit.trail if audit is not None else None
    return shard


def _worker_pool(settings: ShardSettings, metrics: Registry, owner: TaskOwner) -> WorkerPool | None:
    """Processes that compute large requests, unless there are to be none."""
    if not settings.workers.pool.processes:
        return None
    pool = WorkerPool(settings.workers.pool)
    pool.charge = lambda _, seconds: payer().charge(seconds)  # in the context of the request
    owner.start_restartable("workers", pool.serve)
    metrics.add(
        Gauge("pykcp_worker_processes", "Worker processes.", lambda: pool.processes),
        Gauge("pykcp_worker_jobs_waiting", "Jobs waiting for a worker.", lambda: pool.waiting),
        Gauge("pykcp_worker_jobs_total", "Jobs completed by workers.", lambda: pool.jobs),
        Gauge(
            "pykcp_worker_cpu_seconds_total",
            "CPU time of worker jobs.",
            lambda: pool.cpu_seconds,
        ),
        Gauge(
            "pykcp_worker_failures_total",
            "Workers that crashed or were killed because a job took too long.",
            lambda: pool.failures,
        ),
    )
    return pool


def _virtual_resources(
    settings: ShardSettings,
    bound: BoundResources,
    directory: Directory,
    lookup: ObjectLookup,
    services: ServiceRoutes,
    egress: Egress,
) -> VirtualResources:
    sender = Sender(
        egress.virtual_resources,
        settings.shard.shard_virtual_workspace_ca_file,
        settings.shard.shard_client_cert_file,
        settings.shard.shard_client_key_file,
    )
    return VirtualResources(
        bound, directory, lookup, settings.shard.shard_name, services, sender.send
    )


def _elsewhere(settings: ShardSettings, owner: TaskOwner) -> RemoteServer | None:
    """Where virtual workspaces are visited, if not here."""
    url = settings.shard.shard_virtual_workspace_url
    if settings.shard.run_virtual_workspaces or not url:
        return None
    tls = ssl.create_default_context(cafile=settings.shard.shard_virtual_workspace_ca_file or None)
    elsewhere = RemoteServer(url, tls)
    owner.start_restartable("virtual-workspaces", elsewhere.run)
    return elsewhere


def _tend_encryption(
    settings: ShardSettings,
    store: Store,
    hub: WatchHub,
    health: Health,
    metrics: Registry,
    owner: TaskOwner,
) -> None:
    from pykcp.storage.encryption import EncryptedStore
    from pykcp.storage.encryption.reload import ConfigFollower

    assert isinstance(store, EncryptedStore)
    store.on_unreadable = lambda key: hub.end_under(enclosing_prefixes(key)[0])
    health.add("kms-providers", store.providers_health)
    if settings.store.encryption_provider_config_automatic_reload:
        follower = ConfigFollower(pathlib.Path(settings.store.encryption_provider_config), store)
        metrics.add(*follower.metrics)
        owner.start_restartable("encryption-config", follower.run)


def make_controllers(shard: Shard) -> ControllerSet:
    """The controllers of a shard whose bootstrap objects are there."""
    credentials, metrics = shard.credentials, ControllerMetrics(shard.metrics)
    followers = kube_controllers.make(
        store=shard.store,
        hub=shard.hub,
        directory=shard.directory,
        metrics=metrics,
        ca_bundle=credentials.root_ca,
        sign_token=credentials.sign_secret_token,
        event_ttl=shard.settings.tenancy.event_ttl,
        quotas=shard.quotas,
        bound=shard.bound.definitions,
    )
    followers += kcp_controllers.make(
        store=shard.store,
        hub=shard.hub,
        directory=shard.directory,
        bound=shard.bound,
        lookup=shard.lookup,
        metrics=metrics,
        registry=shard.metrics,
        shard_name=shard.settings.shard.shard_name,
        ca_bundle=credentials.root_ca,
        gates=shard.settings.features.gates,
        published=CachePublisher(shard.cache, shard.settings.shard.shard_name),
        trash=shard.trash,
    )
    return join(shard.store, followers)


def _gauges(store: Store, hub: WatchHub) -> list[Gauge]:
    return [
        Gauge("pykcp_store_revision", "Current revision of the store.", lambda: store.revision),
        Gauge(
            "pykcp_store_compacted_revision",
            "Revision up to which history is compacted.",
            lambda: store.compacted,
        ),
        Gauge(
            "pykcp_store_size_bytes",
            "Bytes used by the store, as last measured.",
            lambda: store.size.used,
        ),
        Gauge(
            "pykcp_store_size_limit_bytes",
            "Size limit of the store in bytes; 0 means no limit.",
            lambda: store.size.most_bytes,
        ),
        Gauge("apiserver_longrunning_requests", "Open watches.", lambda: hub.count),
        Gauge(
            "pykcp_watch_events_delivered",
            "Events delivered to watchers since start.",
            lambda: hub.delivered,
        ),
        Gauge(
            "pykcp_watch_slow_ended",
            "Watches ended since start because the client read too slowly.",
            lambda: hub.ended_slow,
        ),
    ]
