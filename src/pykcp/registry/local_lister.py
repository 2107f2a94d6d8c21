"""Synchronous reads of the shard's own store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from pykcp.aio.resting import ShortSlices
from pykcp.aio.slices import Slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import PAGE
from pykcp.machinery.metadata import Metadata, metadata_of
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.errors import translate
from pykcp.registry.keys import WILDCARD, range_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import select
from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Entry, Query, Store
from pykcp.types import Object

_FIRST_PAGE = 32
_PAGE_BYTES = 2 << 20
"""Pages grow while they hold less than this: objects may be large."""


class LocalLister:
    def __init__(self, store: Store, directory: Directory) -> None:
        self._store, self._directory = store, directory

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        resource = find_resource(self._directory, cluster, kind)
        entry = self._entry(resource.key(cluster, namespace, name))
        return None if entry is None else resource.object_of(entry.value)

    def has(self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = "") -> bool:
        resource = find_resource(self._directory, cluster, kind)
        return self._entry(resource.key(cluster, namespace, name)) is not None

    def stored(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> bytes | None:
        resource = find_resource(self._directory, cluster, kind)
        entry = self._entry(resource.key(cluster, namespace, name))
        return None if entry is None else entry.value

    def value(self, ref: ObjectRef) -> bytes | None:
        entry = self._entry(str(ref))
        return None if entry is None else entry.value

    def version(self, ref: ObjectRef) -> int | None:
        entry = self._entry(str(ref))
        return None if entry is None else entry.revision

    def _entry(self, key: str) -> Entry | None:
        try:
            return self._store.get(key)
        except StoreError as error:
            raise translate(error) from error

    def keys(
        self, kind: GroupVersionResource, cluster: str = WILDCARD, *, limit: int = 0
    ) -> list[ObjectKey]:
        prefix = range_prefix(f"{kind_id(kind)}/", cluster)
        found = self._store.keys(prefix, limit=limit)
        return [ObjectKey(*key.split("/", 4)[2:]) for key in found]

    def find(
        self,
        index: str,
        kind: GroupVersionResource | None = None,
        *,
        after: ObjectRef | None = None,
        limit: int = 0,
    ) -> list[ObjectRef]:
        start = "" if after is None else str(after)
        if kind is None:
            return [_ref(key) for key in self._store.lookup(index, after=start, limit=limit)]
        # Keys begin with what they are of, so those of a kind stand together.
        prefix = f"{kind_id(kind)}/"
        keys = self._store.lookup(index, after=max(start, prefix), limit=limit)
        return [_ref(key) for key in keys if key.startswith(prefix)]

    def values_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[list[bytes]]:
        prefix = range_prefix(f"{resource}/", cluster, namespace)
        return value_pages(self._store, Query(prefix))

    def metadata_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[list[Metadata]]:
        return metadata_pages(self._store, range_prefix(f"{resource}/", cluster, namespace))

    async def count(
        self, resource: str, cluster: str = WILDCARD, namespace: str = "", *, labels: str = ""
    ) -> int:
        prefix = range_prefix(f"{resource}/", cluster, namespace)
        if not labels:
            return await self._store.count(prefix)
        chosen = select(labels, "", None)
        query = Query(prefix, where=chosen.conditions, residual=chosen.residual)
        return sum([len(values) async for values in value_pages(self._store, query)])


def find_resource(directory: Directory, cluster: str, kind: GroupVersionResource) -> Resource:
    """How a cluster serves a kind; those of Kubernetes and kcp are found in any cluster."""
    found = directory.find_system(*kind) or directory.find(cluster, *kind)
    if found is None:
        raise NotFound(f"{kind} is not served in logical cluster {cluster}")
    return found


async def metadata_pages(
    store: Store, prefix: str, size: int = PAGE
) -> AsyncIterator[list[Metadata]]:
    """The metadata of everything under a prefix, a page at a time. An object that comes while
    this goes on may be missed; one that goes is shown if it was there when its page was read.
    """
    async for values in value_pages(store, Query(prefix), size):
        found, slices = [], Slices()
        for value in values:
            found.append(metadata_of(value))
            if slices.is_over():
                await slices.next()
        yield found


async def value_pages(store: Store, query: Query, size: int = PAGE) -> AsyncIterator[list[bytes]]:
    """The values of a range that are there, some of them at a time; pages that are used without
    waiting for anything do not follow each other without a pause.
    """
    after, limit, slices = "", min(_FIRST_PAGE, size), ShortSlices()
    while True:
        try:
            page = await store.list(replace(query, after=after, limit=limit))
        except StoreError as error:
            raise translate(error) from error
        if page.values:
            yield page.values
        if not page.next_after:
            return
        if slices.is_over():
            await slices.rest()
        after = page.next_after
        is_short = sum(map(len, page.values)) < _PAGE_BYTES
        limit = min(2 * limit, size) if is_short else max(limit // 2, 1)


def _ref(key: str) -> ObjectRef:
    group, resource, cluster, namespace, name = key.split("/", 4)
    return ObjectRef(f"{group}/{resource}", cluster, namespace, name)
