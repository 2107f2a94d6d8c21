"""The feed of another server, and what it has at hand: one informer for each kind that is followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import islice

import orjson

from pykcp.aio.owner import TaskOwner
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import PAGE, Handler
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.held_objects import HeldObjects, IndexEntries
from pykcp.clients.remote.informer import Informer
from pykcp.machinery.labels import parse
from pykcp.machinery.meta import labels as labels_of
from pykcp.machinery.metadata import Metadata, metadata_of
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object

_ALL = "*"


class NotFollowed(LookupError):
    """A lister was asked for a kind that its feed does not follow."""


class RemoteFeed:
    """Follow kinds with `on`, then `run` it. `lister` answers from what it holds."""

    def __init__(
        self,
        client: RemoteClient,
        cluster: str = _ALL,
        entries: Callable[[GroupVersionResource], IndexEntries | None] = lambda _: None,
    ) -> None:
        """`entries`: by which index entries objects of a kind are found."""
        self._client, self._cluster, self._entries = client, cluster, entries
        self._informers: dict[str, Informer[HeldObjects]] = {}
        self._kinds: dict[str, GroupVersionResource] = {}
        self._resumes: list[Callable[[], Awaitable[None]]] = []
        self._owner: TaskOwner | None = None
        self.lister = RemoteLister(self._informers, self._kinds)

    def on(
        self, kind: GroupVersionResource, handler: Handler, *, from_the_start: bool = False
    ) -> None:
        """Call the handler for every object that there is, and for every change."""
        resource = kind_id(kind)
        informer = self._informers.get(resource)
        if informer is None:
            own = "" if self._cluster == _ALL else self._cluster
            entries = self._entries(kind)
            held = HeldObjects(resource, own, entries) if entries else HeldObjects(resource, own)
            informer = Informer(self._client, kind, held, self._cluster)
            self._informers[resource], self._kinds[resource] = informer, kind
            if self._owner is not None:
                self._owner.start_restartable(f"informer/{resource}", informer.run)
        informer.add(handler)

    def at_start(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Run this once, when all kinds have been told."""
        self._resumes.append(resume)

    async def synced(self) -> None:
        """Return when every kind that is followed has been told once."""
        for informer in list(self._informers.values()):
            await informer.is_synced.wait()

    def start(self) -> None:
        """A shard's feed needs it; here everything begins with `run`."""

    async def run(self) -> None:
        """Until cancelled. A run that failed goes on where it was."""
        async with TaskOwner("feed") as owner:
            self._owner = owner
            for resource, informer in self._informers.items():
                owner.start_restartable(f"informer/{resource}", informer.run)
            try:
                await self.synced()
                while self._resumes:
                    await self._resumes[0]()
                    del self._resumes[0]
                await asyncio.Event().wait()
            finally:
                self._owner = None


class RemoteLister:
    """Reads what the informers of a feed hold."""

    def __init__(
        self, informers: dict[str, Informer[HeldObjects]], kinds: dict[str, GroupVersionResource]
    ) -> None:
        self.informers, self.kinds = informers, kinds

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        value = self.stored(cluster, kind, name, namespace)
        return None if value is None else orjson.loads(value)

    def has(self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = "") -> bool:
        return self.stored(cluster, kind, name, namespace) is not None

    def stored(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> bytes | None:
        return self._held(kind_id(kind)).value(ObjectKey(cluster, namespace, name))

    def value(self, ref: ObjectRef) -> bytes | None:
        return self._held(ref.resource).value(ref.key)

    def version(self, ref: ObjectRef) -> int | None:
        return self._held(ref.resource).version(ref.key)

    def keys(
        self, kind: GroupVersionResource, cluster: str = _ALL, *, limit: int = 0
    ) -> list[ObjectKey]:
        found = self._in_order(kind_id(kind), cluster)
        return list(islice(found, limit) if limit else found)

    def find(
        self,
        index: str,
        kind: GroupVersionResource | None = None,
        *,
        after: ObjectRef | None = None,
        limit: int = 0,
    ) -> list[ObjectRef]:
        resources = sorted(self.informers) if kind is None else [kind_id(kind)]
        found = [
            ObjectRef(resource, *key)
            for resource in resources
            for key in self._held(resource).found_by(index)
        ]
        found.sort(key=str)
        if after is not None:
            start = str(after)
            found = [ref for ref in found if str(ref) > start]
        return found[:limit] if limit else found

    async def values_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[list[bytes]]:
        keys = list(self._in_order(resource, cluster, namespace))
        for start in range(0, len(keys), PAGE):
            values = map(self._held(resource).value, keys[start : start + PAGE])
            yield [value for value in values if value is not None]
            await asyncio.sleep(0)

    async def metadata_of(
        self, resource: str, cluster: str, namespace: str = ""
    ) -> AsyncIterator[list[Metadata]]:
        async for values in self.values_of(resource, cluster, namespace):
            yield [metadata_of(value) for value in values]

    async def count(
        self, resource: str, cluster: str = _ALL, namespace: str = "", *, labels: str = ""
    ) -> int:
        if not labels:
            return sum(1 for _ in self._in_order(resource, cluster, namespace))
        selector, found = parse(labels), 0
        async for values in self.values_of(resource, cluster, namespace):
            found += sum(selector.matches(labels_of(orjson.loads(value))) for value in values)
        return found

    def _in_order(self, resource: str, cluster: str, namespace: str = "") -> Iterator[ObjectKey]:
        for key in sorted(self._held(resource)):
            if cluster in (_ALL, key.cluster) and namespace in ("", key.namespace):
                yield key

    def _held(self, resource: str) -> HeldObjects:
        informer = self.informers.get(resource)
        if informer is None:
            raise NotFollowed(resource)
        return informer.held
