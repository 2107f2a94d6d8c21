"""Copies the objects selected by ClusterCachedResources to the cache.

One controller for all of them. A ClusterCachedResource has nothing running of its own: it is
an entry in a table by which events of its resource, in its logical cluster, are recognised.
When all objects are copied, the cache gets a mark that says so (`copy_marks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.cache.copy_marks import MARKS, copies_of, mark_object
from pykcp.controllers.cache.published import Copy, PublishedCopies, plan_copy
from pykcp.controllers.cache.replication_plan import CopyAction
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.kinds import stored_as
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import labels, meta
from pykcp.machinery.object_keys import ObjectKey, resource_id
from pykcp.machinery.resources import CACHED_OBJECTS, GroupVersionResource
from pykcp.machinery.status import AlreadyExists, NotFound
from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.types import Object

NAME = "kcp-cluster-cached-resource-replication-controller"


@dataclass(frozen=True, slots=True)
class RequestedCopies:
    """What one ClusterCachedResource asks for."""

    owner: ObjectKey
    resource: Resource
    kind: GroupVersionResource
    identity: str
    labels: str
    """A selector."""

    @property
    def stored(self) -> str:
        """What the originals are stored as."""
        return stored_as(self.resource.definition)

    @property
    def cached(self) -> str:
        """What the copies are in the cache."""
        return resource_id(self.kind.group, self.kind.resource, self.identity)

    @property
    def cached_kind(self) -> GroupVersionResource:
        """As it is called in the cache."""
        return self.kind._replace(resource=f"{self.kind.resource}:{self.identity}")


class Copied(NamedTuple):
    """One object to look at."""

    cluster: str
    owner: str
    """The name of the ClusterCachedResource."""
    name: str
    """"": the mark that all are copied."""


class CachedCopies:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        published: PublishedCopies,
        shard: str,
        changed: Callable[[ObjectKey], None],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`changed` is called with the ClusterCachedResource whose copies have changed."""
        self._lister, self._client = lister, client
        self._published, self._shard = published, shard
        self._changed = changed
        self._feed: ShardFeed | None = None
        self._wanted: dict[str, dict[str, RequestedCopies]] = {}
        """By logical cluster, then by the name of the ClusterCachedResource."""
        self._heard: set[str] = set()
        self._uncopied: dict[ObjectKey, set[Copied]] = {}
        """What the last comparison found and is not copied yet, by ClusterCachedResource."""
        self.controller: Controller[Copied] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: ShardFeed) -> None:
        self._feed = feed
        self._published.listen(self._on_copy)

    def want(self, wanted: RequestedCopies) -> bool:
        """Keep these objects copied from now on; False if that is so already."""
        cluster, name = wanted.owner.cluster, wanted.owner.name
        before = self._of(cluster, name)
        if before is not None and _is_same(before, wanted):
            return False
        self._wanted.setdefault(cluster, {})[name] = wanted
        if wanted.stored not in self._heard and self._feed is not None:
            self._heard.add(wanted.stored)
            self._feed.on_resource(wanted.stored, self._on_original)
        return True

    def _of(self, cluster: str, owner: str) -> RequestedCopies | None:
        return self._wanted.get(cluster, {}).get(owner)

    def forget(self, owner: ObjectKey) -> None:
        self._uncopied.pop(owner, None)
        here = self._wanted.get(owner.cluster, {})
        if here.pop(owner.name, None) is not None and not here:
            del self._wanted[owner.cluster]

    async def compare(self, wanted: RequestedCopies) -> None:
        """Look at every original and at every copy."""
        cluster, owner = wanted.owner.cluster, wanted.owner.name
        names = set(self._published.names(wanted.cached, cluster))
        async for page in self._lister.metadata_of(wanted.stored, cluster):
            names.update(metadata.name for metadata in page)
        found = {Copied(cluster, owner, name) for name in names}
        self._uncopied[wanted.owner] = found
        for key in found or (Copied(cluster, owner, ""),):
            self.controller.add(key)

    def _on_original(self, change: Change) -> None:
        for owner, wanted in self._wanted.get(change.cluster, {}).items():
            if wanted.stored == change.resource:
                self.controller.add(Copied(change.cluster, owner, change.name))

    def _on_copy(self, copy: Copy) -> None:
        if ":" not in copy.resource and copy.resource != MARKS:
            return
        for owner, wanted in self._wanted.get(copy.cluster, {}).items():
            if (copy.resource, copy.name) == (MARKS, owner):
                self.controller.add(Copied(copy.cluster, owner, ""))
            elif wanted.cached == copy.resource:
                self.controller.add(Copied(copy.cluster, owner, copy.name))
                self._changed(wanted.owner)

    async def reconcile(self, key: Copied) -> None:
        wanted = self._of(key.cluster, key.owner)
        if wanted is None:
            return
        if not key.name:
            await self._mark(wanted)
            return
        await self._copy(wanted, key)
        uncopied = self._uncopied.get(wanted.owner)
        if uncopied is not None and self._of(key.cluster, key.owner) is wanted:
            uncopied.discard(key)
            if not uncopied:
                self.controller.add(key._replace(name=""))

    async def _mark(self, wanted: RequestedCopies) -> None:
        """Say that everything is copied, if it is so; if the mark was lost, look at everything."""
        cluster, name = wanted.owner.cluster, wanted.owner.name
        uncopied = self._uncopied.get(wanted.owner)
        if uncopied:
            return  # the last of them comes back here
        found = await self._published.get(CACHED_OBJECTS, cluster, name)
        if copies_of(found) == wanted.cached:
            self._uncopied.pop(wanted.owner, None)
            return
        if uncopied is None:
            await self.compare(wanted)
            return
        mark = mark_object(name, wanted.cached)
        if found is None:
            await self._published.create(CACHED_OBJECTS, cluster, mark)
        else:
            mark["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
            await self._published.update(CACHED_OBJECTS, cluster, mark)

    async def remove_mark(self, owner: ObjectKey) -> None:
        """Before the copies go."""
        try:
            await self._published.delete(CACHED_OBJECTS, owner.cluster, owner.name)
        except NotFound:
            return

    async def _copy(self, wanted: RequestedCopies, key: Copied) -> None:
        local = await self._original(wanted, key)
        try:
            cached = await self._published.outline(wanted.cached_kind, key.cluster, key.name)
            todo = await plan_copy(self._published, key.cluster, local, cached, self._shard)
            if self._of(key.cluster, key.owner) is not wanted:
                return
            if todo.action is CopyAction.DELETE:
                await self._published.delete(wanted.cached_kind, key.cluster, key.name)
            elif todo.copy is not None:
                await self._published.write(wanted.cached_kind, key.cluster, todo.copy)
        except (AlreadyExists, NotFound) as error:
            # Written at the same time; or the cache does not know the ClusterCachedResource yet.
            raise Requeue(str(error)) from error
        finally:
            self._changed(wanted.owner)

    async def _original(self, wanted: RequestedCopies, key: Copied) -> Object | None:
        """What there is to copy, in outline."""
        found = await self._client.get(key.cluster, wanted.kind, key.name)
        if found is None:
            return None
        # Those of two versions may share an identity: none removes what the other one selects.
        here = self._wanted.get(key.cluster, {}).values()
        selectors = {one.labels for one in here if one.cached == wanted.cached} | {wanted.labels}
        given = meta.labels(found)
        if not any(labels.parse(one).matches(given) for one in selectors):
            return None
        return codec.outline_of(found)


def _is_same(one: RequestedCopies, other: RequestedCopies) -> bool:
    return (one.owner, one.kind, one.identity, one.labels) == (
        other.owner,
        other.kind,
        other.identity,
        other.labels,
    ) and one.resource is other.resource
