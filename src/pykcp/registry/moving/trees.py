"""Trees of workspaces as they are copied: what there is, and its content.

A tree may be spread over shards. A shard reads its part, and says which workspaces below are on
others; `virtual/moving/spread.py` puts the parts together.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from pykcp.aio.slices import Slices
from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import BadRequest, NotFound
from pykcp.registry import codec
from pykcp.registry.errors import translate
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.moving.records import TravellingRow, row_of
from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Store
from pykcp.storage.numbering import slot_of
from pykcp.types import Object

WORKSPACE_PREFIX = kind_prefix(WORKSPACES)
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class CopiedTree(NamedTuple):
    """A workspace and all below it, as far as it has to be known before its content."""

    path: str
    revision: int
    installation: str
    """The uid of the root of the tree that it is in; "" if that is not known."""
    workspace: Object
    """The Workspace at the top."""
    clusters: list[str]
    """Logical clusters, that of the workspace first, each after the one that it is in."""
    exports: dict[str, str]
    """See `Renaming.exports`."""
    identities: dict[str, str]
    """The identities of all exports that are bound in the tree, by `path:name`."""
    shards: dict[str, str] = {}  # noqa: RUF012  # of a tuple: never changed
    """Logical clusters that are on other shards than that of the workspace, and on which."""

    @property
    def has_comparable_revision(self) -> bool:
        """Whether its shard numbers revisions by the clock that shards share."""
        return slot_of(self.revision) is not None

    def to_json(self) -> Object:
        return self._asdict()


class PartElsewhere(NamedTuple):
    """A workspace of a tree that is on another shard."""

    cluster: str
    shard: str


class TreePart(NamedTuple):
    """What one shard has of a tree."""

    tree: CopiedTree
    elsewhere: list[PartElsewhere]
    """Where it goes on."""

    def to_json(self) -> Object:
        return {**self.tree.to_json(), "elsewhere": [one._asdict() for one in self.elsewhere]}


def tree_from(obj: Any) -> CopiedTree:
    """Raises BadRequest."""
    try:
        fields = {name: obj[name] for name in CopiedTree._fields if name != "shards"}
        tree = CopiedTree(**fields, shards=obj.get("shards") or {})
        if not tree.clusters or not all(map(_NAME.fullmatch, tree.clusters)):
            raise BadRequest("clusters must be names of logical clusters")
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRequest(f"this is not a saved tree of workspaces: {error}") from error
    return tree


def part_from(obj: Any) -> TreePart:
    """Raises BadRequest."""
    return TreePart(tree_from(obj), [PartElsewhere(**one) for one in obj.get("elsewhere") or ()])


class TreeReader:
    def __init__(self, store: Store, lookup: ObjectLookup, shard: str) -> None:
        self._store, self._lookup, self._shard = store, lookup, shard

    async def part(self, top: str, *, is_top: bool = True) -> TreePart:
        """A workspace and those below it on this shard. Raises NotFound.

        `is_top`: whether it is the top of the whole tree, of which the Workspace is needed.
        """
        cluster = self._cluster(top)
        owner = (cluster or {}).get("spec", {}).get("owner") or {}
        if cluster is None or owner.get("resource") != WORKSPACES.resource:
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, top)
        path = self._lookup.canonical_path(top)
        workspace = self._workspace(cluster, path) if is_top else {}
        slices, exports, identities = Slices(top), dict[str, str](), dict[str, str]()
        found, waiting, elsewhere = list[str](), [top], list[PartElsewhere]()
        while waiting:
            name = waiting.pop()
            found.append(name)
            async for child in self._children(name, slices):
                if child.shard:
                    elsewhere.append(child)
                else:
                    waiting.append(child.cluster)
            exports.update([one async for one in self._exports(name, slices)])
            identities.update([one async for one in self._bound(name, slices)])
            if slices.is_over():
                await slices.next()
        tree = CopiedTree(
            path, self._store.revision, self.installation(path), workspace, found, exports,
            identities,
        )  # fmt: skip
        return TreePart(tree, elsewhere)

    def has(self, cluster: str) -> bool:
        """Whether a logical cluster is on this shard."""
        return self._cluster(cluster) is not None

    async def advance(self, revision: int) -> None:
        """All later writes here get newer revisions."""
        try:
            await self._store.advance(revision)
        except StoreError as error:
            raise translate(error) from error

    def is_below(self, cluster: str, top: str) -> bool:
        """Whether a logical cluster is that of a workspace, or of one below it."""
        while cluster != top:
            found = self._lookup.logical_cluster(cluster) or {}
            cluster = ((found.get("spec") or {}).get("owner") or {}).get("cluster") or ""
            if not cluster:
                return False
        return True

    def installation(self, path: str) -> str:
        """See `CopiedTree.installation`."""
        root = self._lookup.logical_cluster(path.partition(":")[0])
        return meta.uid(root) if root is not None else ""

    async def rows(self, cluster: str, after: str, at: int) -> tuple[list[TravellingRow], str]:
        """A page of a logical cluster at a revision, and where the next one begins."""
        try:
            page = await self._store.export(cluster, after=after, at=at)
        except StoreError as error:
            raise translate(error) from error
        return [row_of(row) for row in page.rows], page.next_after

    def _workspace(self, cluster: Object, path: str) -> Object:
        owner = cluster["spec"]["owner"]
        found = self._stored(object_key(WORKSPACE_PREFIX, owner["cluster"], "", owner["name"]))
        return found or _workspace_of(cluster, path)  # it is on the shard of its parent

    def _cluster(self, name: str) -> Object | None:
        """A LogicalCluster of this shard; the lookup also knows some of others, by the cache."""
        return self._stored(object_key(_CLUSTERS, name, "", "cluster"))

    def _stored(self, key: str) -> Object | None:
        entry = self._store.get(key)
        return codec.decode(entry.value) if entry is not None else None

    async def _children(self, cluster: str, slices: Slices) -> AsyncIterator[PartElsewhere]:
        """Logical clusters of the workspaces in one; without a shard: on this one."""
        async for workspace in self._of_kind(WORKSPACE_PREFIX, cluster, slices):
            child = (workspace.get("spec") or {}).get("cluster")
            if not child or workspace["spec"].get("mount") or meta.is_deleting(workspace):
                continue
            if self._cluster(child) is not None:
                yield PartElsewhere(child, "")
                continue
            shard = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION)
            if shard and shard != self._shard:  # otherwise it does not exist yet
                yield PartElsewhere(child, shard)

    async def _exports(self, cluster: str, slices: Slices) -> AsyncIterator[tuple[str, str]]:
        path = self._lookup.canonical_path(cluster)
        async for value in self._values(kind_prefix(API_EXPORTS), cluster, slices):
            export = _decode_export(value)
            identity = export.spec.identity if export.spec is not None else None
            secret = (identity.secret_ref if identity is not None else None) or _Secret()
            place = f"{cluster}/{secret.namespace}/{secret.name}"
            yield clusters.join(path, export.metadata.name), place

    async def _bound(self, cluster: str, slices: Slices) -> AsyncIterator[tuple[str, str]]:
        """Exports that are bound, and their identities: that of the last of their resources."""
        async for value in self._values(kind_prefix(API_BINDINGS), cluster, slices):
            binding = _decode_binding(value)
            reference = binding.spec.reference if binding.spec is not None else None
            export = (reference.export if reference is not None else None) or _ExportName()
            bound = binding.status.bound_resources if binding.status is not None else None
            path = export.path or self._lookup.canonical_path(cluster)
            for one in reversed(bound or ()):
                if one.schema is not None and one.schema.identity_hash:
                    yield clusters.join(path, export.name), one.schema.identity_hash
                    break

    async def _of_kind(self, prefix: str, cluster: str, slices: Slices) -> AsyncIterator[Object]:
        async for value in self._values(prefix, cluster, slices):
            yield codec.decode(value)

    async def _values(self, prefix: str, cluster: str, slices: Slices) -> AsyncIterator[bytes]:
        """There may be many, and large ones."""
        for key in self._store.keys(f"{prefix}{cluster}/"):
            entry = self._store.get(key)
            if entry is not None:
                yield entry.value
            if slices.is_over():
                await slices.next()


class _Metadata(msgspec.Struct):
    name: str


class _Secret(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None


class _Identity(msgspec.Struct, rename="camel"):
    secret_ref: _Secret | None = None


class _ExportSpec(msgspec.Struct):
    identity: _Identity | None = None


class _Export(msgspec.Struct):
    """What a copy has to know of an export: one of some megabytes is not decoded whole, since many
    may be read at a time."""

    metadata: _Metadata
    spec: _ExportSpec | None = None


class _ExportName(msgspec.Struct):
    name: str = ""
    path: str | None = None


class _Reference(msgspec.Struct):
    export: _ExportName | None = None


class _BindingSpec(msgspec.Struct):
    reference: _Reference | None = None


class _Schema(msgspec.Struct, rename="camel"):
    identity_hash: str | None = None


class _BoundResource(msgspec.Struct):
    schema: _Schema | None = None


class _BindingStatus(msgspec.Struct, rename="camel"):
    bound_resources: list[_BoundResource] | None = None


class _Binding(msgspec.Struct):
    """The same of a binding."""

    spec: _BindingSpec | None = None
    status: _BindingStatus | None = None


_decode_export = msgspec.json.Decoder(_Export).decode
_decode_binding = msgspec.json.Decoder(_Binding).decode


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
            "URL": f"{base_url(cluster)}{clusters.request_path(path)}",
        },
        "status": {"phase": status.get("phase"), "conditions": status.get("conditions") or []},
    }


def base_url(cluster: Object) -> str:
    """The address of the server in the URL of a LogicalCluster."""
    url: str = (cluster.get("status") or {}).get("URL") or ""
    return url.partition("/clusters/")[0]
