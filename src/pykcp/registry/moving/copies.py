"""Copies of a workspace with everything below it: read as a whole, written as a whole.

The content of a copy is written first, some hundred objects at a time. Nothing leads to it until
the last transaction, which creates the Workspace and the LogicalCluster at the top, as the user
who asks. A record in the store names the logical clusters of a copy that is not complete: if the
process dies, the next one removes what was written.
"""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.auth.user import User
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    SECRETS,
    WORKSPACES,
)
from pykcp.machinery.status import AlreadyExists, BadRequest, Conflict, NotFound
from pykcp.registry import codec, trash
from pykcp.registry.errors import translate
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.moving.records import CLUSTER, TravellingRow, row_of
from pykcp.registry.moving.renaming import (
    Renaming,
    export_labels,
    new_cluster,
    renamed,
    top_cluster,
    top_workspace,
)
from pykcp.registry.verbs.restore import Trash
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Store
from pykcp.storage.keys import TRASH as MARK
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

COPIES = f"{MARK}migration.pykcp.io/copies/"
_WORKSPACES = kind_prefix(WORKSPACES)
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_AT_ONCE = 400
"""Objects in one transaction …"""
_BYTES_AT_ONCE = 1 << 20
"""… and bytes; stores on etcd take fewer (`Store.group`)."""
_ON_ETCD = 100
_ABANDONED_SECONDS = 3600.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class CopiedTree(NamedTuple):
    """A workspace and all below it, as far as it has to be known before its content."""

    path: str
    revision: int
    installation: str
    """The uid of the root of the tree that it is in; "" if that is on another shard."""
    workspace: Object
    """The Workspace at the top."""
    clusters: list[str]
    """Logical clusters, that of the workspace first."""
    exports: dict[str, str]
    """See `Renaming.exports`."""
    identities: dict[str, str]
    """The identities of all exports that are bound in the tree, by `path:name`."""

    def to_json(self) -> Object:
        return self._asdict()


def tree_from(obj: Any) -> CopiedTree:
    """Raises BadRequest."""
    try:
        tree = CopiedTree(**{name: obj[name] for name in CopiedTree._fields})
        if not tree.clusters or not all(map(_NAME.fullmatch, tree.clusters)):
            raise BadRequest("clusters must be names of logical clusters")
    except (KeyError, TypeError) as error:
        raise BadRequest(f"this is not a saved tree of workspaces: {error}") from error
    return tree


class Copies:
    def __init__(
        self,
        store: Store,
        lookup: ObjectLookup,
        trash_can: Trash,
        shard: str,
    ) -> None:
        self._store, self._lookup, self._trash = store, lookup, trash_can
        self._shard = shard
        trash_can.at_start.append(self.clear)

    # -- reading -----------------------------------------------------------------------

    async def tree(self, top: str) -> CopiedTree:
        """Raises NotFound, and Conflict if a part of it is on another shard."""
        cluster = self._lookup.logical_cluster(top)
        owner = (cluster or {}).get("spec", {}).get("owner") or {}
        if cluster is None or owner.get("resource") != WORKSPACES.resource:
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, top)
        path = self._lookup.canonical_path(top)
        workspace = self._stored(object_key(_WORKSPACES, owner["cluster"], "", owner["name"]))
        if workspace is None:  # it is on the shard of its parent
            workspace = _workspace_of(cluster, path)
        slices, exports, identities = Slices(top), dict[str, str](), dict[str, str]()
        found, waiting = list[str](), [(top, path)]
        while waiting:
            name, below = waiting.pop()
            found.append(name)
            waiting += reversed(list(self._children(name, below)))
            exports.update(self._exports(name))
            identities.update(self._bound(name))
            if slices.is_over():
                await slices.next()
        installation = self._installation(path)
        return CopiedTree(
            path, self._store.revision, installation, workspace, found, exports, identities
        )

    def is_below(self, cluster: str, top: str) -> bool:
        """Whether a logical cluster is that of a workspace, or of one below it."""
        while cluster != top:
            found = self._lookup.logical_cluster(cluster) or {}
            cluster = ((found.get("spec") or {}).get("owner") or {}).get("cluster") or ""
            if not cluster:
                return False
        return True

    def _installation(self, path: str) -> str:
        root = self._lookup.logical_cluster(path.partition(":")[0])
        return meta.uid(root) if root is not None else ""

    def _stored(self, key: str) -> Object | None:
        entry = self._store.get(key)
        return codec.decode(entry.value) if entry is not None else None

    def _children(self, cluster: str, path: str) -> Iterator[tuple[str, str]]:
        """Logical clusters and paths of the workspaces in one."""
        for workspace in self._of_kind(_WORKSPACES, cluster):
            child = (workspace.get("spec") or {}).get("cluster")
            if not child or workspace["spec"].get("mount") or meta.is_deleting(workspace):
                continue
            below = clusters.join(path, meta.name(workspace))
            if self._lookup.logical_cluster(child) is None:
                shard = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION) or "another shard"
                raise Conflict(
                    f"workspace {below} is on shard {shard}: move it to the shard of {path} first"
                )
            yield child, below

    def _exports(self, cluster: str) -> Iterator[tuple[str, str]]:
        path = self._lookup.canonical_path(cluster)
        for export in self._of_kind(kind_prefix(API_EXPORTS), cluster):
            secret = ((export.get("spec") or {}).get("identity") or {}).get("secretRef") or {}
            place = f"{cluster}/{secret.get('namespace')}/{secret.get('name')}"
            yield clusters.join(path, meta.name(export)), place

    def _bound(self, cluster: str) -> Iterator[tuple[str, str]]:
        for binding in self._of_kind(kind_prefix(API_BINDINGS), cluster):
            export = ((binding.get("spec") or {}).get("reference") or {}).get("export") or {}
            path = export.get("path") or self._lookup.canonical_path(cluster)
            for bound in (binding.get("status") or {}).get("boundResources") or ():
                identity = (bound.get("schema") or {}).get("identityHash")
                if identity:
                    yield clusters.join(path, export.get("name") or ""), identity

    def _of_kind(self, prefix: str, cluster: str) -> Iterator[Object]:
        for key in self._store.keys(f"{prefix}{cluster}/"):
            stored = self._stored(key)
            if stored is not None:
                yield stored

    async def rows(self, cluster: str, after: str, at: int) -> tuple[list[TravellingRow], str]:
        """A page of a logical cluster at a revision, and where the next one begins."""
        try:
            page = await self._store.export(cluster, after=after, at=at)
        except StoreError as error:
            raise translate(error) from error
        return [row_of(row) for row in page.rows], page.next_after

    # -- writing -----------------------------------------------------------------------

    async def begin(
        self, tree: CopiedTree, parent: str, name: str, user: User, *, is_new: bool
    ) -> str:
        """Start a copy below a logical cluster; its ID. `is_new`: beside the original.

        Raises what creating the workspace would raise.
        """
        await self.clear(older_than=_ABANDONED_SECONDS)
        names = self._renaming(tree, parent, name, is_new=is_new)
        taken = [one for one in names.clusters.values() if self._lookup.logical_cluster(one)]
        if taken:
            raise AlreadyExists(
                f"logical cluster {taken[0]} of {tree.path} exists here: delete that workspace"
                " first, or restore a copy with new names"
            )
        if self._store.get(object_key(_WORKSPACES, parent, "", name)) is not None:
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

    def _renaming(self, tree: CopiedTree, parent: str, name: str, *, is_new: bool) -> Renaming:
        seed = secrets.token_hex(32) if is_new else ""
        above = self._lookup.logical_cluster(parent)
        if above is None or meta.is_deleting(above):
            raise NotFound.resource(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource, parent)
        path = self._lookup.canonical_path(parent)
        is_foreign = self._installation(path) != tree.installation
        called = {one: new_cluster(seed, one) if seed else one for one in tree.clusters}
        names = Renaming(
            seed, called, {}, tree.exports, tree.path, clusters.join(path, name),
            _base_url(above), self._shard, export_labels(tree.exports, called), is_foreign,
        )  # fmt: skip
        return names._replace(identities=self._identities(tree, names))

    def _identities(self, tree: CopiedTree, names: Renaming) -> dict[str, str]:
        """Identities that differ here: of exports in the tree, and of those of this installation."""
        found: dict[str, str] = {}
        for export, identity in tree.identities.items():
            path, name = clusters.split(export)
            if export in tree.exports:
                if names.seed:
                    found[identity] = self._new_identity(tree.exports[export], names)
                continue
            here = self._lookup.find(API_EXPORTS, path, name) if names.is_foreign else None
            known = ((here or {}).get("status") or {}).get("identityHash")
            if known:
                found[identity] = known
        return {old: new for old, new in found.items() if new and new != old}

    def _new_identity(self, place: str, names: Renaming) -> str:
        cluster, namespace, name = place.split("/")
        secret = self._stored(object_key(kind_prefix(SECRETS), cluster, namespace, name)) or {}
        key = base64.b64decode((secret.get("data") or {}).get("key") or "").decode()
        return hashes.identity_hash(names.identity_key(key)) if key else ""

    async def add(self, copy: str, rows: Sequence[TravellingRow]) -> int:
        """Write content of a copy; the number of objects. Raises NotFound, BadRequest."""
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

    async def cancel(self, copy: str) -> None:
        """Remove what was written of a copy, its record last."""
        revision, record = self._record(copy)
        for cluster in _names(record).clusters.values():
            while True:
                page = await self._store.export(cluster)
                if not page.rows:
                    break
                for start in range(0, len(page.rows), _ON_ETCD):
                    some = page.rows[start : start + _ON_ETCD]
                    await self._write(
                        [DeleteKey(row.key, codec.reopen(row.value), row.revision) for row in some]
                    )
            self._trash.copying.discard(cluster)
        await self._write([DeleteKey(_key(copy), _encoded(copy, {}), revision)])

    async def clear(self, older_than: float = 0.0) -> None:
        """Remove copies that were not completed, by this process or an earlier one."""
        for key in self._store.keys(COPIES):
            name = key.rpartition("/")[2]
            if self._record(name)[1]["at"] + older_than <= time.time():
                await self.cancel(name)

    async def clone(self, tree: CopiedTree, parent: str, name: str, user: User) -> Object:
        """A copy beside the original, at the revision of the tree."""
        copy = await self.begin(tree, parent, name, user, is_new=True)
        try:
            waiting: list[TravellingRow] = []
            for cluster in tree.clusters:
                after, is_more = "", True
                while is_more:
                    rows, after = await self.rows(cluster, after, tree.revision)
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
        try:
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


def _workspace_of(cluster: Object, path: str) -> Object:
    """The Workspace of a LogicalCluster, as far as the LogicalCluster tells."""
    owner, name = cluster["spec"]["owner"], meta.cluster(cluster)
    kind_path, kind_name = clusters.split(meta.annotation(cluster, lifecycle.TYPE_ANNOTATION))
    status = cluster.get("status") or {}
    return {
        "metadata": {
            "name": owner["name"],
            "uid": owner["uid"],
            "creationTimestamp": cluster["metadata"].get("creationTimestamp"),
            "labels": {lifecycle.PHASE_LABEL: lifecycle.phase_of(cluster)},
            "annotations": {
                lifecycle.SHARD_ANNOTATION: "",
                lifecycle.SHARD_HASH_ANNOTATION: "",
                lifecycle.CLUSTER_ANNOTATION: name,
            },
            "finalizers": [lifecycle.WORKSPACE_FINALIZER],
        },
        "spec": {
            "type": {"name": kind_name, "path": kind_path},
            "cluster": name,
            "URL": f"{_base_url(cluster)}{clusters.request_path(path)}",
        },
        "status": {"phase": status.get("phase"), "conditions": status.get("conditions") or []},
    }


def _base_url(cluster: Object) -> str:
    url: str = (cluster.get("status") or {}).get("URL") or ""
    return url.partition("/clusters/")[0]
