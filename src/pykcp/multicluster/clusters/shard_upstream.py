"""The control plane as syncers inside a shard see it: its log instead of watches over HTTP."""

from __future__ import annotations

import asyncio
from collections import deque

import orjson

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.clients.remote.informer import ObjectHolder
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.labels import parse
from pykcp.machinery.meta import labels as labels_of
from pykcp.machinery.object_keys import ObjectKey, resource_id
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.types import Object


class LogDemultiplexer:
    """One handler of the feed for each type, whatever the number of followers.

    A feed cannot be left, but a type that is followed no longer costs one lookup per change.
    """

    def __init__(self, feed: ShardFeed) -> None:
        self._feed = feed
        self._followers: dict[str, dict[str, set[LogFollower]]] = {}
        """By resource and logical cluster."""

    def join(self, resource: str, cluster: str, follower: LogFollower) -> None:
        known = self._followers.get(resource)
        if known is None:
            known = self._followers[resource] = {}
            self._feed.on_resource(resource, self._deliver)
        known.setdefault(cluster, set()).add(follower)

    def leave(self, resource: str, cluster: str, follower: LogFollower) -> None:
        followers = self._followers.get(resource, {}).get(cluster, set())
        followers.discard(follower)
        if not followers:
            self._followers.get(resource, {}).pop(cluster, None)

    def _deliver(self, change: Change) -> None:
        known = self._followers[change.resource]
        for cluster in (change.cluster, WILDCARD):
            for follower in known.get(cluster, ()):
                follower.hear(change)


class LogFollower:
    """Tells a holder about the objects of a selection; see `syncer.servers.Follower`."""

    def __init__(
        self,
        upstream: ShardUpstream,
        kind: GroupVersionResource,
        cluster: str,
        selector: str,
        held: ObjectHolder,
    ) -> None:
        self.is_synced = asyncio.Event()
        self._upstream, self._kind, self._cluster = upstream, kind, cluster
        self._text, self._selector, self._held = selector, parse(selector), held
        self._heard: deque[ObjectKey] = deque()
        self._due = asyncio.Event()
        self._mark = selector.partition("=")[0].encode()

    def hear(self, change: Change) -> None:
        """Called as changes commit: objects without the label are recognized by their bytes."""
        if self._mark in change.value or self._mark in (change.previous() or b""):
            self._heard.append(change.key)
            self._due.set()

    async def run(self) -> None:
        resource = await self._upstream.resource_of(self._cluster, self._kind)
        self._upstream.log.join(resource, self._cluster, self)
        try:
            await self._list()
            while True:
                await self._due.wait()
                self._due.clear()
                while self._heard:
                    self._tell(self._heard.popleft())
                await self._held.settle()
        finally:
            self._upstream.log.leave(resource, self._cluster, self)

    async def _list(self) -> None:
        pages = self._upstream.client.pages(self._cluster, self._kind, labels=self._text)
        self._held.begin_replacing()
        async for page in pages:
            for obj in page:
                self._held.put(orjson.dumps(obj))
        for _ in self._held.end_replacing():
            continue
        await self._held.settle()
        self.is_synced.set()

    def _tell(self, key: ObjectKey) -> None:
        """The object as it is by now."""
        found = self._upstream.lister.get(key.cluster, self._kind, key.name, key.namespace)
        if found is not None and self._selector.matches(labels_of(found)):
            self._held.put(orjson.dumps(found))
        else:
            self._held.remove(orjson.dumps(found or _name_only(key)))


def _name_only(key: ObjectKey) -> Object:
    metadata: Object = {"name": key.name, "annotations": {"kcp.io/cluster": key.cluster}}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {"metadata": metadata}


class ShardUpstream:
    """See `syncer.servers.Upstream`."""

    def __init__(self, client: Client, lister: Lister, log: LogDemultiplexer) -> None:
        self.client, self.lister, self.log = client, lister, log

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: ObjectHolder
    ) -> LogFollower:
        return LogFollower(self, kind, cluster, labels, held)

    async def resource_of(self, cluster: str, kind: GroupVersionResource) -> str:
        """What the log calls a kind of a logical cluster: types of exports have an identity."""
        if cluster == WILDCARD:
            return kind_id(kind)
        for binding in await self.client.list(cluster, API_BINDINGS):
            for bound in (binding.get("status") or {}).get("boundResources") or ():
                if (bound.get("group") or "", bound.get("resource")) == (kind.group, kind.resource):
                    identity = (bound.get("schema") or {}).get("identityHash") or ""
                    found = kind_id(kind)
                    return found if ":" in found else resource_id(*kind[::2], identity)
        return kind_id(kind)
