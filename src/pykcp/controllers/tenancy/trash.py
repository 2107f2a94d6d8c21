"""Deleted workspaces: kept for a while, brought back, or gone for good.

What a workspace is brought back from stays until it is complete: a crash on the way leaves a
record that says so, and the rest is done at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.controllers.runtime.objects import metadata_of
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import (
    API_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    WORKSPACES,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists, Conflict, NotFound
from pykcp.registry import codec, trash
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.errors import translate
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.trash import Record, record_from
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import DeleteKey, Entry, Operation, PutKey, Store
from pykcp.types import Object

CHUNK = 30
"""Objects of one transaction: etcd takes no more than 128 operations, and to move an object
is three of them."""
_EVENTS = "core/events/"
_FIRST = tuple(map(kind_prefix, (NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, API_BINDINGS)))
_WORKSPACES = kind_prefix(WORKSPACES)


class Trash:
    def __init__(
        self,
        store: Store,
        directory: Directory,
        lookup: ObjectLookup,
        now: Callable[[], str],
        window: float,
    ) -> None:
        """`window`: seconds that deleted workspaces are kept; 0: they are not."""
        self._store, self._directory, self._lookup = store, directory, lookup
        self._now = now
        self.window = window
        self._lock = asyncio.Lock()
        """One comes back at a time: nobody shall finish what another has finished."""

    # -- away --------------------------------------------------------------------------

    def throw(self, keys: Iterable[str]) -> list[Operation]:
        """What moves objects out of their workspace.

        Events are not worth keeping, nor is what was put in the place of something that went
        just now.
        """
        operations: list[Operation] = []
        for key in keys:
            entry = self._store.get(key)
            if entry is None:
                continue
            if key.startswith(_EVENTS) or self._store.get(trash.trash_key(key)) is not None:
                operations.append(DeleteKey(key, codec.reopen(entry.value), entry.revision))
            else:
                operations += trash.thrown(entry)
        return operations

    def record(self, workspace_key: str, cluster: Object) -> PutKey | None:
        """The record of a workspace that goes now; None if it is not there."""
        workspace = self._store.get(workspace_key)
        cluster_key = object_key(
            kind_prefix(LOGICAL_CLUSTERS), meta.cluster(cluster), "", "cluster"
        )
        entry = self._store.get(cluster_key)
        if workspace is None or entry is None:
            return None
        stored = codec.decode(workspace.value)
        parent = meta.cluster(stored)
        path = clusters.join(self._lookup.canonical_path(parent), meta.name(stored))
        made = Record(self._now(), parent, path, stored, codec.decode(entry.value))
        return _put(made, 0)

    # -- what there is -----------------------------------------------------------------

    def records(self, parent: str) -> Iterator[Record]:
        """Of workspaces that were in a logical cluster, the newest first."""
        for key in reversed(self._store.lookup(trash.records_in(parent))):
            entry = self._store.get(key)
            if entry is not None:
                record = record_from(entry.value)
                if not record.state:
                    yield record

    def find(self, cluster: str) -> Entry | None:
        """The record of a logical cluster."""
        for key in self._store.lookup(trash.record_of(cluster)):
            return self._store.get(key)
        return None

    def is_coming_back(self, cluster: str) -> bool:
        entry = self.find(cluster)
        return entry is not None and bool(record_from(entry.value).state)

    # -- back --------------------------------------------------------------------------

    async def restore(self, record: Record) -> None:
        """Bring a workspace back. 409 if its name is taken, 404 if it is gone."""
        async with self._lock:
            entry = self._store.get(record.key)
            if entry is None or record_from(entry.value).state:
                raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, record.name)
            self._check_place(record)
            record = record._replace(state=trash.RESTORING)
            await self._write([_put(record, entry.revision)])
            await self._finish(record)

    async def resume(self, key: str) -> None:
        """Go on with one that is on its way, by the key of its record."""
        async with self._lock:
            entry = self._store.get(key)
            record = record_from(entry.value) if entry is not None else None
            if record is not None and record.state:
                await self._finish(record)

    async def _finish(self, record: Record) -> None:
        keys = self._store.lookup(trash.content_of(record.cluster))
        if record.state == trash.RESTORING:
            await self._return(await self._in_order(keys))
            try:
                record = await self._enter(record)
            except AlreadyExists:
                await self._take_back(record, keys)
                raise
        await self.forget(record)

    def _check_place(self, record: Record) -> None:
        parent = self._lookup.logical_cluster(record.parent)
        if parent is None or meta.is_deleting(parent):
            raise Conflict(f"the workspace that {record.path} was in is gone or being deleted")
        if self._store.get(_workspace_key(record)) is not None:
            raise _taken(record)

    async def _return(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), CHUNK):
            found = map(self._store.get, keys[start : start + CHUNK])
            await self._write([trash.returned(entry) for entry in found if entry is not None])

    async def _enter(self, record: Record) -> Record:
        """Workspace and LogicalCluster appear: from now on it can be used."""
        entry = self._store.get(record.key)
        assert entry is not None  # it cannot go while it says that it is being restored
        workspace, cluster = codec.copy(record.workspace), codec.copy(record.logical_cluster)
        lifecycle.revive(workspace, cluster)
        record = record._replace(state=trash.RESTORED)
        try:
            await self._store.write(
                [
                    self._new(WORKSPACES, record.parent, workspace),
                    self._new(LOGICAL_CLUSTERS, record.cluster, cluster),
                    _put(record, entry.revision),
                ]
            )
        except RevisionMismatch as error:
            if error.key == _workspace_key(record):
                raise _taken(record) from error
            raise translate(error) from error
        except StoreError as error:
            raise translate(error) from error
        return record

    def _new(self, kind: GroupVersionResource, cluster: str, stored: Object) -> PutKey:
        resource = self._directory.find_system(*kind)
        assert resource is not None
        return PutKey(
            resource.key(cluster, "", meta.name(stored)),
            resource.encode(stored, cluster),
            resource.terms_of(stored, cluster),
            resource.index_entries(cluster, stored),
            0,
        )

    async def _take_back(self, record: Record, keys: Sequence[str]) -> None:
        """It cannot come back after all: what is in the trash is as it was."""
        for start in range(0, len(keys), CHUNK):
            originals = map(trash.original_key, keys[start : start + CHUNK])
            await self._write(
                [_delete(e) for e in map(self._store.get, originals) if e is not None]
            )
        entry = self._store.get(record.key)
        if entry is not None:
            await self._write([_put(record._replace(state=""), entry.revision)])

    async def _in_order(self, keys: Sequence[str]) -> list[str]:
        """Namespaces and kinds first, and whatever owns something before what it owns: the
        garbage collector must not find anything whose owner is missing."""
        uids: dict[str, str] = {}
        owners: dict[str, list[str]] = {}
        for number, key in enumerate(keys):
            entry = self._store.get(key)
            if entry is not None:
                metadata = metadata_of(entry.value)
                uids[metadata.uid] = key
                if metadata.owner_references:
                    owners[key] = [owner.uid for owner in metadata.owner_references]
            if number % 500 == 499:
                await asyncio.sleep(0)
        above = {key: {uids[u] for u in named if u in uids} for key, named in owners.items()}
        generations = trash.generations(above)

        def rank(key: str) -> tuple[bool, int, str]:
            is_first = trash.original_key(key).startswith(_FIRST)
            return not is_first, generations.get(key, 0), key

        return sorted(keys, key=rank)

    # -- gone --------------------------------------------------------------------------

    async def forget(self, record: Record) -> None:
        """Empty the trash of a workspace, its record last."""
        await self.empty(record.cluster)
        entry = self._store.get(record.key)
        if entry is not None:
            await self._write([_delete(entry)])

    async def empty(self, cluster: str) -> None:
        """Destroy what is kept of a logical cluster."""
        while keys := self._store.lookup(trash.content_of(cluster), limit=CHUNK):
            found = map(self._store.get, keys)
            await self._write([_delete(entry) for entry in found if entry is not None])

    async def _write(self, operations: Sequence[Operation]) -> None:
        if not operations:
            return
        try:
            await self._store.write(operations)
        except RevisionMismatch as error:
            raise Conflict("another write was faster, try again") from error
        except StoreError as error:
            raise translate(error) from error


def _put(record: Record, expect: int) -> PutKey:
    return PutKey(record.key, record.encoded(), "", record.indexes, expect)


def _delete(entry: Entry) -> DeleteKey:
    return DeleteKey(entry.key, codec.reopen(entry.value), entry.revision)


def _workspace_key(record: Record) -> str:
    return object_key(_WORKSPACES, record.parent, "", record.name)


def _taken(record: Record) -> AlreadyExists:
    return AlreadyExists.resource(WORKSPACES.group, WORKSPACES.resource, record.name)
