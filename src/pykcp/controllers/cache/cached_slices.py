"""kcp-clustercachedresourceendpointslice: validates slices and maintains their URLs.

A slice names a ClusterCachedResource and the export that offers it. A shard's address is in it
while the export is bound on the shard.
"""

from __future__ import annotations

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.apiexport import service_url
from pykcp.controllers.apis.endpoint_slices import selector_of_partition
from pykcp.controllers.apis.endpoint_urls import is_judged, my_shard, show_url
from pykcp.controllers.apis.objects import ApiObjects, ExportName
from pykcp.controllers.apis.published_slices import PublishedSlices
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import follow_shards
from pykcp.machinery import labels, meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES,
    CLUSTER_CACHED_RESOURCES,
    PARTITIONS,
)
from pykcp.machinery.status import NotFound
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import copy as deep_copy
from pykcp.registry.codec import decode
from pykcp.registry.indexes.cache import slices_for, slices_of, slices_with_partition
from pykcp.types import Object

NAME = "kcp-clustercachedresourceendpointslice"
SLICE_KINDS = frozenset(("ClusterCachedResourceEndpointSlice", "CachedResourceEndpointSlice"))
"""As exports may call it; the second is the older name."""
RESOURCE_VALID, EXPORT_VALID, PARTITION_VALID = "ResourceValid", "APIExportValid", "PartitionValid"


class CachedSlices:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        published: PublishedSlices,
        shard: str,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`published`: the slices of other shards."""
        self._objects, self._client, self._shard, self._now = objects, client, shard, now
        self._published = published
        self._are_any = False
        """Whether there are slices at all; otherwise bindings come and go unseen."""
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES, self._on_slice)
        feed.on(CLUSTER_CACHED_RESOURCES, self._on_resource)
        feed.on(API_EXPORTS, self._on_export)
        feed.on(API_BINDINGS, self._on_binding)
        feed.on(PARTITIONS, self._on_partition)
        follow_shards(feed, self._on_shard)
        self._published.follow(self._on_published, self._add_everything)
        replica = self._objects.lookup.replica
        if replica is not None:
            replica.follow(API_EXPORTS, self._on_published_export)
            replica.follow(CLUSTER_CACHED_RESOURCES, self._on_published_resource)
        feed.at_start(self._resume)

    async def _resume(self) -> None:
        self._add_everything()

    def _add_everything(self) -> None:
        for key in self._objects.lister.keys(CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES):
            self._are_any = True
            self.controller.add(key)
        for key in self._published.all():
            self._on_published(key)

    def _on_published(self, key: ObjectKey) -> None:
        self._are_any = True
        self.controller.add(key)

    def _on_slice(self, change: Change) -> None:
        self._are_any = True
        if not change.deleted:
            self.controller.add(change.key)

    def _on_resource(self, change: Change) -> None:
        if change.created or change.deleted:
            for where in _places(change.cluster, change):
                self._add_all(slices_of(where, change.name))

    def _on_export(self, change: Change) -> None:
        if self._are_any:
            for where in _places(change.cluster, change):
                self._add_all(slices_for(where, change.name))

    def _on_published_export(self, cluster: str, name: str) -> None:
        if self._are_any:
            for where in {cluster, self._objects.lookup.canonical_path(cluster)}:
                self._add_all(slices_for(where, name))

    def _on_published_resource(self, cluster: str, name: str) -> None:
        if self._are_any:
            for where in {cluster, self._objects.lookup.canonical_path(cluster)}:
                self._add_all(slices_of(where, name))

    def _on_binding(self, change: Change) -> None:
        if not self._are_any or not (change.created or change.deleted):
            return
        binding = decode(change.value)
        export = ((binding.get("spec") or {}).get("reference") or {}).get("export") or {}
        path = export.get("path") or change.cluster
        lookup = self._objects.lookup
        cluster = lookup.cluster_of(path)
        canonical = lookup.canonical_path(cluster) if cluster else ""
        for where in {path, cluster or "", canonical} - {""}:
            index = slices_for(where, export.get("name") or "")
            self._add_all(index)
            for key in self._published.find(index):
                self.controller.add(key)

    def _on_partition(self, change: Change) -> None:
        self._add_all(slices_with_partition(change.cluster, change.name))

    def _on_shard(self, _: Change) -> None:
        self._add_everything()

    def _add_all(self, index: str) -> None:
        kind = CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES
        add_indexed(self.controller, self._objects.lister, index, kind, key_of)

    async def reconcile(self, key: ObjectKey) -> None:
        kind = CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES
        found = await self._client.get(key.cluster, kind, key.name)
        if found is None:
            return await self._reconcile_published(key)
        after = deep_copy(found)
        status = after.setdefault("status", {})
        export = await self._judge(key.cluster, after)
        if export is None:
            status.pop("endpoints", None)
        else:
            self._show_url(key, after, export, manager=NAME)
        if after["status"] == (found.get("status") or {}):
            return None

        def change(live: Object) -> None:
            live["status"] = after["status"]

        try:
            await self._client.change(key.cluster, kind, key.name, change, subresource="status")
        except NotFound:
            return None

    async def _reconcile_published(self, key: ObjectKey) -> None:
        """A slice of another shard, which judges it: only this shard's URL is maintained here."""
        found = self._published.get(key)
        if found is None or not is_judged(found):
            return
        path, name = _reference((found.get("spec") or {}).get("export") or {}, key.cluster)
        export = self._objects.export(key.cluster, path, name)
        if export is None:
            return

        def show(live: Object) -> None:
            self._show_url(key, live, export, manager=self._shard)

        after = deep_copy(found)
        show(after)
        if after != found:
            await self._published.change_status(found, show)

    async def _judge(self, cluster: str, found: Object) -> Object | None:
        """The export, if everything that the slice refers to is as it should be."""
        spec, now, lookup = found.get("spec") or {}, self._now(), self._objects.lookup
        path, name = _reference(spec.get("clusterCachedResource") or {}, cluster)
        if lookup.find(CLUSTER_CACHED_RESOURCES, path, name) is None:
            text = f"Error getting ClusterCachedResource {path}|{name}"
            mark_false(found, RESOURCE_VALID, "ClusterCachedResourceNotFound", text, now)
            return None
        mark_true(found, RESOURCE_VALID, now)
        path, name = _reference(spec.get("export") or {}, cluster)
        export = self._objects.export(cluster, path, name)
        if export is None or not offers(export, meta.name(found)):
            problem = (
                "not found"
                if export is None
                else "does not reference this ClusterCachedResourceEndpointSlice"
            )
            text = f"APIExport {path}|{name} {problem}"
            mark_false(found, EXPORT_VALID, "APIExportInvalidReference", text, now)
            return None
        mark_true(found, EXPORT_VALID, now)
        selector = await selector_of_partition(self._client, cluster, spec.get("partition") or "")
        if isinstance(selector, Exception):
            mark_false(found, PARTITION_VALID, "PartitionInvalidReference", str(selector), now)
            return None
        mark_true(found, PARTITION_VALID, now)
        if selector:
            found["status"]["shardSelector"] = selector
        else:
            found["status"].pop("shardSelector", None)
        return export

    def _show_url(self, key: ObjectKey, found: Object, export: Object, *, manager: str) -> None:
        """`manager`: who writes this shard's URLs into the slice."""
        shard = my_shard(self._objects.lookup, self._shard)
        url = service_url(shard, "replication", key.cluster, key.name) if shard else ""
        if shard is None or not url:
            return
        status = found.setdefault("status", {})
        selector = labels.parse(status.get("shardSelector") or "")
        is_bound = self._objects.is_bound(ExportName(meta.cluster(export), meta.name(export)))
        if is_bound and not selector.matches(meta.labels(shard)):
            return  # keep the URL while it is being deleted, so that its users can finish
        show_url(found, url=url, is_wanted=is_bound, manager=manager)


def _reference(reference: Object, cluster: str) -> tuple[str, str]:
    return reference.get("path") or cluster, reference.get("name") or ""


def _places(cluster: str, change: Change) -> set[str]:
    """How others may write where an object is."""
    return {cluster, meta.annotation(decode(change.value), PATH_ANNOTATION)} - {""}


def offers(export: Object, name: str) -> bool:
    """Whether an export has a resource that is read through this slice."""
    for resource in (export.get("spec") or {}).get("resources") or ():
        virtual = (resource.get("storage") or {}).get("virtual") or {}
        reference = virtual.get("reference") or {}
        if (
            reference.get("name") == name
            and reference.get("apiGroup") == CLUSTER_CACHED_RESOURCES.group
            and reference.get("kind") in SLICE_KINDS
        ):
            return True
    return False
