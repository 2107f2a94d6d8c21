"""The HTTP side of a shard: its server, with what stands before and around the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykcp.aio.owner import TaskOwner, describe
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.authz.chain import Authorizer
from pykcp.clients.outbound import Outbound
from pykcp.observe.metrics import Registry
from pykcp.programs.shard.clusters import ShardClusters
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.egress import Egress
from pykcp.programs.shard.settings import ShardSettings
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.old_names import WithOldNames
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.server.app import ApiServer
from pykcp.server.chain import OwnParts, SharedParts
from pykcp.server.dispatch import Dispatcher, RemoteResources, StoredVerbs
from pykcp.server.documents.discovery import Discovery
from pykcp.server.documents.openapi import OpenAPI
from pykcp.server.filters.authorization import CallAuthorization
from pykcp.server.filters.clusters import ClusterPresence, ClusterResolver
from pykcp.server.filters.flow_control import FlowControl
from pykcp.server.filters.homes import HomeWorkspaces
from pykcp.server.filters.impersonation import Impersonation
from pykcp.server.filters.mounts import MountProxy
from pykcp.server.health import Health
from pykcp.server.metrics import RequestMetrics
from pykcp.server.paths import DebugView, PathHandlers
from pykcp.server.subresources import Answered
from pykcp.storage.interface import Store
from pykcp.workers.pool import WorkerPool

if TYPE_CHECKING:
    from pykcp.server.filters.audit import AuditFilter


def make_audit(settings: ShardSettings, store: Store, metrics: Registry) -> AuditFilter | None:
    trail = settings.audit.make_trail()
    if trail is None:
        return None
    from pykcp.server.filters.audit import AuditFilter
    from pykcp.server.filters.workspace_paths import WorkspacePaths

    metrics.add(*trail.metrics)
    trail.start()
    return AuditFilter(trail, WorkspacePaths(store).of)


class ServingParts(NamedTuple):
    server: ApiServer
    shared: SharedParts
    resolver: ClusterResolver
    verbs: StoredVerbs
    presence: ClusterPresence


def make_server(  # a composition root: every part by name
    settings: ShardSettings,
    store: Store,
    directory: Directory,
    authentication: Authentication,
    authorizer: Authorizer,
    clusters: ShardClusters,
    credentials: Credentials,
    health: Health,
    metrics: Registry,
    client: LocalClient,
    owner: TaskOwner,
    audit: AuditFilter | None,
    lookup: ObjectLookup,
    workers: WorkerPool | None,
    egress: Egress,
    remote: RemoteResources | None,
) -> ServingParts:
    authorization = CallAuthorization(authorizer, Impersonation(authorizer))
    homes = None
    if settings.tenancy.enable_home_workspaces:
        homes = HomeWorkspaces(store, client, lookup, authorizer, authorization)
    mounts = MountProxy(
        egress.mounts,
        settings.egress.mount_proxy_client_cert_file,
        settings.egress.mount_proxy_client_key_file,
        settings.egress.mount_proxy_ca_file,
        authentication.is_proxied,
    )
    shown = WithOldNames(directory) if "CacheAPIs" in settings.features.gates else directory
    flow = _flow_control(settings, metrics)
    debug: dict[str, DebugView] = {
        "/debug/tasks": describe,
        "/debug/fsck": lambda: _consistency(store),
    }
    if flow is not None:
        debug["/debug/flow"] = flow.describe
    paths = PathHandlers(
        health=health,
        metrics=metrics,
        discovery=Discovery(shown, lambda: credentials.address),
        openapi=OpenAPI(shown, workers),
        issuer=credentials,
        debug=debug,
    )
    resolver = ClusterResolver(clusters, authorization, mounts)
    verbs = StoredVerbs(Answered(authentication, authorizer, credentials.policy, client))
    shared = SharedParts(authentication, RequestMetrics(metrics), flow, audit)
    own = OwnParts(resolver, authorization, clusters.check, homes)
    dispatcher = Dispatcher(directory, paths, verbs, authorization, remote)
    return ServingParts(
        ApiServer(shared, own, dispatcher.handle), shared, resolver, verbs, clusters.check
    )


async def _consistency(store: Store) -> str:
    from pykcp.programs.shard.consistency import check

    return str(await check(store, is_running=True))


def workspace_sign_in(
    settings: ShardSettings,
    credentials: Credentials,
    lookup: ObjectLookup,
    owner: TaskOwner,
    outbound: Outbound,
) -> list[TokenAuthenticator]:
    """Issuers that types of workspaces bring, if they may."""
    if not settings.features.feature_gates.get("WorkspaceAuthentication"):
        return []
    from pykcp.auth.authn.workspace import WorkspaceTokens
    from pykcp.programs.shard.workspace_sign_in import StoredConfigurations

    tokens = WorkspaceTokens(StoredConfigurations(lookup), credentials.audiences, outbound)
    owner.start_restartable("workspace-sign-in", tokens.run)
    return [tokens]


def _flow_control(settings: ShardSettings, metrics: Registry) -> FlowControl | None:
    limits = settings.fairness.flow_settings()
    return None if limits is None else FlowControl(limits, metrics)
