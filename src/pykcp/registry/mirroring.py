"""Copies of objects of another store, written to a local one as they are.

Nothing is validated, admitted or managed: where they come from, that has been done. The copies
get revisions of this store. Objects are in outline (`codec.outline`), whatever their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pykcp.machinery.status import OPTIMISTIC_LOCK, AlreadyExists, Conflict, NotFound, StatusError
from pykcp.registry import codec
from pykcp.registry.errors import translate
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry, Store, Value
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.types import Object


class StoredCopy(NamedTuple):
    """What is stored of a copy."""

    value: Value
    terms: str
    indexes: tuple[str, ...]


class CopiedResource(Protocol):
    """A kind of which copies are stored."""

    group: str
    plural: str
    prefix: str

    def key(self, cluster: str, namespace: str, name: str) -> str: ...

    def stored_copy(self, outline: Object, cluster: str) -> StoredCopy: ...


class MirroredObject(NamedTuple):
    """An object as the other store has it; `outline` is None if it is gone there."""

    cluster: str
    outline: Object | None


class MirrorWriter:
    """Writes the copies of one resource."""

    def __init__(self, store: Store, resource: CopiedResource) -> None:
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
        """Write what differs from the stored copies, by key; how many did.

        There must be no other writer.
        """
        operations: list[Operation] = []
        for key, mirrored in objects.items():
            entry = self._store.get(key)
            if mirrored.outline is None:
                if entry is not None:
                    operations.append(_removal(entry))
            else:
                operations += self._put(key, mirrored.cluster, mirrored.outline, entry)
        if operations:
            await self._store.write(operations)
        return len(operations)

    def _put(self, key: str, cluster: str, outline: Object, entry: Entry | None) -> list[PutKey]:
        copy = self._resource.stored_copy(outline, cluster)
        if entry is not None and codec.fill(copy.value, entry.revision) == entry.value:
            return []
        return [PutKey(key, *copy)]

    async def write_one(self, cluster: str, outline: Object) -> None:
        """Write a copy over the one with the resource version that it names, or a new one.

        Raises NotFound, Conflict or AlreadyExists.
        """
        metadata = outline["metadata"]
        key = self.key(cluster, metadata.get("namespace") or "", metadata["name"])
        expected = int(metadata.get("resourceVersion") or 0)
        put = PutKey(key, *self._resource.stored_copy(outline, cluster), expected)
        try:
            await self._store.write((put,))
        except RevisionMismatch as error:
            raise self._refusal(metadata["name"], expected, error.found) from error
        except StoreError as error:
            raise translate(error) from error

    def _refusal(self, name: str, expected: int, found: int) -> StatusError:
        group, plural = self._resource.group, self._resource.plural
        if not expected:
            return AlreadyExists.resource(group, plural, name)
        if not found:
            return NotFound.resource(group, plural, name)
        return Conflict.resource(group, plural, name, OPTIMISTIC_LOCK)

    async def remove(self, revisions: Mapping[str, int]) -> int:
        """Remove the copies that are still at these revisions; how many were."""
        entries = [self._store.get(key) for key in revisions]
        found = [e for e in entries if e is not None and revisions[e.key] == e.revision]
        if found:
            await self._store.write([_removal(entry) for entry in found])
        return len(found)


def _removal(entry: Entry) -> DeleteKey:
    return DeleteKey(entry.key, codec.reopen(entry.value))
