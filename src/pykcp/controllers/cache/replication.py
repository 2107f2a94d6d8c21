"""Publishes objects that other shards need in the cache server, and keeps the copies up to date.

Copies that are changed or removed there are restored, so a cache that was wiped is filled again.
At start, and whenever a remote cache server is back, versions are compared: unchanged objects are
not read again. When everything is published, the shard's part is marked as complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import msgspec

from pykcp.aio.slices import Slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.cache.published import Copy, PublishedCopies, plan_copy
from pykcp.controllers.cache.replication_plan import (
    NOTHING,
    OF_MARKED,
    PUBLISHED,
    WHOLE,
    WITHHOLDING,
    CopyAction,
    ReplicationPlan,
    belongs,
    is_published_place,
    plan,
    public_form,
)
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.kcp.clusters import WILDCARD, is_system
from pykcp.machinery.kcp.replicate_marks import ANNOTATION, is_marked
from pykcp.machinery.object_keys import ObjectRef, resource_id
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKLOAD_CLUSTERS, GroupVersionResource
from pykcp.machinery.status import (
    AlreadyExists,
    Conflict,
    NotFound,
    ServiceUnavailable,
    StatusError,
)
from pykcp.registry import codec
from pykcp.registry.codec import CLUSTER_ANNOTATION, decode
from pykcp.registry.indexes.entries import PUBLISHED_CLUSTERS
from pykcp.types import Object

NAME = "kcp-replication-controller"
CLUSTER = "cluster"
"""The name of every LogicalCluster."""
_MARK = ANNOTATION.encode()


class Original(NamedTuple):
    """Something that is published, or was."""

    kind: GroupVersionResource
    cluster: str
    name: str


WHOLE_PART = Original(GroupVersionResource("", "", ""), "", "")
"""The key under which all versions are compared."""


class Replication:
    def __init__(
        self,
        lister: Lister,
        published: PublishedCopies,
        shard: str,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister = lister
        self._published = published
        self._shard = shard
        self._by_id = {resource_id(kind.group, kind.resource): kind for kind in PUBLISHED}
        """By their `resource_id` in the cache."""
        self._unpublished: set[Original] = set()
        """What the last comparison found and is not published yet."""
        self._highest = 0
        """The highest version that it found."""
        self._mark: Object | None = None
        """Of the part, to be completed when nothing is unpublished."""
        self.controller: Controller[Original] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        for kind in WHOLE:
            feed.on(kind, _Adds(self.controller, kind))
        for kind in (LOGICAL_CLUSTERS, *OF_MARKED):
            feed.on(kind, _AddsMarked(self, kind))
        feed.at_start(self._begin)
        self._published.listen(self._on_copy)
        self._published.on_return(self._compare_again)

    async def _begin(self) -> None:
        self._compare_again()

    def _compare_again(self) -> None:
        self.controller.add(WHOLE_PART)

    def _on_copy(self, copy: Copy) -> None:
        kind = self._by_id.get(copy.resource)
        if kind is not None:
            self.controller.add(Original(kind, copy.cluster, copy.name))

    def concerns(self, original: Original, change: Change) -> bool:
        """Whether a role, a Cluster or a logical cluster is published, or was. Most never are."""
        is_candidate = original.kind == WORKLOAD_CLUSTERS or _MARK in change.value
        if change.deleted or not is_candidate:
            return self._published.has(*original)
        if original.kind == LOGICAL_CLUSTERS:
            return True
        return self._is_marked(original.cluster) or self._published.has(*original)

    async def reconcile(self, key: Original) -> None:
        try:
            await self._reconcile(key)
        except ServiceUnavailable as error:
            # A remote cache server is away, which is logged once and not for every object.
            raise Requeue(str(error)) from error

    async def _reconcile(self, key: Original) -> None:
        if key == WHOLE_PART:
            self._mark = None
            mark = await self._published.begin()
            await self.compare()
            self._mark = mark
        elif await self._publish(key):
            self._unpublished.discard(key)
        if self._mark is not None and not self._unpublished:
            await self._complete(self._mark)

    async def _complete(self, mark: Object) -> None:
        """Everything that the comparison found is published."""
        self._mark = None
        try:
            await self._published.finish(mark, self._highest)
        except (Conflict, NotFound):
            self._compare_again()  # the cache has lost its data meanwhile
        except StatusError:
            if self._mark is None:  # no other comparison has begun
                self._mark = mark
            raise

    async def _publish(self, key: Original) -> bool:
        """False if the copy was written by somebody else meanwhile: the key is queued again."""
        kind, cluster, name = key
        slices = Slices(cluster)
        local = self._local(key)
        if slices.is_over():
            await slices.next()
        if self._is_published(key, local):
            return True
        if slices.is_over():
            await slices.next()
        copy = await self._published.outline(kind, cluster, name)
        if slices.is_over():
            await slices.next()
        todo = await plan_copy(self._published, cluster, local, copy, self._shard)
        is_done = await self._carry_out(key, todo)
        has_turned = todo.action in (CopyAction.CREATE, CopyAction.DELETE)
        if kind == LOGICAL_CLUSTERS and has_turned:
            for one in self._of_marked(cluster):
                self.controller.add(one)
        return is_done

    def _is_published(self, key: Original, local: Object | None) -> bool:
        """Whether the copy is right by what was last heard of it, as when it was just written here.

        What a comparison found is not taken from there: the cache may have lost the copy.
        """
        if not self._published.is_remote or key in self._unpublished:
            return False
        return plan(local, self._published.last_heard(*key), self._shard) is NOTHING

    async def _carry_out(self, key: Original, todo: ReplicationPlan) -> bool:
        kind, cluster, name = key
        if todo.action is CopyAction.DELETE:
            await self._published.delete(kind, cluster, name)
        elif todo.copy is not None:
            try:
                await self._published.write(kind, cluster, todo.copy)
            except (AlreadyExists, NotFound):
                self.controller.add(key)  # a concurrent write: check the current state
                return False
        return True

    def _local(self, key: Original) -> Object | None:
        """What there is to publish, in outline."""
        value = self._lister.value(_ref(key))
        if value is None:
            return None
        local = codec.outline(value)
        in_marked = key.kind not in OF_MARKED or self._is_marked(key.cluster)
        if not belongs(key.kind, key.cluster, local, in_marked=in_marked):
            return None
        if key.kind in WITHHOLDING:
            return codec.outline_of(public_form(key.kind, decode(value)))
        return local

    def _is_marked(self, cluster: str) -> bool:
        value = self._lister.value(_ref(Original(LOGICAL_CLUSTERS, cluster, CLUSTER)))
        return value is not None and _MARK in value and is_marked(decode(value))

    def _of_marked(self, cluster: str) -> Iterator[Original]:
        for kind in OF_MARKED:
            for key in self._lister.keys(kind, cluster):
                yield Original(kind, cluster, key.name)

    async def compare(self) -> None:
        """Find changes that were missed while the controller did not run, on either side."""
        self._unpublished.clear()
        for kind in PUBLISHED:
            copies = {(c, n): version async for c, n, version in self._published.versions(kind)}
            async for cluster, name, version in self._originals(kind):
                self._highest = max(self._highest, int(version))
                if copies.pop((cluster, name), None) != version:
                    self._differs(Original(kind, cluster, name))
            for cluster, name in copies:
                self._differs(Original(kind, cluster, name))

    def _differs(self, original: Original) -> None:
        self._unpublished.add(original)
        self.controller.add(original)

    async def _originals(self, kind: GroupVersionResource) -> AsyncIterator[tuple[str, str, str]]:
        """Cluster, name and version of what there is to publish of a kind."""
        if kind in WHOLE:
            async for values in self._lister.values_of(kind_id(kind), WILDCARD):
                for seen in map(_decode, values):
                    metadata = seen.metadata
                    cluster = metadata.annotations[CLUSTER_ANNOTATION]
                    if is_published_place(kind, cluster):
                        yield cluster, metadata.name, metadata.resource_version
            return
        for ref in self._lister.find(PUBLISHED_CLUSTERS, LOGICAL_CLUSTERS):
            cluster = ref.cluster
            own = Original(LOGICAL_CLUSTERS, cluster, CLUSTER)
            wanted = (own,) if kind == LOGICAL_CLUSTERS else self._of_marked(cluster)
            for original in wanted:
                local = self._local(original) if original.kind == kind else None
                if local is not None:
                    yield cluster, original.name, local["metadata"]["resourceVersion"]
            await asyncio.sleep(0)


class _Adds:
    """A handler for a kind of which everything is published."""

    def __init__(self, controller: Controller[Original], kind: GroupVersionResource) -> None:
        self._controller = controller
        self._kind = kind

    def __call__(self, change: Change) -> None:
        if is_published_place(self._kind, change.cluster):
            self._controller.add(Original(self._kind, change.cluster, change.name))


class _AddsMarked:
    """A handler for a kind of which only the marked ones are."""

    def __init__(self, replication: Replication, kind: GroupVersionResource) -> None:
        self._replication = replication
        self._kind = kind

    def __call__(self, change: Change) -> None:
        original = Original(self._kind, change.cluster, change.name)
        if not is_system(change.cluster) and self._replication.concerns(original, change):
            self._replication.controller.add(original)


def _ref(original: Original) -> ObjectRef:
    return ObjectRef(kind_id(original.kind), original.cluster, "", original.name)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    annotations: dict[str, str]


class _Stored(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Stored).decode
