"""`/services/replication/<cluster>/<endpoint slice>/clusters/<consumer>/…`: cached objects.

A provider publishes objects of its workspace through the cache. Consumers of its export see
them here as if they were in their own workspace, and can only read them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.loader import shared_type
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.cache.completeness import has_all_copies
from pykcp.cache.scopes import join
from pykcp.cache.server import Cache
from pykcp.caching import BoundedCache
from pykcp.controllers.cache.replication_plan import ORIGINAL_UID, ORIGINAL_VERSION
from pykcp.machinery.conditions import is_true
from pykcp.machinery.kcp import resource_locks
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    CLUSTER_CACHED_RESOURCES,
    GroupVersionResource,
)
from pykcp.machinery.schema.crd import SchemaStore, definition_from_resource_schema
from pykcp.machinery.status import BadRequest, TooManyRequests
from pykcp.registry.lookup import CLUSTER_ANNOTATION
from pykcp.registry.resource import Conversion, Resource
from pykcp.server.call import Call, Handler
from pykcp.types import Object
from pykcp.virtual.framework import (
    DENIED,
    Parts,
    VirtualView,
    Visit,
    restricted,
    split_clusters,
    split_head,
)

_KEEP = 256
_READ = ("get", "list", "watch")
_SHARD_ANNOTATION = "kcp.io/shard"
_SLICES = frozenset(
    (
        ("cache.kcp.io", "ClusterCachedResourceEndpointSlice"),
        ("cache.kcp.io", "CachedResourceEndpointSlice"),  # its older name
    )
)


class ReplicationWorkspace:
    name = "replication"
    checks: tuple[str, ...] = ("replication",)

    def __init__(self, parts: Parts, cache: Cache, shard: str) -> None:
        self._source = ReplicationSource(parts, cache, shard, SchemaStore(shared_type))
        self._views: BoundedCache[tuple[str, str], ReplicationView] = BoundedCache(
            "replication-views", _KEEP
        )

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 2)
        place = split_clusters(head[2]) if head is not None else None
        if head is None or place is None:
            return None
        key = head[0], head[1]
        view = self._views.get(key)
        if view is None:
            view = self._views.put(key, ReplicationView(*key, self._source))
        return Visit(view, *place)


class ReplicationSource(NamedTuple):
    parts: Parts
    cache: Cache
    shard: str
    """The name of this one."""
    schemas: SchemaStore


class PublishedResource(NamedTuple):
    """What an endpoint slice stands for."""

    kind: GroupVersionResource
    identity: str
    place: str
    """Where in the cache the objects are."""
    name: str
    """Of the ClusterCachedResource."""
    schema: Object


class ReplicationView(VirtualView):
    def __init__(self, cluster: str, name: str, source: ReplicationSource) -> None:
        self._cluster, self._name = cluster, name
        self._source = source
        self._shown: tuple[str, ResourceDefinition] | None = None

    def exists(self) -> bool:
        return self._published() is not None

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        published = self._published()
        if published is None or published.kind != (group, version, plural):
            return None
        directory = self._source.cache.directory
        base = directory.find(published.place, group, version, plural, published.identity)
        if base is None:
            return None
        return base.viewed(
            definition=self._definition(published),
            shown_in=call_cluster,
            conversion=_as_in(call_cluster),
        )

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        published = self._published()
        return (self._definition(published),) if published is not None else ()

    def _definition(self, published: PublishedResource) -> ResourceDefinition:
        uid, version = published.schema["metadata"]["uid"], published.kind.version
        if self._shown is None or self._shown[0] != uid:
            whole = definition_from_resource_schema(published.schema, self._source.schemas)
            only = replace(whole, all_versions=(whole.version(version),), storage_version=version)
            self._shown = uid, restricted(only, _READ, {})
        return self._shown[1]

    def _published(self) -> PublishedResource | None:
        found = self._slice()
        if found is None or not (is_true(found, "APIExportValid") and _is_valid(found)):
            return None
        lookup = self._source.parts.lookup
        reference = (found.get("spec") or {}).get("clusterCachedResource")
        if reference is None:
            return None  # other controllers write conditions, too
        cached = lookup.find(
            CLUSTER_CACHED_RESOURCES, reference.get("path") or self._cluster, reference["name"]
        )
        export = self._export(found)
        entry = self._entry(export) if export is not None else None
        if cached is None or export is None or entry is None:
            return None
        home = export["metadata"]["annotations"][CLUSTER_ANNOTATION]
        schema = lookup.get(API_RESOURCE_SCHEMAS, home, entry["schema"])
        spec = cached["spec"]
        version = spec.get("version") or ""
        kind = GroupVersionResource(spec.get("group") or "", version, spec["resource"])
        if schema is None or not _serves(schema, kind.version):
            return None
        annotations = cached["metadata"]["annotations"]
        shard = annotations.get(_SHARD_ANNOTATION) or self._source.shard
        place = join(shard, annotations[CLUSTER_ANNOTATION])
        identity = (cached.get("status") or {}).get("identityHash") or ""
        return PublishedResource(kind, identity, place, cached["metadata"]["name"], schema)

    def _slice(self) -> Object | None:
        kind = CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES
        return self._source.parts.lookup.get(kind, self._cluster, self._name)

    def _export(self, endpoint_slice: Object) -> Object | None:
        reference = endpoint_slice["spec"]["export"]
        path = reference.get("path") or self._cluster
        return self._source.parts.lookup.find(API_EXPORTS, path, reference["name"])

    def _entry(self, export: Object) -> Object | None:
        """The export's resource that is served from this slice."""
        for entry in (export.get("spec") or {}).get("resources") or ():
            reference = ((entry.get("storage") or {}).get("virtual") or {}).get("reference") or {}
            kind = reference.get("apiGroup") or "", reference.get("kind")
            if kind in _SLICES and reference.get("name") == self._name:
                found: Object = entry
                return found
        return None

    async def authorize(self, call: Call) -> Decision:
        found = self._slice()
        export = self._export(found) if found is not None else None
        if call.info.verb not in _READ or export is None:
            return DENIED
        into_one = call.info.is_resource and call.cluster != WILDCARD
        if into_one and not self._is_bound(call.cluster, export):
            return DENIED
        question = Attributes(
            call.user,
            call.info.verb,
            group=API_EXPORTS.group,
            resource=API_EXPORTS.resource,
            subresource="content",
            name=export["metadata"]["name"],
            version="v1alpha1",
        )
        home = export["metadata"]["annotations"][CLUSTER_ANNOTATION]
        decision = await self._source.parts.authorizer.authorize(home, question)
        return decision if decision.allowed else DENIED

    def _is_bound(self, consumer: str, export: Object) -> bool:
        """Whether the consumer has the resource from a binding to this export."""
        lookup = self._source.parts.lookup
        cluster, entry = lookup.logical_cluster(consumer), self._entry(export)
        if cluster is None or entry is None:
            return False
        annotations = cluster["metadata"].get("annotations") or {}
        locks = resource_locks.parse(annotations.get(resource_locks.ANNOTATION) or "")
        lock = locks.get(resource_locks.lock_name(entry.get("group") or "", entry["name"]))
        binding = lookup.get(API_BINDINGS, consumer, lock.binding) if lock is not None else None
        if binding is None:
            return False
        metadata, status = export["metadata"], binding.get("status") or {}
        reference = binding["spec"]["reference"]["export"]["name"]
        home = metadata["annotations"][CLUSTER_ANNOTATION]
        return (status.get("apiExportClusterName"), reference) == (home, metadata["name"])

    async def enter(self, call: Call) -> None:
        if call.info.is_resource and call.cluster == WILDCARD:
            raise BadRequest("Wildcard request not supported")
        published = self._published()
        if call.info.is_resource and published is not None and not self._is_filled(published):
            raise TooManyRequests("storage is (re)initializing", retry_after=1)

    def _is_filled(self, published: PublishedResource) -> bool:
        """Whether the cache has all objects; a list without some would be taken for deletions."""
        kind, (_, cache, shard, _) = published.kind, self._source
        copies = resource_id(kind.group, kind.resource, published.identity)
        return has_all_copies(cache.store, shard, published.place, published.name, copies)

    def handler(self, call: Call) -> Handler | None:
        published = self._published()
        if published is not None:
            call.cluster = published.place  # the registry reads there
        return None


def _is_valid(endpoint_slice: Object) -> bool:
    return is_true(endpoint_slice, "ResourceValid")


def _serves(schema: Object, version: str) -> bool:
    return any(v["name"] == version and v.get("served", True) for v in schema["spec"]["versions"])


def _as_in(consumer: str) -> Conversion:
    """Objects as if they were the consumer's own."""

    def shown(obj: Object) -> Object:
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations[CLUSTER_ANNOTATION] = consumer
        for key in (_SHARD_ANNOTATION, ORIGINAL_UID, ORIGINAL_VERSION):
            annotations.pop(key, None)
        return obj

    return Conversion(to_storage=lambda obj: obj, from_storage=shown)
