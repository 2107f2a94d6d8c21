"""The control plane as a syncer in its own process sees it: the feed of the shard, and its client.

One handler serves all syncers of the process. It looks at the labels of each change, which costs
a search in a short text; objects are read only if they concern a syncer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

import orjson

from pykcp.clients.interface import Change, Client, ShardFeed
from pykcp.machinery.labels import parse
from pykcp.machinery.meta import CLUSTER_ANNOTATION
from pykcp.machinery.meta import labels as labels_of
from pykcp.machinery.object_keys import ObjectKey, resource_id
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.machinery.terms import label_term
from pykcp.multicluster.elsewhere import provider_of
from pykcp.multicluster.syncer.servers import LeafHolder
from pykcp.types import Object

_log = logging.getLogger(__name__)
_BINDINGS = resource_id(API_BINDINGS.group, API_BINDINGS.resource)
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 30.0


class FeedUpstream:
    """The upstream of all syncers of a process."""

    def __init__(
        self,
        client: Client,
        feed: ShardFeed,
        consumers: Callable[[str], Iterable[str]] = lambda _: (),
        hosts: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`consumers`: other workspaces that the clusters of a workspace serve; `hosts`: whether
        this shard has a workspace.
        """
        self.client, self.consumers, self.hosts = client, consumers, hosts
        self._feed, self._is_listening = feed, False
        self._followers: dict[str, list[FeedFollower]] = {}

    def follow(
        self, kind: GroupVersionResource, cluster: str, labels: str, held: LeafHolder
    ) -> FeedFollower:
        """The objects of a kind with this label, as `key=value`, in one logical cluster."""
        return FeedFollower(self, kind, cluster, labels, held)

    def follow_consumers(
        self, kind: GroupVersionResource, workspace: str, labels: str, held: LeafHolder
    ) -> ConsumerFollower:
        """The same in all workspaces that the clusters of a workspace serve."""
        return ConsumerFollower(self, kind, workspace, labels, held)

    def register(self, resource: str, follower: FeedFollower) -> None:
        """Tell a follower about changes from now on."""
        if not self._is_listening:
            self._feed.on_everything(self._on_change)
            self._is_listening = True
        self._followers.setdefault(resource, []).append(follower)

    def unregister(self, resource: str, follower: FeedFollower) -> None:
        found = self._followers.get(resource, [])
        if follower in found:
            found.remove(follower)
        if not found:
            self._followers.pop(resource, None)

    def _on_change(self, change: Change) -> None:
        if not self._followers:
            return
        if change.resource.startswith(_BINDINGS):
            provider = provider_of(change.value)
            for followers in self._followers.values() if provider else ():
                for one in followers:
                    one.bound(provider)
        for follower in self._followers.get(change.resource.partition(":")[0], ()):
            follower.heard(change)


class FeedFollower:
    """Reads all objects once, then each one that changes."""

    def __init__(
        self,
        upstream: FeedUpstream,
        kind: GroupVersionResource,
        cluster: str,
        labels: str,
        held: LeafHolder,
    ) -> None:
        self.is_synced = asyncio.Event()
        self._upstream, self._kind, self._cluster, self._held = upstream, kind, cluster, held
        self._labels, self._selector = labels, parse(labels)
        self._term = label_term(*labels.split("=", 1))
        self._known: set[ObjectKey] = set()
        self._changed: dict[ObjectKey, None] = {}
        self._wake = asyncio.Event()
        self._workspaces: set[str] = set()
        """Workspaces whose objects were read."""

    def heard(self, change: Change) -> None:
        """A change of an object of this type."""
        is_assigned = self._term in change.terms and self._is_within(change)
        if is_assigned or change.key in self._known:
            self._changed[change.key] = None
            self._wake.set()

    def _is_within(self, change: Change) -> bool:
        return change.cluster == self._cluster

    def bound(self, provider: str) -> None:
        """Some workspace binds an API of this one."""

    async def run(self) -> None:
        """Until cancelled."""
        resource = resource_id(self._kind.group, self._kind.resource)
        pause = _FIRST_PAUSE
        self._workspaces.clear()
        self._upstream.register(resource, self)
        try:
            while True:
                try:
                    if not self.is_synced.is_set():
                        await self._read_all()
                    await self._read_changed()
                    pause = _FIRST_PAUSE
                except StatusError as error:
                    _log.debug("%s of %s: %s", self._kind, self._cluster, error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LAST_PAUSE)
        finally:
            self._upstream.unregister(resource, self)
            self.is_synced.clear()

    async def _read_all(self) -> None:
        """What changes meanwhile is read again afterwards."""
        client = self._upstream.client
        found: list[Object] = []
        async for page in client.pages(self._cluster, self._kind, labels=self._labels):
            found += page
        self._held.begin_replacing()
        self._known.clear()
        for obj in found:
            self._tell(obj)
        list(self._held.end_replacing())
        self.is_synced.set()

    async def _read_changed(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        while self._changed:
            key = next(iter(self._changed))
            del self._changed[key]
            try:
                await self._read(key)
            except BaseException:
                self._changed[key] = None  # an error is no news of the object
                self._wake.set()
                raise

    async def _read(self, key: ObjectKey) -> None:
        obj = await self._upstream.client.get(key.cluster, self._kind, key.name, key.namespace)
        if obj is not None and self._selector.matches(labels_of(obj)):
            self._tell(obj)
        elif key in self._known:
            self._known.discard(key)
            metadata: Object = {"name": key.name, "annotations": {CLUSTER_ANNOTATION: key.cluster}}
            if key.namespace:
                metadata["namespace"] = key.namespace
            self._held.remove(orjson.dumps({"metadata": metadata}))

    def _tell(self, obj: Object) -> None:
        metadata = obj["metadata"]
        cluster = (metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION) or self._cluster
        self._known.add(ObjectKey(cluster, metadata.get("namespace") or "", metadata["name"]))
        if "apiVersion" not in obj:
            group, version, _ = self._kind
            obj = {"apiVersion": f"{group}/{version}" if group else version, **obj}
        self._held.note(obj)


class ConsumerFollower(FeedFollower):
    """Follows the workspaces that the clusters of a workspace serve.

    An object of any other workspace is ignored, whatever its label says. Objects of a workspace
    that is served no longer stay known, until they are deleted or assigned to another cluster.
    """

    def _is_within(self, change: Change) -> bool:
        return change.cluster in self._consumers()

    def _consumers(self) -> set[str]:
        return set(self._upstream.consumers(self._cluster)) - {self._cluster}

    def bound(self, provider: str) -> None:
        if provider == self._cluster and self._consumers() - self._workspaces:
            self.is_synced.clear()
            self._wake.set()

    async def _read_all(self) -> None:
        client = self._upstream.client
        for workspace in sorted(self._consumers() - self._workspaces):
            try:
                async for page in client.pages(workspace, self._kind, labels=self._labels):
                    for obj in page:
                        self._tell(obj)
            except NotFound:
                continue  # it does not have the type, or not yet
            self._workspaces.add(workspace)
        self.is_synced.set()
