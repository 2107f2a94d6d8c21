"""Copies of a workspace with everything below it: read as a whole, written as a whole.

The content of a copy is written first, some hundred objects at a time. Nothing leads to it until
the last transaction, which creates the Workspace and the LogicalCluster at the top, as the user
who asks. A record in the store names the logical clusters of a copy that is not complete: if the
process dies, the next one removes what was written.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pykcp.aio.slices import Slices
from pykcp.auth.user import User
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.resources import (
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    WORKSPACES,
)
from pykcp.machinery.status import AlreadyExists, BadRequest, Conflict, NotFound
from pykcp.registry import codec, trash
from pykcp.registry.errors import translate
from pykcp.registry.keys import cluster_of_prefix, kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.moving.records import CLUSTER, TravellingRow
from pykcp.registry.moving.renaming import (
    Renaming,
    export_labels,
    new_cluster,
    renamed,
    top_cluster,
    top_workspace,
)
from pykcp.registry.moving.trees import (
    WORKSPACE_PREFIX,
    CopiedTree,
    TreeReader,
    base_url,
)
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.registry.verbs.restore import Trash
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Store
from pykcp.storage.keys import TRASH as MARK
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

COPIES = f"{MARK}migration.pykcp.io/copies/"
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_AT_ONCE = 150
"""Objects in one transaction …"""
_BYTES_AT_ONCE = 1 << 20
"""… and bytes; stores on etcd take fewer (`Store.group`)."""
_ON_ETCD = 100
_ABANDONED_SECONDS = 3600.0
ReadRows = Callable[[str, str], Awaitable[tuple[list[TravellingRow], str]]]
"""Rows of a logical cluster after a key, and where the next ones begin."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Copies:
    def __init__(
        self,
        store: Store,
        lookup: ObjectLookup,
        trash_can: Trash,
        shard: str,
        room: ClusterRoom,
    ) -> None:
        self._store, self._lookup, self._trash = store, lookup, trash_can
        self._shard, self._room = shard, room
        self.reader = TreeReader(store, lookup, shard)
        trash_can.at_start.append(self.clear)

    def _stored(self, key: str) -> Object | None:
        entry = self._store.get(key)
        return codec.decode(entry.value) if entry is not None else None

    async def begin(
        self,
        tree: CopiedTree,
        parent: str,
        name: str,
        user: User,
        *,
        is_new: bool,
        is_foreign: bool = False,
    ) -> str:
        """Start a copy below a logical cluster; its ID. `is_new`: beside the original;
        `is_foreign`: the original is in another installation.

        Raises what creating the workspace would raise.
        """
        await self.clear(older_than=_ABANDONED_SECONDS)
        names = self._renaming(tree, parent, name, is_new=is_new, is_foreign=is_foreign)
        taken = [one for one in names.clusters.values() if self._lookup.logical_cluster(one)]
        if taken:
            raise AlreadyExists(
                f"logical cluster {taken[0]} of {tree.path} exists here: delete that workspace"
                " first, or restore a copy with new names"
            )
        if self._store.get(object_key(WORKSPACE_PREFIX, parent, "", name)) is not None:
            raise AlreadyExists.resource(WORKSPACES.group, WORKSPACES.resource, name)
        made = secrets.token_hex(8)
        workspace = top_workspace(tree.workspace, parent, name, names)
        await self._trash.check(trash.Record("", parent, names.target, workspace, {}), user)
        record: Object = {
            "names": names._asdict(),
            "parent": parent,
            "top": tree.clusters[0],
            "workspace": workspace,
            "at": time.time(),
        }
        await self._write([_put(made, record, 0)])
        self._trash.copying.update(names.clusters.values())
        return made

    def _renaming(
        self, tree: CopiedTree, parent: str, name: str, *, is_new: bool, is_foreign: bool
    ) -> Renaming:
        seed = secrets.token_hex(32) if is_new else ""
        above = self._lookup.logical_cluster(parent)
        if above is None or meta.is_deleting(above):
            raise NotFound.resource(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource, parent)
        path = self._lookup.canonical_path(parent)
        called = {one: new_cluster(seed, one) if seed else one for one in tree.clusters}
        names = Renaming(
            seed, called, {}, tree.exports, tree.path, clusters.join(path, name),
            base_url(above), self._shard, export_labels(tree.exports, called), is_foreign,
        )  # fmt: skip
        return names._replace(identities=self._identities(tree, names))

    def _identities(self, tree: CopiedTree, names: Renaming) -> dict[str, str]:
        """Identities that differ here: of exports in the tree, and of those of this installation."""
        found: dict[str, str] = {}
        for export, identity in tree.identities.items():
            path, name = clusters.split(export)
            if export in tree.exports:
                if names.seed:
                    found[identity] = hashes.identity_hash(names.identity_key(identity))
                continue
            here = self._lookup.find(API_EXPORTS, path, name) if names.is_foreign else None
            known = ((here or {}).get("status") or {}).get("identityHash")
            if known:
                found[identity] = known
        return {old: new for old, new in found.items() if new and new != old}

    async def add(self, copy: str, rows: Sequence[TravellingRow]) -> int:
        """Write content of a copy; the number of objects.

        Raises NotFound, BadRequest, TooManyRequests if the shard has no room for its logical
        clusters.
        """
        revision, record = self._record(copy)
        names, top = _names(record), record["top"]
        slices, size, count = Slices(copy), 0, 0
        chunk: list[PutKey] = []
        most = _AT_ONCE if self._store.group is None else _ON_ETCD
        for row in rows:
            try:
                made = renamed(row, names)
            except (KeyError, ValueError) as error:
                raise BadRequest(f"{row.key} does not belong to the tree: {error!r}") from error
            if made is None:
                continue
            if made.key == object_key(_CLUSTERS, names.clusters[top], "", "cluster"):
                record["logicalCluster"] = codec.decode(codec.fill(made.value, 0))
                await self._write([_put(copy, record, revision)])
                continue
            chunk.append(made)
            size += len(made.value.tail)
            if len(chunk) >= most or size > _BYTES_AT_ONCE:
                await self._write(chunk)
                count, size, chunk = count + len(chunk), 0, []
            if slices.is_over():
                await slices.next()
        if chunk:
            await self._write(chunk)
        return count + len(chunk)

    async def finish(self, copy: str, user: User) -> Object:
        """Create the workspace at the top, as a user; the Workspace. Raises what a create does."""
        revision, record = self._record(copy)
        names, parent = _names(record), record["parent"]
        cluster = record.get("logicalCluster")
        if cluster is None:
            raise BadRequest("the LogicalCluster of the workspace is missing")
        await self._drop_unreachable(names, record["top"])
        workspace: Object = record["workspace"]
        made = trash.Record(
            self._trash.now(),
            parent,
            names.target,
            workspace,
            top_cluster(cluster, workspace, parent),
        )
        removal = DeleteKey(_key(copy), _encoded(copy, {}), revision)
        try:
            await self._trash.create(made, user, removal)
        except BaseException:
            await self.cancel(copy)
            raise
        self._trash.copying.difference_update(names.clusters.values())
        return workspace

    async def _drop_unreachable(self, names: Renaming, top: str) -> None:
        """Remove logical clusters without a Workspace: those that were being deleted meanwhile."""
        slices = Slices(top)
        for old, cluster in names.clusters.items():  # parents come before their children
            found = self._stored(object_key(_CLUSTERS, cluster, "", "cluster"))
            if old != top and found is not None and not self._is_reached(found, cluster):
                await self._remove(cluster)
            if slices.is_over():
                await slices.next()

    def _is_reached(self, found: Object, cluster: str) -> bool:
        owner = (found.get("spec") or {}).get("owner") or {}
        place = owner.get("cluster") or "", "", owner.get("name") or ""
        workspace = self._stored(object_key(WORKSPACE_PREFIX, *place)) or {}
        return (workspace.get("spec") or {}).get("cluster") == cluster

    async def cancel(self, copy: str) -> None:
        """Remove what was written of a copy, its record last."""
        revision, record = self._record(copy)
        for cluster in _names(record).clusters.values():
            await self._remove(cluster)
            self._trash.copying.discard(cluster)
        await self._write([DeleteKey(_key(copy), _encoded(copy, {}), revision)])

    async def _remove(self, cluster: str) -> None:
        """All rows of a logical cluster."""
        while True:
            page = await self._store.export(cluster)
            if not page.rows:
                return
            for start in range(0, len(page.rows), _ON_ETCD):
                some = page.rows[start : start + _ON_ETCD]
                await self._write(
                    [DeleteKey(row.key, codec.reopen(row.value), row.revision) for row in some]
                )

    async def clear(self, older_than: float = 0.0) -> None:
        """Remove copies that were not completed, by this process or an earlier one."""
        for key in self._store.keys(COPIES):
            name = key.rpartition("/")[2]
            if self._record(name)[1]["at"] + older_than <= time.time():
                await self.cancel(name)

    async def clone(
        self, tree: CopiedTree, read: ReadRows, parent: str, name: str, user: User
    ) -> Object:
        """A copy beside the original, at the revision of the tree; `read`: pages of its content."""
        copy = await self.begin(tree, parent, name, user, is_new=True)
        try:
            waiting: list[TravellingRow] = []
            for cluster in tree.clusters:
                after, is_more = "", True
                while is_more:
                    rows, after = await read(cluster, after)
                    waiting += rows
                    is_more = bool(after)
                    if len(waiting) >= _AT_ONCE:  # most logical clusters hold a few objects
                        await self.add(copy, waiting)
                        waiting = []
            await self.add(copy, waiting)
        except BaseException:
            await self.cancel(copy)
            raise
        return await self.finish(copy, user)

    def _record(self, copy: str) -> tuple[int, Object]:
        entry = self._store.get(_key(copy))
        if entry is None:
            raise NotFound(f"copy {copy} does not exist, or was not completed in time")
        return entry.revision, codec.decode(entry.value)

    async def _write(self, operations: Sequence[PutKey | DeleteKey]) -> None:
        new = [
            cluster_of_prefix(one.key)
            for one in operations
            if isinstance(one, PutKey) and one.key.startswith(_CLUSTERS)
        ]
        try:
            if new:
                await self._room.write(self._store, new, operations)
            else:
                await self._store.write(operations)
        except RevisionMismatch as error:
            raise Conflict(f"{error.key} exists already") from error
        except StoreError as error:
            raise translate(error) from error


def _key(copy: str) -> str:
    return object_key(COPIES, CLUSTER, "", copy)


def _encoded(copy: str, record: Mapping[str, Any]) -> Any:
    return codec.encode({"metadata": {"name": copy}, **record}, CLUSTER)


def _put(copy: str, record: Mapping[str, Any], expect: int) -> PutKey:
    return PutKey(_key(copy), _encoded(copy, record), "", (), expect)


def _names(record: Object) -> Renaming:
    return Renaming(**record["names"])
