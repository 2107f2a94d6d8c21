"""Copies the objects that ClusterCachedResources ask for into the cache.

One controller for all of them. A ClusterCachedResource has nothing running of its own: it is
an entry in a table by which events of its resource, in its logical cluster, are recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.controllers.cache.published import Copy, PublishedCopies
from pykcp.controllers.cache.replication_plan import CopyAction, plan
from pykcp.controllers.runtime.controller import Controller, ObjectKey
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import AlreadyExists, NotFound
from pykcp.registry.keys import object_key, resource_prefix, split_key
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import Selection
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

NAME = "kcp-cluster-cached-resource-replication-controller"


@dataclass(frozen=True, slots=True)
class RequestedCopies:
    """What one ClusterCachedResource asks for."""

    owner: ObjectKey
    resource: Resource
    kind: GroupVersionResource
    identity: str
    selection: Selection

    @property
    def prefix(self) -> str:
        """Of the originals' keys."""
        return self.resource.prefix

    @property
    def cached_prefix(self) -> str:
        return cached_prefix(self.kind, self.identity)

    @property
    def cached_kind(self) -> GroupVersionResource:
        """As it is called in the cache."""
        return self.kind._replace(resource=f"{self.kind.resource}:{self.identity}")


def cached_prefix(kind: GroupVersionResource, identity: str) -> str:
    """Of the copies' keys in the cache."""
    return resource_prefix(kind.group, kind.resource, identity)


class Copied(NamedTuple):
    """One object to look at."""

    cluster: str
    prefix: str
    name: str


class CachedCopies:
    def __init__(
        self,
        store: Store,
        published: PublishedCopies,
        shard: str,
        changed: Callable[[ObjectKey], None],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`changed` is called with the ClusterCachedResource whose copies have changed."""
        self._store, self._published, self._shard = store, published, shard
        self._changed = changed
        self._feed: LogFeed | None = None
        self._wanted: dict[str, dict[str, RequestedCopies]] = {}
        """By logical cluster, then by prefix."""
        self._heard: set[str] = set()
        self.controller: Controller[Copied] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: LogFeed) -> None:
        self._feed = feed
        self._published.listen(self._on_copy)

    def want(self, wanted: RequestedCopies) -> bool:
        """Keep these objects copied from now on; False if that is so already."""
        before = self._of(wanted.owner.cluster, wanted.prefix)
        if before is not None and _is_same(before, wanted):
            return False
        self._wanted.setdefault(wanted.owner.cluster, {})[wanted.prefix] = wanted
        if wanted.prefix not in self._heard and self._feed is not None:
            self._heard.add(wanted.prefix)
            self._feed.on(wanted.prefix, self._on_original)
        return True

    def _of(self, cluster: str, prefix: str) -> RequestedCopies | None:
        return self._wanted.get(cluster, {}).get(prefix)

    def forget(self, owner: ObjectKey) -> None:
        here = self._wanted.pop(owner.cluster, {})
        left = {prefix: wanted for prefix, wanted in here.items() if wanted.owner != owner}
        if left:
            self._wanted[owner.cluster] = left

    def compare(self, wanted: RequestedCopies) -> None:
        """Look at every original and at every copy."""
        cluster = wanted.owner.cluster
        names = {split_key(k).name for k in self._store.keys(f"{wanted.prefix}{cluster}/")}
        names.update(self._published.names(wanted.cached_prefix, cluster))
        for name in names:
            self.controller.add(Copied(cluster, wanted.prefix, name))

    def _on_original(self, event: Event) -> None:
        parts = split_key(event.key)
        if self._of(parts.cluster, parts.resource_prefix) is not None:
            self.controller.add(Copied(parts.cluster, parts.resource_prefix, parts.name))

    def _on_copy(self, copy: Copy) -> None:
        if ":" not in copy.prefix:
            return
        for prefix, wanted in self._wanted.get(copy.cluster, {}).items():
            if wanted.cached_prefix == copy.prefix:
                self.controller.add(Copied(copy.cluster, prefix, copy.name))
                self._changed(wanted.owner)

    async def reconcile(self, key: Copied) -> None:
        wanted = self._of(key.cluster, key.prefix)
        if wanted is None:
            return
        local = await self._original(wanted, key)
        try:
            cached = self._published.get(wanted.cached_kind, key.cluster, key.name)
            todo = plan(local, cached, self._shard)
            if self._of(key.cluster, key.prefix) is not wanted:
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
        entry = self._store.get(object_key(key.prefix, key.cluster, "", key.name))
        if entry is None:
            return None
        matches = wanted.selection.matcher()
        if matches is not None and not matches(entry.terms):
            return None
        return wanted.resource.object_of(await wanted.resource.own_form(entry.value))


def _is_same(one: RequestedCopies, other: RequestedCopies) -> bool:
    return (one.owner, one.kind, one.identity, one.selection.key) == (
        other.owner,
        other.kind,
        other.identity,
        other.selection.key,
    ) and one.resource is other.resource
