"""The cache server: an API server like any other, with shards in its paths.

It has its own store, directory and rules (none); list, watch, patch, apply and tables are the
registry's. Only system:masters is let in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import ClusterRules, RoleCache
from pykcp.cache.kinds import CLUSTER_FIELD, make_cached, served_definitions
from pykcp.cache.replica import CacheReplica
from pykcp.cache.scopes import (
    ScopedPath,
    check_cluster,
    check_shard,
    join,
    split_path,
    watched_prefixes,
)
from pykcp.cache.synthesized import SynthesizedResources
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.observe.metrics import Registry
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.keys import WILDCARD
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.watch.hub import WatchHub
from pykcp.server import request_info
from pykcp.server.app import ApiServer
from pykcp.server.call import Call
from pykcp.server.chain import OwnParts, SharedParts
from pykcp.server.dispatch import Dispatcher, StoredVerbs
from pykcp.server.documents.discovery import Discovery
from pykcp.server.documents.openapi import OpenAPI
from pykcp.server.filters.authorization import CallAuthorization
from pykcp.server.filters.impersonation import Impersonation
from pykcp.server.health import Health
from pykcp.server.media.answers import PageNotFound, PlainError
from pykcp.server.metrics import RequestMetrics
from pykcp.server.paths import PathHandlers
from pykcp.server.request_info import RequestInfo
from pykcp.storage.interface import Store

_ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")
_WITHOUT_SHARD = (*_ALWAYS_ALLOWED, "/metrics")


@dataclass(frozen=True, slots=True)
class Cache:
    """The parts of a cache server."""

    store: Store
    hub: WatchHub
    directory: Directory
    client: LocalClient
    """Writes and reads; its clusters are places (`scopes.join`)."""
    replica: CacheReplica
    health: Health
    services: Services


def make_cache(store: Store, own_shard: str = "") -> Cache:
    """Everything but HTTP, on a started store; `own_shard` is that in whose process it is."""
    hub = WatchHub(store, asyncio.get_running_loop(), watched_prefixes)
    services = Services(store, hub, NoAdmission(), Sources(now=Timestamps(time.time)))

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_cached(definition, version, services)

    directory = CacheDirectory(served_definitions(), make)
    directory.add_source(SynthesizedResources(store, make))
    health = Health()
    health.add("etcd", store.health)
    client = CacheClient(directory, "system:kcp:cache")
    replica = CacheReplica(store, own_shard)
    return Cache(store, hub, directory, client, replica, health, services)


class CacheDirectory(Directory):
    """What has an identity is another resource than its namesake without."""

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str = ""
    ) -> Resource | None:
        if identity:
            for source in self._sources:
                found = source.find(cluster, group, version, plural, identity)
                if found is not None:
                    return found
        return super().find(cluster, group, version, plural, identity)


class CacheClient(LocalClient):
    """Takes `resource:identity` for a resource, as paths do."""

    def resource(self, cluster: str, kind: GroupVersionResource) -> Resource:
        plural, _, identity = kind.resource.partition(":")
        found = self._directory.find(cluster, kind.group, kind.version, plural, identity)
        if found is None:
            raise NotFound(f"{kind} is not served in {cluster}")
        return found


def make_server(
    cache: Cache,
    authentication: Authentication,
    metrics: Registry,
    address: Callable[[], str],
    always_allow_paths: tuple[str, ...] = _ALWAYS_ALLOWED,
) -> ApiServer:
    """The HTTP side."""
    authorizer = Authorizer(
        RbacChain(RoleCache(_no_rules)),
        order=("AlwaysAllowGroups", "AlwaysAllowPaths"),
        always_allow_paths=always_allow_paths,
    )
    paths = PathHandlers(
        health=cache.health,
        metrics=metrics,
        discovery=Discovery(cache.directory, address),
        openapi=OpenAPI(cache.directory),
        issuer=_NoIssuer(),
        debug={},
    )
    authorization = CallAuthorization(authorizer, Impersonation(authorizer))
    return ApiServer(
        SharedParts(authentication, RequestMetrics(metrics)),
        OwnParts(_Places(), authorization, presence=_everywhere),
        Dispatcher(cache.directory, paths, StoredVerbs(), authorization).handle,
        _parse,
    )


def _parse(method: str, raw_path: str, raw_query: str) -> RequestInfo:
    """Paths have a shard in front of the cluster, which `_Places` reads."""
    cluster, path = request_info.split_cluster(_scoped(raw_path).path or "/")
    base = raw_path[: -len(path)] if raw_path.endswith(path) else ""
    return request_info.understand(method, path, raw_query, cluster=cluster, base=base)


def _scoped(path: str) -> ScopedPath:
    return split_path(unquote(path) if "%" in path else path)


class _Places:
    """From shard and cluster of a path to the place that the registry knows."""

    def is_forwarded(self, path: str) -> bool:
        return False

    def resolve(self, call: Call) -> None:
        scoped = _scoped(call.exchange.request.path)
        info = call.info
        is_bare = scoped.shard is None and not info.cluster
        if is_bare and info.path in _WITHOUT_SHARD:
            return
        shard = check_shard(scoped)
        if info.path == "/metrics":
            raise _ShardLevel
        if not info.cluster:
            raise NotFound.path()
        check_cluster(info.cluster)
        call.cluster = join(shard, info.cluster)
        if shard == WILDCARD != info.cluster:
            _narrow(info)


def _narrow(info: RequestInfo) -> None:
    """One cluster on whichever shard: all of them, narrowed by a field."""
    given = info.param("fieldSelector")
    wanted = f"{CLUSTER_FIELD}={info.cluster}"
    info.query["fieldSelector"] = [f"{given},{wanted}" if given else wanted]


class _ShardLevelPath(PlainError):
    code = 501


_ShardLevel = _ShardLevelPath("shard-level endpoint not available at shard or workspace scope")


def _everywhere(call: Call) -> None:
    """Logical clusters are not checked: they are on other shards."""


class _NoIssuer:
    def configuration(self) -> bytes:
        raise PageNotFound

    def keys(self) -> bytes:
        raise PageNotFound


async def _no_rules(_: str) -> ClusterRules:
    return ClusterRules()
