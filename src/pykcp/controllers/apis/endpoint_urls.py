"""kcp-apiexportendpointslice-urls: maintains the URLs of a slice, one per shard.

Every shard adds its own URL when the first binding of the export is made on it, and takes it
away with the last. A shard that left the slice's partition keeps its URL as long as it has
bindings: their controllers still need it. A URL under which the shard was reached before is
taken away; which ones are its own is known from the managers of the slice's fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.apiexport import service_url
from pykcp.controllers.apis.objects import ApiObjects, ExportName, export_reference
from pykcp.controllers.apis.parts import with_reference
from pykcp.controllers.apis.published_slices import PublishedSlices
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import follow_shards
from pykcp.machinery import labels, meta
from pykcp.machinery.conditions import TRUE, conditions_of
from pykcp.machinery.kcp.hashes import EXPORT_LABEL
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, API_EXPORT_ENDPOINT_SLICES
from pykcp.machinery.status import NotFound
from pykcp.machinery.terms import label_value
from pykcp.registry.indexes.apis import bindings_of, slices_of
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
from pykcp.types import Object

NAME = "kcp-apiexportendpointslice-urls"
_REMEMBER = 4096


def with_url(
    endpoints: list[Object],
    url: str,
    *,
    is_wanted: bool,
    former: frozenset[str] | set[str] = frozenset(),
) -> list[Object]:
    """The endpoints with this one, or without it, and without the shard's former ones."""
    unwanted = former - {url} if is_wanted else former | {url}
    kept = [one for one in endpoints if one.get("url") not in unwanted]
    if is_wanted and not any(one.get("url") == url for one in kept):
        return [*kept, {"url": url}]
    return kept if len(kept) < len(endpoints) else endpoints


def urls_of(found: Object, manager: str) -> set[str]:
    """The endpoints of a slice that this manager wrote."""
    urls = set()
    for entry in meta.metadata(found).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("subresource") == "status":
            fields = ((entry.get("fieldsV1") or {}).get("f:status") or {}).get("f:endpoints") or {}
            items = (orjson.loads(element[2:]) for element in fields if element.startswith("k:"))
            urls |= {item["url"] for item in items if "url" in item}
    return urls


class EndpointURLs:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        published: PublishedSlices,
        shard: str,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`client` writes as the shard of this name; `published`: the slices of other shards."""
        self._objects, self._client, self._shard = objects, client, shard
        self._published = published
        self._bound: BoundedCache[str, bool] = BoundedCache("bound-exports", _REMEMBER)
        """Exports that are known to have bindings here, by their label: the most recent ones."""
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(API_EXPORT_ENDPOINT_SLICES, self._on_slice)
        feed.on(API_BINDINGS, self._on_binding)
        follow_shards(feed, self._on_shard)
        self._published.follow(self.controller.add, self._add_everything)

    def _on_slice(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_binding(self, change: Change) -> None:
        """Only the first binding of an export and the last one matter."""
        label = label_value(change.terms, EXPORT_LABEL)
        if label is None:
            return
        if change.deleted:
            if not self._objects.lister.find(bindings_of(label), limit=1):
                self._bound.pop(label)
                self._look_at_slices(change)
        elif label not in self._bound:
            self._bound.put(label, True)
            self._look_at_slices(change)

    def _look_at_slices(self, change: Change) -> None:
        binding = with_reference(change.value)
        path, name = export_reference(binding) or ("", "")
        lookup = self._objects.lookup
        cluster = lookup.cluster_of(path or meta.cluster(binding))
        canonical = lookup.canonical_path(cluster) if cluster else ""
        for where in {path or meta.cluster(binding), cluster or "", canonical} - {""}:
            index = slices_of(where, name)
            add_indexed(
                self.controller, self._objects.lister, index, API_EXPORT_ENDPOINT_SLICES, key_of
            )
            for key in self._published.find(index):
                self.controller.add(key)

    def _on_shard(self, change: Change) -> None:
        if change.name == self._shard:
            self._add_everything()

    def _add_everything(self) -> None:
        for key in self._objects.lister.keys(API_EXPORT_ENDPOINT_SLICES):
            self.controller.add(key)
        for key in self._published.all():
            self.controller.add(key)

    async def reconcile(self, key: ObjectKey) -> None:
        own = await self._client.get(key.cluster, API_EXPORT_ENDPOINT_SLICES, key.name)
        found = own if own is not None else self._published.get(key)
        if found is None or not is_judged(found):
            return
        path, name = export_reference(found) or ("", "")
        export = await self._objects.read_export(key.cluster, path, name)
        shard = my_shard(self._objects.lookup, self._shard)
        if export is None or shard is None:
            return
        url = service_url(shard, "apiexport", meta.cluster(export), name)
        if not url:
            return
        status = found.get("status") or {}
        selector = labels.parse(status.get("shardSelector") or "")
        is_bound = self._objects.is_bound(ExportName(meta.cluster(export), name))
        if is_bound and not selector.matches(meta.labels(shard)):
            return  # keep the URL while it is being deleted, so that its users can finish
        before = status.get("endpoints") or []
        former = urls_of(found, self._shard)
        if with_url(before, url, is_wanted=is_bound, former=former) is before:
            return
        show = partial(show_url, url=url, is_wanted=is_bound, manager=self._shard)
        if own is None:
            await self._published.change_status(found, show)
        else:
            await self._change_own(key, show)

    async def _change_own(self, key: ObjectKey, make: Callable[[Object], None]) -> None:
        try:
            await self._client.change(
                key.cluster, API_EXPORT_ENDPOINT_SLICES, key.name, make, subresource="status"
            )
        except NotFound:
            return


def show_url(live: Object, *, url: str, is_wanted: bool, manager: str) -> None:
    """Add an endpoint to the status of a slice, or remove it, with others of this manager."""
    status = live["status"] = dict(live.get("status") or {})
    former = urls_of(live, manager)
    after = with_url(status.get("endpoints") or [], url, is_wanted=is_wanted, former=former)
    if after:
        status["endpoints"] = after
    else:
        status.pop("endpoints", None)


def my_shard(lookup: ObjectLookup, name: str) -> Object | None:
    return KnownShards(lookup).get(name)


def is_judged(found: Object) -> bool:
    """Nothing is done before the slice's own controller has judged it."""
    judged = conditions_of(found)
    return bool(judged) and all(condition.get("status") == TRUE for condition in judged)
