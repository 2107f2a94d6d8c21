"""Everything that is in one logical cluster, kind by kind."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.machinery.metadata import Metadata, metadata_of
from pykcp.machinery.resources import LOGICAL_CLUSTERS, GroupVersionResource
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.keys import kind_prefix, resource_prefix
from pykcp.registry.local_lister import find_resource, value_pages
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.storage.interface import Entry, Query, Store

_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_FEW = 50
_LARGE = 32 * 1024
"""Octets of an object that is not kept in memory until its turn comes."""


class ContentItem(NamedTuple):
    resource: Resource
    metadata: Metadata
    entry: Entry | None = None
    """As it was read, if there are few."""
    size: int = 0
    """Octets that are stored of it."""


class ClusterContent:
    def __init__(self, store: Store, directory: Directory) -> None:
        self._store, self._directory = store, directory

    async def of(self, cluster: str) -> list[ContentItem]:
        """Everything in the cluster but its LogicalCluster."""
        items: list[ContentItem] = []
        seen, slices = {_CLUSTERS}, Slices(cluster)
        for definition in self._directory.definitions(cluster):
            if definition.ephemeral or definition.stored_as or not definition.all_versions:
                continue
            prefix = resource_prefix(*definition.storage, definition.identity)
            if prefix in seen:
                continue
            seen.add(prefix)
            place = f"{prefix}{cluster}/"
            keys = self._store.keys(place, limit=_FEW + 1)
            if not keys:
                continue
            resource = find_resource(self._directory, cluster, _served(definition))
            if len(keys) > _FEW:
                async for page in value_pages(self._store, Query(place)):
                    for value in page:
                        items.append(ContentItem(resource, metadata_of(value), size=len(value)))
                        if slices.is_over():
                            await slices.next()
                continue
            for key in keys:
                entry = self._store.get(key)
                if entry is None:
                    continue
                size = len(entry.value)
                kept = entry if size <= _LARGE else None
                items.append(ContentItem(resource, metadata_of(entry.value), kept, size))
                if slices.is_over():
                    await slices.next()
        return items


def _served(definition: ResourceDefinition) -> GroupVersionResource:
    versions = definition.versions or tuple(v.name for v in definition.all_versions)
    return GroupVersionResource(definition.group, versions[0], definition.plural)


_PAGE, _PAGE_BYTES = 500, 1 << 20


class HeldContent(NamedTuple):
    objects: int
    size: int
    """Bytes."""


async def measure(store: StoreReader, prefix: str, slices: Slices) -> HeldContent:
    """What is stored below a prefix, read page by page."""
    objects = size = 0
    after = ""
    while True:
        page = await store.list(Query(prefix, after, limit=_PAGE, max_bytes=_PAGE_BYTES))
        objects += len(page.values)
        size += sum(map(len, page.values))
        after = page.next_after
        if slices.is_over():
            await slices.next()
        if not after:
            return HeldContent(objects, size)
