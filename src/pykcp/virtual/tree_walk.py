"""Walks the workspaces below a logical cluster, parents first, sorted by name.

The order is stable, so a walk can continue after any path, even if workspaces were created or
deleted in between. Children are visible to users who may list workspaces in their parent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.stored import Query, StoreReader
from pykcp.virtual.tree_visibility import TreeVisibility

_PREFIX = kind_prefix(WORKSPACES)
_PAGE = 250
_SLICE = 0.005
"""Seconds after which others have their turn."""


class _Metadata(msgspec.Struct):
    name: str
    created: str = msgspec.field(default="", name="creationTimestamp")
    deleted: str = msgspec.field(default="", name="deletionTimestamp")
    labels: dict[str, str] | None = None


class _Type(msgspec.Struct):
    name: str = ""
    path: str = ""


class _Spec(msgspec.Struct):
    cluster: str = ""
    URL: str = ""
    type: _Type | None = None
    mount: msgspec.Raw | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Workspace(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Workspace).decode


class TreeItem(msgspec.Struct, omit_defaults=True):
    """A workspace of the tree in the response."""

    path: str
    name: str
    cluster: str = ""
    type: str = ""
    phase: str = ""
    URL: str = ""
    created: str = msgspec.field(default="", name="creationTimestamp")
    deleted: str = msgspec.field(default="", name="deletionTimestamp")
    labels: dict[str, str] | None = None
    mount: msgspec.Raw | None = None
    children: int | None = None
    """How many; None if the caller may not know, or it is not for this shard to say."""


class Branch:
    """The children of one logical cluster, read some at a time."""

    def __init__(self, store: StoreReader, cluster: str, path: str, after: str = "") -> None:
        self.cluster, self.path = cluster, path
        self._store, self._prefix = store, f"{_PREFIX}{cluster}/"
        self._after = object_key(_PREFIX, cluster, "", after) if after else ""
        self._values: list[bytes] = []
        self._next = 0
        self._has_more = True

    async def open(self) -> int:
        """How many there are (left)."""
        return await self._read(is_counted=True)

    async def _read(self, *, is_counted: bool = False) -> int:
        page = await self._store.list(
            Query(self._prefix, after=self._after, limit=_PAGE, count_remaining=is_counted)
        )
        self._values, self._next = page.values, 0
        self._after, self._has_more = page.next_after, bool(page.next_after)
        return len(page.values) + (page.remaining or 0)

    async def next(self) -> _Workspace | None:
        if self._next >= len(self._values):
            if not self._has_more:
                return None
            await self._read()
            if not self._values:
                return None
        value = self._values[self._next]
        self._next += 1
        return _decode(value)


class Walk:
    def __init__(
        self, store: StoreReader, visibility: TreeVisibility, *, has_counts: bool = True
    ) -> None:
        """`has_counts`: whether children are counted also where the walk does not enter."""
        self._store, self._visibility, self._has_counts = store, visibility, has_counts

    async def items(
        self, cluster: str, path: str, depth: int, after: Sequence[str] = ()
    ) -> AsyncIterator[TreeItem]:
        """Everything below a cluster, to a depth (0: any), behind a path that is relative to it."""
        branches = await self._resumed(cluster, path, depth, after)
        rested = time.perf_counter()
        while branches:
            branch = branches[-1]
            found = await branch.next()
            if found is None:
                branches.pop()
                continue
            item = _item(found, branch.path)
            enters = not depth or len(branches) < depth
            below = await self._below(item) if enters or self._has_counts else None
            if below is not None:
                item.children = await below.open()
                if item.children and enters:
                    branches.append(below)
            yield item
            if time.perf_counter() - rested > _SLICE:
                await asyncio.sleep(0)
                rested = time.perf_counter()

    async def _resumed(
        self, cluster: str, path: str, depth: int, after: Sequence[str]
    ) -> list[Branch]:
        """The branches that were open when the walk was at `after`, in the order of opening."""
        branches: list[Branch] = []
        for name in after:
            branches.append(Branch(self._store, cluster, path, name))
            entry = self._store.get(object_key(_PREFIX, cluster, "", name))
            item = _item(_decode(entry.value), path) if entry is not None else None
            if item is None or await self._below(item) is None:
                return branches  # nothing is below it any more: go on beside it
            cluster, path = item.cluster, item.path
        if not depth or len(branches) < depth:
            branches.append(Branch(self._store, cluster, path))
        return branches

    async def _below(self, item: TreeItem) -> Branch | None:
        """The children of a workspace, if they are here and for the caller to see."""
        if item.cluster and await self._visibility.allows(item.cluster):
            return Branch(self._store, item.cluster, item.path)
        return None


def _item(workspace: _Workspace, parent: str) -> TreeItem:
    metadata, spec = workspace.metadata, workspace.spec
    kind = spec.type
    return TreeItem(
        clusters.join(parent, metadata.name),
        metadata.name,
        "" if spec.mount else spec.cluster,
        clusters.join(kind.path, kind.name) if kind else "",
        workspace.status.phase,
        spec.URL,
        metadata.created,
        metadata.deleted,
        metadata.labels,
        spec.mount,
    )
