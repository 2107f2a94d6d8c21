"""The stage of the API server: admission behind it, the chain of filters before it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pykcp.admission.plugins.resource_quota import Quotas
from pykcp.aio.owner import describe
from pykcp.programs.shard.admission import install_admission
from pykcp.programs.shard.multicluster.known import shards_with_clusters
from pykcp.programs.shard.multicluster.pods import PodsOnDemand
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand
from pykcp.programs.shard.serving import make_audit, make_flow_control
from pykcp.programs.shard.stages.access import AccessStage
from pykcp.programs.shard.stages.catalog import CatalogStage
from pykcp.programs.shard.stages.foundation import Foundation
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.registry.catalog.old_names import WithOldNames
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.shards import KnownShards
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.server.app import ApiServer
from pykcp.server.chain import OwnParts, SharedParts
from pykcp.server.dispatch import Dispatcher, RemoteResources, StoredVerbs
from pykcp.server.documents.discovery import Discovery
from pykcp.server.documents.openapi import OpenAPI
from pykcp.server.filters.authorization import CallAuthorization
from pykcp.server.filters.clusters import ClusterResolver
from pykcp.server.filters.flow_control import FlowControl
from pykcp.server.filters.homes import HomeWorkspaces
from pykcp.server.filters.impersonation import Impersonation
from pykcp.server.filters.mounts import MountProxy
from pykcp.server.metrics import RequestMetrics
from pykcp.server.mount import ServiceRoutes
from pykcp.server.paths import DebugView, PathHandlers
from pykcp.server.subresources import Answered
from pykcp.storage.interface import Store
from pykcp.virtual.remote_resources import RemoteVirtualResources
from pykcp.virtual.resources import VirtualResources

if TYPE_CHECKING:
    from pykcp.observe.audit.trail import AuditTrail


@dataclass(frozen=True, slots=True)
class ApiStage:
    server: ApiServer
    services: ServiceRoutes
    """What is served below `/services/`: filled by the stage of views."""
    shared: SharedParts
    clusters: ClusterResolver
    verbs: StoredVerbs
    remote: RemoteResources | None
    quotas: Quotas
    room: ClusterRoom
    audit: AuditTrail | None
    tunnels: TunnelsOnDemand
    """Connections that syncers of Clusters opened."""
    pods: PodsOnDemand


def build_api(
    base: Foundation, stores: StoresStage, catalog: CatalogStage, access: AccessStage
) -> ApiStage:
    shard = base.settings.shard.shard_name
    limit = KnownShards(catalog.lookup).hard_limit
    room = ClusterRoom(stores.store, stores.moves, shard, limit)
    quotas = install_admission(base, stores, catalog, access, room)
    authorization = CallAuthorization(access.authorizer, Impersonation(access.authorizer))
    audit = make_audit(base.settings, stores.store, base.metrics)
    flow = make_flow_control(base.settings, base.metrics)
    shared = SharedParts(access.authentication, RequestMetrics(base.metrics), flow, audit)
    services, tunnels = ServiceRoutes(), TunnelsOnDemand(stores.store.group)
    pods = PodsOnDemand(
        LocalLister(stores.store, catalog.directory),
        catalog.client,
        base.egress.mounts,
        tunnels,
        shards_with_clusters(catalog.lookup, catalog.peers),
    )
    verbs = StoredVerbs(
        Answered(access.authentication, access.authorizer, base.credentials.policy, catalog.client),
        pods.find,
    )
    clusters = ClusterResolver(
        access.clusters,
        authorization,
        _mounts(base, access),
        access.authentication.is_proxied,
    )
    remote = _virtual_resources(base, catalog, services)
    homes = None
    if base.settings.tenancy.enable_home_workspaces:
        homes = HomeWorkspaces(
            stores.store, catalog.client, catalog.lookup, access.authorizer, authorization
        )
    paths = _paths(base, stores.store, catalog, flow, shared.metrics)
    plain = base.settings.generic.kubernetes_cluster
    server = ApiServer(
        shared,
        OwnParts(clusters, authorization, access.clusters.check, homes),
        Dispatcher(catalog.directory, paths, verbs, authorization, remote, plain).handle,
    )
    trail = audit.trail if audit is not None else None
    return ApiStage(
        server, services, shared, clusters, verbs, remote, quotas, room, trail, tunnels, pods
    )


def _mounts(base: Foundation, access: AccessStage) -> MountProxy:
    settings = base.settings
    return MountProxy(
        base.egress.mounts,
        settings.egress.mount_proxy_client_cert_file,
        settings.egress.mount_proxy_client_key_file,
        settings.egress.mount_proxy_ca_file,
        access.authentication.is_proxied,
    )


def _virtual_resources(
    base: Foundation, catalog: CatalogStage, services: ServiceRoutes
) -> RemoteResources | None:
    if not base.has("CacheAPIs"):
        return None
    settings = base.settings
    remote = RemoteVirtualResources(
        base.egress.virtual_resources,
        settings.shard.shard_virtual_workspace_ca_file,
        settings.shard.shard_client_cert_file,
        settings.shard.shard_client_key_file,
    )
    return VirtualResources(
        catalog.bound,
        catalog.directory,
        catalog.lookup,
        settings.shard.shard_name,
        services,
        remote.forward,
    ).serve


def _paths(
    base: Foundation,
    store: Store,
    catalog: CatalogStage,
    flow: FlowControl | None,
    metrics: RequestMetrics,
) -> PathHandlers:
    directory = catalog.directory
    shown = WithOldNames(directory) if base.has("CacheAPIs") else directory
    debug: dict[str, DebugView] = {
        "/debug/tasks": describe,
        "/debug/fsck": partial(_consistency, store),
        "/debug/certificates": partial(_certificates, base),
        "/debug/slow-requests": metrics.slow.describe,
    }
    if flow is not None:
        debug["/debug/flow"] = flow.describe
    return PathHandlers(
        health=base.health,
        metrics=base.metrics,
        discovery=Discovery(
            shown,
            base.credentials.serving_address,
            plain_cluster=base.settings.generic.kubernetes_cluster,
            workers=base.workers,
        ),
        openapi=OpenAPI(shown, base.workers),
        issuer=base.credentials,
        debug=debug,
    )


def _certificates(base: Foundation) -> str:
    from pykcp.programs.kit.certificates import describe_certificates

    return describe_certificates(base.settings, base.credentials.serving.certificate_file)


async def _consistency(store: Store) -> str:
    from pykcp.programs.shard.consistency import check

    return str(await check(store, is_running=True))
