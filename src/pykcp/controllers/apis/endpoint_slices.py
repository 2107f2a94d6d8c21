"""kcp-apiexportendpointslice: validates the export and the partition of a slice.

Which shards it is about stays in its status, so that other shards need not know partitions.
"""

from __future__ import annotations

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.objects import ApiObjects, export_reference
from pykcp.controllers.apis.parts import with_reference
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import drop, mark_false, mark_true
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_EXPORT_ENDPOINT_SLICES, API_EXPORTS, PARTITIONS
from pykcp.machinery.status import NotFound, go_quote
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.apis import slices_of, slices_with_partition
from pykcp.types import Object

NAME = "kcp-apiexportendpointslice"
EXPORT_VALID, PARTITION_VALID = "APIExportValid", "PartitionValid"


class EndpointSlices:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._now = objects, client, now
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(API_EXPORT_ENDPOINT_SLICES, self._on_slice)
        feed.on(API_EXPORTS, self._on_export)
        feed.on(PARTITIONS, self._on_partition)
        replica = self._objects.lookup.replica
        if replica is not None:
            replica.follow(API_EXPORTS, self._on_published_export)

    def _on_slice(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_export(self, change: Change) -> None:
        if not (change.created or change.deleted):
            return
        path = meta.annotation(with_reference(change.value), PATH_ANNOTATION)
        for where in {change.cluster, path} - {""}:
            self._add_all(slices_of(where, change.name))

    def _on_published_export(self, cluster: str, name: str) -> None:
        path = self._objects.lookup.canonical_path(cluster)
        for where in {cluster, path}:
            self._add_all(slices_of(where, name))

    def _on_partition(self, change: Change) -> None:
        self._add_all(slices_with_partition(change.cluster, change.name))

    def _add_all(self, index: str) -> None:
        add_indexed(
            self.controller, self._objects.lister, index, API_EXPORT_ENDPOINT_SLICES, key_of
        )

    async def reconcile(self, key: ObjectKey) -> None:
        found = await self._client.get(key.cluster, API_EXPORT_ENDPOINT_SLICES, key.name)
        if found is None:
            return
        after = {**found, "status": dict(found.get("status") or {})}
        await self._judge(key.cluster, after, self._now())
        if after["status"] == (found.get("status") or {}):
            return
        try:
            await self._client.update(key.cluster, API_EXPORT_ENDPOINT_SLICES, after, "status")
        except NotFound:
            return

    async def _judge(self, cluster: str, found: Object, now: str) -> None:
        drop(found, "ErrorGeneratingURLs")
        path, name = export_reference(found) or ("", "")
        if not self._objects.has_export(cluster, path, name):
            found["status"].pop("endpoints", None)
            message = f"Error getting APIExport {path or cluster}|{name}"
            mark_false(found, EXPORT_VALID, "APIExportNotFound", message, now)
            return
        mark_true(found, EXPORT_VALID, now)
        partition = (found.get("spec") or {}).get("partition") or ""
        text = await selector_of_partition(self._client, cluster, partition)
        if isinstance(text, Exception):
            if isinstance(text, MissingPartition):
                found["status"].pop("endpoints", None)
            _invalid_partition(found, str(text), now)
            return
        mark_true(found, PARTITION_VALID, now)
        if text:
            found["status"]["shardSelector"] = text
        else:
            found["status"].pop("shardSelector", None)


class MissingPartition(LookupError):
    """A slice names a partition that is not there."""


async def selector_of_partition(client: Client, cluster: str, name: str) -> str | Exception:
    """The shards that a partition selects, "" for all of them; or what is wrong with it."""
    if not name:
        return ""
    there = await client.get(cluster, PARTITIONS, name)
    if there is None:
        return MissingPartition(f"partition.topology.kcp.io {go_quote(name)} not found")
    selector = (there.get("spec") or {}).get("selector")
    try:
        return str(from_label_selector(selector)) if selector is not None else ""
    except SelectorError as error:
        return error


def _invalid_partition(found: Object, message: str, now: str) -> None:
    mark_false(found, PARTITION_VALID, "PartitionInvalidReference", message, now)
