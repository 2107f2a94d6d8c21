"""Restore: deleted workspaces are kept for a while, restored, or removed for good.

A workspace is restored if it could be created now: as the user who asks, it passes admission,
validation, quotas and limits like any new workspace, and the quotas count it in the same write.
Its content comes back as it was stored. It passed all checks when it was written, no request can
reach the trash, and the logical cluster is not accessible until the last write restores the
LogicalCluster and the Workspace.

The Workspace may have been on another shard than its logical cluster: then it is checked and
created there (`FarParents`), before the LogicalCluster is restored here.

The trash of a workspace stays until it is restored completely: a crash on the way leaves a record
that says so, and the rest is done at the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from pykcp.aio.slices import Slices
from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.auth.user import MASTERS, User
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.resources import (
    API_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    WORKSPACES,
)
from pykcp.machinery.status import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from pykcp.registry import codec, trash
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.resource import Resource
from pykcp.registry.trash import Record, record_from
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.create import mutate_new, new_key, validate_new
from pykcp.registry.verbs.reservations import write_reserved
from pykcp.registry.verbs.transaction import Raw
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry, Page, Query, Store
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.types import Object

CHUNK = 30
"""Objects of one transaction: etcd takes no more than 128 operations, and to move an object
is three of them."""
_CHUNK_BYTES = 1 << 20
"""A transaction of more than this has one object only: others wait for it."""
_FIRST = tuple(map(kind_prefix, (NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, API_BINDINGS)))
_WORKSPACES, _CLUSTERS = kind_prefix(WORKSPACES), kind_prefix(LOGICAL_CLUSTERS)
_SYSTEM = User("system:apiserver", groups=(MASTERS,))
_CHOSEN = ("type", "location")
"""What of a workspace's spec its creator chooses; the rest is the system's."""
_REFUSALS = (AlreadyExists, BadRequest, Forbidden, Invalid, NotFound)


class FarParents(Protocol):
    """Logical clusters of other shards in which workspaces were whose content is kept here."""

    async def check(self, record: Record, user: User) -> None:
        """`Trash.check_place` where the parent is; also whether the user may create it."""

    async def create(self, record: Record, user: User) -> None:
        """`Trash.create_workspace` where the parent is."""


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
        self.now = now
        self.window = window
        self._lock = asyncio.Lock()
        """One is restored at a time, so that no two requests finish the same one."""
        self.at_start: list[Callable[[], Awaitable[None]]] = []
        """What to do before anything is resumed, in the process that runs controllers."""
        self.copying: set[str] = set()
        """Logical clusters that are being written by `registry.moving.copies`."""
        self.far: FarParents | None = None
        """None: there are no other shards."""

    # -- deleted workspaces ------------------------------------------------------------

    def new_record(self, workspace_key: str, cluster: Object) -> Raw | None:
        """What records a workspace that is removed now; None if it is not there."""
        workspace = self._store.get(workspace_key)
        entry = self._store.get(object_key(_CLUSTERS, meta.cluster(cluster), "", "cluster"))
        if workspace is None or entry is None:
            return None
        stored = codec.decode(workspace.value)
        parent = meta.cluster(stored)
        path = clusters.join(self._lookup.canonical_path(parent), meta.name(stored))
        made = Record(self.now(), parent, path, stored, codec.decode(entry.value))
        return Raw((_put(made, 0),))

    def new_far_record(self, workspace: Object, cluster: Object) -> Raw | None:
        """The same for a workspace of another shard, whose logical cluster is here."""
        name = meta.cluster(cluster)
        entry = self._store.get(object_key(_CLUSTERS, name, "", "cluster"))
        if entry is None:
            return None
        path = meta.annotation(cluster, lifecycle.PATH_ANNOTATION) or name
        stored = codec.decode(entry.value)
        return Raw((_put(Record(self.now(), meta.cluster(workspace), path, workspace, stored), 0),))

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

    def is_restoring(self, cluster: str) -> bool:
        """Whether a logical cluster is about to be there: its content is written already."""
        if cluster in self.copying:
            return True
        entry = self.find(cluster)
        return entry is not None and bool(record_from(entry.value).state)

    # -- restoring ---------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Keys of the records whose workspace is being restored, or is being forgotten."""
        return self._store.lookup(trash.UNFINISHED)

    async def records_after(self, after: str, limit: int) -> Page:
        """Some records, those of the oldest deletions first."""
        return await self._store.list(Query(trash.RECORDS, after=after, limit=limit))

    async def restore(self, record: Record, user: User) -> None:
        """Restore a workspace for a user.

        409 if its name is taken, 404 if it is not in the trash, and what creating it would raise.
        """
        async with self._lock:
            entry = self._store.get(record.key)
            if entry is None or record_from(entry.value).state:
                raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, record.name)
            if self.is_here(record.parent):  # all checks before anything is moved
                await self.check_place(record, user)
            else:
                await self._far_of(record).check(record, user)
            record = record._replace(state=trash.RESTORING, requested_by=user.to_json())
            await self._write([_put(record, entry.revision)])
            await self._finish(record)

    def is_here(self, cluster: str) -> bool:
        """Whether a logical cluster is on this shard."""
        return self._store.get(object_key(_CLUSTERS, cluster, "", "cluster")) is not None

    def _far_of(self, record: Record) -> FarParents:
        if self.far is None:
            raise no_place(record)
        return self.far

    async def check_place(self, record: Record, user: User) -> None:
        """Raise what creating the workspace of a record here would raise, or that it is there."""
        await self.check(record, user)
        self._check_place(record)

    async def check(self, record: Record, user: User) -> None:
        """Raise what creating the workspace of a record would raise for a user."""
        await self._admit_workspace(record, user, dry_run=True)

    async def resume(self, key: str) -> None:
        """Go on with one that is being restored, by the key of its record."""
        async with self._lock:
            entry = self._store.get(key)
            record = record_from(entry.value) if entry is not None else None
            if record is not None and record.state:
                await self._finish(record)

    async def _finish(self, record: Record) -> None:
        keys = self._store.lookup(trash.content_of(record.cluster))
        if record.state == trash.RESTORING:
            await self._restore_content(record.cluster, await self._in_order(record.cluster, keys))
            try:
                record = await self._appear(record)
            except _REFUSALS:
                await self._take_back(record, keys)
                raise
        await self.forget(record)

    def _check_place(self, record: Record) -> None:
        parent = self._lookup.logical_cluster(record.parent)
        if parent is None or meta.is_deleting(parent):
            raise no_place(record)
        if self._store.get(_workspace_key(record)) is not None:
            raise _taken(record)

    async def _restore_content(self, cluster: str, keys: Sequence[str]) -> None:
        slices = Slices(cluster)
        async for entries in self._chunks(cluster, keys):
            operations = []
            for entry in entries:
                operations.append(trash.restored(entry))
                if slices.is_over():
                    await slices.next()
            await self._write(operations)

    async def _chunks(self, cluster: str, keys: Iterable[str]) -> AsyncIterator[list[Entry]]:
        """What there is under some keys, as much at a time as one transaction takes."""
        slices, chunk, size = Slices(cluster), list[Entry](), 0
        for key in keys:
            entry = self._store.get(key)
            if slices.is_over():
                await slices.next()
            if entry is None:
                continue
            if chunk and (len(chunk) == CHUNK or size + len(entry.value) > _CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(entry)
            size += len(entry.value)
        if chunk:
            yield chunk

    async def _appear(self, record: Record) -> Record:
        """Workspace and LogicalCluster are created again: from now on it can be used."""
        entry = self._store.get(record.key)
        assert entry is not None  # it cannot go while it says that it is being restored
        workspace, cluster = codec.copy(record.workspace), codec.copy(record.logical_cluster)
        lifecycle.revive(workspace, cluster)
        user = user_from(record.requested_by) if record.requested_by else _SYSTEM
        record = record._replace(state=trash.RESTORED, workspace=workspace, logical_cluster=cluster)
        await self.create(record, user, _put(record, entry.revision))
        return record

    async def create(self, record: Record, user: User, last: PutKey | DeleteKey) -> None:
        """Create a Workspace and its LogicalCluster, as they are in a record, as a user.

        `last` goes along. Raises what creating the workspace would raise.
        """
        admitted: list[AdmissionRequest] = []
        operations: list[PutKey | DeleteKey] = []
        if self.is_here(record.parent):
            admitted.append(await self._admit_workspace(record, user))
            operations.append(new_key(admitted[0].resource, record.parent, "", record.workspace))
        else:
            await self._far_of(record).create(record, user)
        of_cluster = await self._admit_cluster(record, record.logical_cluster)
        key = new_key(of_cluster.resource, record.cluster, "", record.logical_cluster)
        await self._create([*operations, key, last], [*admitted, of_cluster], record)

    async def create_workspace(self, record: Record, user: User) -> None:
        """Create the Workspace of a record alone: its logical cluster is on another shard.

        Repeatable. Raises what creating the workspace would raise.
        """
        found = self._store.get(_workspace_key(record))
        if found is not None and meta.uid(codec.decode(found.value)) == meta.uid(record.workspace):
            return
        self._check_place(record)
        admitted = await self._admit_workspace(record, user)
        key = new_key(admitted.resource, record.parent, "", record.workspace)
        await self._create([key], [admitted], record)

    async def _create(
        self,
        operations: Sequence[PutKey | DeleteKey],
        admitted: Sequence[AdmissionRequest],
        record: Record,
    ) -> None:
        try:
            await write_reserved(self._store, operations, admitted)
        except RevisionMismatch as error:
            if error.key == _workspace_key(record):
                raise _taken(record) from error
            raise Conflict("another write was faster, try again") from error
        except StoreError as error:
            raise translate(error) from error

    async def _admit_workspace(
        self, record: Record, user: User, *, dry_run: bool = False
    ) -> AdmissionRequest:
        """All checks of a new workspace, on what its creator would send; raises why not."""
        resource = self._directory.find(record.parent, *WORKSPACES)
        if resource is None:
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, record.name)
        spec = record.workspace.get("spec") or {}
        chosen = {key: value for key, value in spec.items() if key in _CHOSEN}
        obj: Object = {"metadata": {"name": record.name}, "spec": codec.copy(chosen)}
        context = RequestContext(record.parent, user, dry_run=dry_run)
        return await _admit(resource, context, obj)

    async def _admit_cluster(self, record: Record, stored: Object) -> AdmissionRequest:
        """All checks of a new LogicalCluster, which only the system makes."""
        resource = self._directory.find_system(*LOGICAL_CLUSTERS)
        assert resource is not None
        given = stored["metadata"]
        kept = ("name", "labels", "annotations", "finalizers")
        obj: Object = {
            "metadata": {key: given[key] for key in kept if key in given},
            "spec": stored.get("spec") or {},
        }
        obj = codec.copy(obj)
        codec.strip_cluster(obj)
        return await _admit(resource, RequestContext(record.cluster, _SYSTEM, is_new=True), obj)

    async def _take_back(self, record: Record, keys: Sequence[str]) -> None:
        """It cannot be restored after all: the trash is as it was before."""
        async for entries in self._chunks(record.cluster, map(trash.original_key, keys)):
            await self._write([_delete(entry) for entry in entries])
        entry = self._store.get(record.key)
        if entry is not None:
            await self._write([_put(record._replace(state="", requested_by={}), entry.revision)])

    async def _in_order(self, cluster: str, keys: Sequence[str]) -> list[str]:
        """Namespaces and kinds first, and owners before what they own: the garbage collector
        must not find anything whose owner is missing."""
        uids: dict[str, str] = {}
        owners: dict[str, list[str]] = {}
        slices = Slices(cluster)
        for key in keys:
            entry = self._store.get(key)
            if entry is not None:
                metadata = metadata_of(entry.value)
                uids[metadata.uid] = key
                if metadata.owner_references:
                    owners[key] = [owner.uid for owner in metadata.owner_references]
            if slices.is_over():
                await slices.next()
        above = {key: {uids[u] for u in named if u in uids} for key, named in owners.items()}
        generations = trash.generations(above)

        def rank(key: str) -> tuple[bool, int, str]:
            is_first = trash.original_key(key).startswith(_FIRST)
            return not is_first, generations.get(key, 0), key

        return sorted(keys, key=rank)

    # -- removing for good -------------------------------------------------------------

    async def forget(self, record: Record) -> None:
        """Empty the trash of a workspace, its record last."""
        await self.empty(record.cluster)
        entry = self._store.get(record.key)
        if entry is not None:
            await self._write([_delete(entry)])

    async def empty(self, cluster: str) -> None:
        """Remove what is kept of a logical cluster."""
        while keys := self._store.lookup(trash.content_of(cluster), limit=CHUNK):
            async for entries in self._chunks(cluster, keys):
                await self._write([_delete(entry) for entry in entries])

    async def _write(self, operations: Sequence[Operation]) -> None:
        if not operations:
            return
        try:
            await self._store.write(operations)
        except RevisionMismatch as error:
            raise Conflict("another write was faster, try again") from error
        except StoreError as error:
            raise translate(error) from error


async def _admit(resource: Resource, ctx: RequestContext, obj: Object) -> AdmissionRequest:
    """Pass an object through all that a create passes; the request knows its reservations."""
    typed = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    request = await mutate_new(resource, ctx, "", resource.rules.decode(typed, []))
    await validate_new(request)
    return request


def user_from(stored: Object) -> User:
    """The user that `User.to_json` describes."""
    extra = {key: tuple(values) for key, values in (stored.get("extra") or {}).items()}
    groups = tuple(stored.get("groups") or ())
    return User(stored.get("username", ""), stored.get("uid", ""), groups, extra)


def _put(record: Record, expect: int) -> PutKey:
    return PutKey(record.key, record.encoded(), "", record.indexes, expect)


def _delete(entry: Entry) -> DeleteKey:
    return DeleteKey(entry.key, codec.reopen(entry.value), entry.revision)


def _workspace_key(record: Record) -> str:
    return object_key(_WORKSPACES, record.parent, "", record.name)


def no_place(record: Record) -> Conflict:
    return Conflict(f"the workspace that {record.path} was in does not exist or is terminating")


def _taken(record: Record) -> AlreadyExists:
    return AlreadyExists.resource(WORKSPACES.group, WORKSPACES.resource, record.name)
