"""Virtual resources: bound resources whose objects a virtual workspace has.

The export says which slice names its addresses. A request goes there with the caller's name;
within this process it is handed over, otherwise it is forwarded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.kcp.endpoints import (
    HOPS_HEADER,
    MAX_HOPS,
    BadEndpoints,
    NoEndpoints,
    endpoints_of,
    pick_url,
    read_hops,
)
from pykcp.machinery.meta import labels
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import BadRequest, InternalError, NotFound
from pykcp.registry.catalog.bindings import VirtualStorage
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.resource import Resource
from pykcp.registry.shards import KnownShards
from pykcp.server.call import Call
from pykcp.server.mount import SERVICES, ServiceRoutes
from pykcp.types import Object

_OLD_KINDS = {"CachedResourceEndpointSlice": "ClusterCachedResourceEndpointSlice"}

ForwardCall = Callable[[Call, str, int], Awaitable[None]]
"""Forwards a request to a URL; with how often it has been forwarded by then."""


class VirtualResources:
    def __init__(
        self,
        bound: BoundResources,
        directory: Directory,
        lookup: ObjectLookup,
        shard: str,
        services: ServiceRoutes,
        forward: ForwardCall,
    ) -> None:
        self._bound, self._directory, self._lookup = bound, directory, lookup
        self._shard, self._services, self._forward = shard, services, forward

    async def serve(self, call: Call) -> None:
        info = call.info
        name = f"{info.resource}.{info.group or 'core'}"
        if call.cluster == WILDCARD:
            raise BadRequest("Wildcard request not supported")
        found = self._bound.virtual_storage(call.cluster, info.group, info.resource)
        if found is None:
            raise NotFound.path()
        hops = call.hops or read_hops(call.exchange.request.header(HOPS_HEADER))
        if hops >= MAX_HOPS:
            raise InternalError(_circle(name, hops))
        own, url = self._url(found, name)
        path = url[len(own) :] if own and url.startswith(own) else ""
        if path.startswith(SERVICES):
            inside = f"{path}/clusters/{call.cluster}{info.path}"
            await self._services.hand_over(call, inside, hops + 1)
        else:
            await self._forward(call, f"{url}/clusters/{call.cluster}", hops + 1)

    def _url(self, found: VirtualStorage, name: str) -> tuple[str, str]:
        """This shard's own address, and the one that has the resource."""
        shard = KnownShards(self._lookup).get(self._shard) or {"metadata": {}}
        own = ((shard.get("spec") or {}).get("virtualWorkspaceURL") or "").rstrip("/")
        try:
            endpoints = endpoints_of(self._slice(found))
            return own, pick_url(own, labels(shard), endpoints).rstrip("/")
        except NoEndpoints as error:
            raise InternalError(
                f"error resolving resource {name}; please contact APIExport owner to resolve"
            ) from error
        except BadEndpoints as error:
            raise InternalError(f"error resolving resource: {error}") from error

    def _slice(self, found: VirtualStorage) -> Object:
        reference = found.storage.get("reference") or {}
        group, kind = reference.get("apiGroup") or "", reference.get("kind") or ""
        cluster, name = found.bound.export_cluster, reference.get("name") or ""
        resource = self._resource(cluster, group, _OLD_KINDS.get(kind, kind))
        if resource is None:
            raise BadEndpoints(f'no matches for kind "{kind}" in group "{group}"')
        entry = resource.entry(cluster, "", name)
        if entry is not None:
            return resource.object_of(entry.value)
        gvr = GroupVersionResource(resource.group, resource.version, resource.plural)
        replicated = self._lookup.replica.get(gvr, cluster, name) if self._lookup.replica else None
        if replicated is None:
            raise BadEndpoints(f'{resource.plural}.{group} "{name}" not found')
        return replicated

    def _resource(self, cluster: str, group: str, kind: str) -> Resource | None:
        for definition in self._directory.definitions(cluster):
            if (definition.group, definition.kind) == (group, kind) and definition.versions:
                version = definition.versions[0]
                return self._directory.find(cluster, group, version, definition.plural)
        return None


def _circle(name: str, hops: int) -> str:
    return (
        f"request for {name} has been forwarded {hops} times without being served: "
        "the virtual workspace advertised for it delegates it back to this shard. "
        "Check that the endpoint slice referenced by the APIExport points at a virtual workspace "
        f"that serves {name}, and that --shard-virtual-workspace-url does not point back at this "
        "shard"
    )
