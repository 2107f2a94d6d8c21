"""Copies of another server's objects, written to a local store as they are.

Nothing is validated, admitted or managed: the other server has done that. The copies get
revisions of this store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.storage.interface import Entry, Store
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.types import Object


class MirroredObject(NamedTuple):
    """An object as the other server has it; `obj` is None if it is gone there."""

    cluster: str
    obj: Object | None


class MirrorWriter:
    """Writes the copies of one resource; there must be no other writer."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._store, self._resource = store, resource

    @property
    def prefix(self) -> str:
        """Of the keys of all copies."""
        return self._resource.prefix

    def key(self, cluster: str, namespace: str, name: str) -> str:
        return self._resource.key(cluster, namespace, name)

    def entry(self, key: str) -> Entry | None:
        return self._store.get(key)

    async def write(self, objects: Mapping[str, MirroredObject]) -> int:
        """Write what differs from the stored copies, by key; how many did."""
        operations: list[Operation] = []
        for key, mirrored in objects.items():
            entry = self._store.get(key)
            if mirrored.obj is None:
                if entry is not None:
                    operations.append(_removal(entry))
            else:
                operations += self._put(key, mirrored.cluster, mirrored.obj, entry)
        if operations:
            await self._store.write(operations)
        return len(operations)

    def _put(self, key: str, cluster: str, obj: Object, entry: Entry | None) -> list[PutKey]:
        value = self._resource.encode(obj, cluster)
        if entry is not None and codec.fill(value, entry.revision) == entry.value:
            return []
        terms = self._resource.terms_of(obj, cluster)
        return [PutKey(key, value, terms, self._resource.index_entries(cluster, obj))]

    async def remove(self, revisions: Mapping[str, int]) -> int:
        """Remove the copies that are still at these revisions; how many were."""
        entries = [self._store.get(key) for key in revisions]
        found = [e for e in entries if e is not None and revisions[e.key] == e.revision]
        if found:
            await self._store.write([_removal(entry) for entry in found])
        return len(found)


def _removal(entry: Entry) -> DeleteKey:
    return DeleteKey(entry.key, codec.reopen(entry.value))
