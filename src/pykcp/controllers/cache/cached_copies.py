"""Copies the objects selected by ClusterCachedResources to the cache.

One controller for all of them. A ClusterCachedResource has nothing running of its own: it is
an entry in a table by which events of its resource, in its logical cluster, are recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.cache.published import Copy, PublishedCopies
from pykcp.controllers.cache.replication_plan import CopyAction, plan
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.kinds import stored_as
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import labels, meta
from pykcp.machinery.object_keys import ObjectKey, resource_id
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import AlreadyExists, NotFound
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
    stored: str
    name: str


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
        """By logical cluster, then by what the originals are stored as."""
        self._heard: set[str] = set()
        self.controller: Controller[Copied] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: ShardFeed) -> None:
        self._feed = feed
        self._published.listen(self._on_copy)

    def want(self, wanted: RequestedCopies) -> bool:
        """Keep these objects copied from now on; False if that is so already."""
        before = self._of(wanted.owner.cluster, wanted.stored)
        if before is not None and _is_same(before, wanted):
            return False
        self._wanted.setdefault(wanted.owner.cluster, {})[wanted.stored] = wanted
        if wanted.stored not in self._heard and self._feed is not None:
            self._heard.add(wanted.stored)
            self._feed.on_resource(wanted.stored, self._on_original)
        return True

    def _of(self, cluster: str, stored: str) -> RequestedCopies | None:
        return self._wanted.get(cluster, {}).get(stored)

    def forget(self, owner: ObjectKey) -> None:
        here = self._wanted.pop(owner.cluster, {})
        left = {stored: wanted for stored, wanted in here.items() if wanted.owner != owner}
        if left:
            self._wanted[owner.cluster] = left

    async def compare(self, wanted: RequestedCopies) -> None:
        """Look at every original and at every copy."""
        cluster = wanted.owner.cluster
        names = set(self._published.names(wanted.cached, cluster))
        async for page in self._lister.metadata_of(wanted.stored, cluster):
            names.update(metadata.name for metadata in page)
        for name in names:
            self.controller.add(Copied(cluster, wanted.stored, name))

    def _on_original(self, change: Change) -> None:
        if self._of(change.cluster, change.resource) is not None:
            self.controller.add(Copied(change.cluster, change.resource, change.name))

    def _on_copy(self, copy: Copy) -> None:
        if ":" not in copy.resource:
            return
        for stored, wanted in self._wanted.get(copy.cluster, {}).items():
            if wanted.cached == copy.resource:
                self.controller.add(Copied(copy.cluster, stored, copy.name))
                self._changed(wanted.owner)

    async def reconcile(self, key: Copied) -> None:
        wanted = self._of(key.cluster, key.stored)
        if wanted is None:
            return
        local = await self._original(wanted, key)
        try:
            cached = await self._published.get(wanted.cached_kind, key.cluster, key.name)
            todo = plan(local, cached, self._shard)
            if self._of(key.cluster, key.stored) is not wanted:
                return
            if todo.action is CopyAction.DELETE:
                await self._published.delete(wanted.cached_kind, key.cluster, key.name)
            elif todo.action is CopyAction.CREATE and todo.copy is not None:
                await self._published.create(wanted.cached_kind, key.cluster, todo.copy)
            elif todo.copy is not None:
                await self._published.update(wanted.cached_kind, key.cluster, todo.copy)
        except AlreadyExists:
            self.controller.add(key)
        except NotFound:
            # The cache does not know the ClusterCachedResource yet: when it does, all are compared.
            return
        finally:
            self._changed(wanted.owner)

    async def _original(self, wanted: RequestedCopies, key: Copied) -> Object | None:
        found = await self._client.get(key.cluster, wanted.kind, key.name)
        if found is None or not labels.parse(wanted.labels).matches(meta.labels(found)):
            return None
        return found


def _is_same(one: RequestedCopies, other: RequestedCopies) -> bool:
    return (one.owner, one.kind, one.identity, one.labels) == (
        other.owner,
        other.kind,
        other.identity,
        other.labels,
    ) and one.resource is other.resource
