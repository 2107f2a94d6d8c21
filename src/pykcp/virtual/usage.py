"""`/services/usage/clusters/<workspace>/…`: what a workspace holds. Not in kcp.

Objects and bytes are counted in the store when they are requested: nothing is kept up to date for
workspaces that are not asked about. Requests at the same time share one count of a workspace, and
a count of many objects is used for a while: counting takes a tenth of the time at most.
In `root` the reports of shards are listed, too.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache
from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kcp.shard_load import ShardLoad
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_BINDINGS, SHARDS
from pykcp.registry.catalog.make import make_custom
from pykcp.registry.cluster_content import HeldContent, measure
from pykcp.registry.keys import range_prefix, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.shards import KnownShards
from pykcp.registry.stored import StoreReader
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.listing import send_objects
from pykcp.types import Object
from pykcp.virtual.framework import OwnKind, Parts, VirtualView, Visit
from pykcp.virtual.tree import split_path

GROUP, VERSION, PLURAL = "usage.pykcp.dev", "v1alpha1", "resourceusages"
SHARD_PLURAL = "shardusages"
_COUNTS = 256
_REST = 10.0
"""How many times as long as it took to make a count it is used."""
_MANY_OBJECTS, _MANY_BYTES = 1000, 4 << 20
"""Fewer are counted for each request."""


class UsageWorkspace:
    name = "usage"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts) -> None:
        self._lookup = parts.lookup
        self._view = UsageView(parts)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", place[1])


class _Count(NamedTuple):
    usages: list[Object]
    revision: int
    usable_until: float


class UsageView(VirtualView):
    def __init__(self, parts: Parts) -> None:
        self._parts, self._shards = parts, KnownShards(parts.lookup)
        self._resources: dict[str, Resource] = {}
        self._counts: BoundedCache[str, _Count] = BoundedCache("usage", _COUNTS)
        self._counting: dict[str, asyncio.Event] = {}
        """Workspaces that are being counted; set at the end."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        usages = _usage_definition()
        return (usages, _shard_definition()) if cluster == clusters.ROOT else (usages,)

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        if (group, version) != (GROUP, VERSION):
            return None
        if plural not in self._resources:
            services = self._parts.directory.builtin(*API_BINDINGS).services
            for one in self.definitions(call_cluster):
                self._resources[one.plural] = make_custom(one, VERSION, 0, services)
        is_here = plural != SHARD_PLURAL or call_cluster == clusters.ROOT
        return self._resources.get(plural) if is_here else None

    async def authorize(self, call: Call) -> Decision:
        if call.info.resource == SHARD_PLURAL:
            question = Attributes(call.user, "list", group=SHARDS.group, resource=SHARDS.resource)
        else:
            question = Attributes(call.user, "list", group=GROUP, resource=PLURAL)
        return await self._parts.authorizer.authorize(call.cluster, question)

    def handler(self, call: Call) -> Handler:
        return self._list_shards if call.info.resource == SHARD_PLURAL else self._list

    def _list_shards(self, call: Call) -> None:
        now, found = time.time(), []
        for shard in self._shards.all():
            name = shard["metadata"]["name"]
            found.append(_shard_usage(name, self._shards.load(name), now))
        store = call.resource.services.store
        send_objects(call, found, {"resourceVersion": str(store.revision)})

    async def _list(self, call: Call) -> None:
        matches, cluster = call.select().matcher(), call.cluster
        count = await self._count(call.resource.services.store, cluster)
        found = [
            usage
            for usage in count.usages
            if matches is None or matches(call.resource.terms_of(usage, cluster))
        ]
        send_objects(call, found, {"resourceVersion": str(count.revision)})

    async def _count(self, store: StoreReader, cluster: str) -> _Count:
        while True:
            known = self._counts.get(cluster)
            if known is not None and time.monotonic() < known.usable_until:
                return known
            running = self._counting.get(cluster)
            if running is None:
                break
            await running.wait()
        self._counting[cluster] = over = asyncio.Event()
        try:
            began, revision = time.monotonic(), store.revision
            usages = await self._measured(store, cluster)
            now = time.monotonic()
            rest = _REST * (now - began) if _are_many(usages) else 0.0
            return self._counts.put(cluster, _Count(usages, revision, now + rest))
        finally:  # also if its request was cancelled: another one counts then
            del self._counting[cluster]
            over.set()

    async def _measured(self, store: StoreReader, cluster: str) -> list[Object]:
        directory = self._parts.directory
        await directory.load(cluster)
        found: list[Object] = []
        stored = {(*d.storage, d.identity): d for d in directory.definitions(cluster)}
        slices = Slices(cluster)
        for definition in sorted(stored.values(), key=lambda d: (d.plural, d.group)):
            if definition.ephemeral:
                continue
            prefix = range_prefix(
                resource_prefix(*definition.storage, definition.identity), cluster
            )
            held = await measure(store, prefix, slices)
            if held.objects:
                found.append(_usage(definition, held))
        return found


def _are_many(usages: list[Object]) -> bool:
    objects: int = sum(usage["status"]["objects"] for usage in usages)
    size: int = sum(usage["status"]["bytes"] for usage in usages)
    return objects > _MANY_OBJECTS or size > _MANY_BYTES


def _shard_usage(name: str, load: ShardLoad | None, now: float) -> Object:
    status: Object = {}
    if load is not None:
        status = {
            "logicalClusters": load.logical_clusters,
            "storeBytes": load.store_bytes,
            "reportedAt": meta.now_rfc3339(load.reported),
            "alive": load.is_alive(now),
        }
    head = {"kind": "ShardUsage", "apiVersion": f"{GROUP}/{VERSION}"}
    return {**head, "metadata": {"name": name}, "status": status}


def _usage(definition: ResourceDefinition, held: HeldContent) -> Object:
    plural, group = definition.plural, definition.group
    return {
        "kind": "ResourceUsage",
        "apiVersion": f"{GROUP}/{VERSION}",
        "metadata": {"name": f"{plural}.{group}" if group else plural},
        "spec": {"group": group, "resource": plural},
        "status": {"objects": held.objects, "bytes": held.size},
    }


@cache
def _usage_definition() -> ResourceDefinition:
    text, number = {"type": "string"}, {"type": "integer"}
    status = {
        "objects": {**number, "description": "Number of objects."},
        "bytes": {**number, "description": "Their size as JSON in the store."},
    }
    columns = (("Objects", "integer", ".status.objects"), ("Bytes", "integer", ".status.bytes"))
    spec = {"type": "object", "properties": {"group": text, "resource": text}}
    return OwnKind(
        GROUP,
        VERSION,
        PLURAL,
        "ResourceUsage",
        "What a workspace holds of a resource.",
        spec,
        {"type": "object", "properties": status},
        columns,
        verbs=("list",),
    ).definition()


@cache
def _shard_definition() -> ResourceDefinition:
    number = {"type": "integer"}
    status = {
        "logicalClusters": {**number, "description": "Logical clusters on the shard."},
        "storeBytes": {**number, "description": "Size of its store."},
        "reportedAt": {"type": "string", "description": "Time of its last report."},
        "alive": {"type": "boolean", "description": "Whether the last report is recent."},
    }
    columns = (
        ("Alive", "boolean", ".status.alive"),
        ("Clusters", "integer", ".status.logicalClusters"),
        ("Bytes", "integer", ".status.storeBytes"),
        ("Reported", "date", ".status.reportedAt"),
    )
    return OwnKind(
        GROUP,
        VERSION,
        SHARD_PLURAL,
        "ShardUsage",
        "What a shard last reported of itself.",
        {"type": "object"},
        {"type": "object", "properties": status},
        columns,
        verbs=("list",),
    ).definition()
