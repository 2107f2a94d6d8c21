"""A shard's own part of the cache."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence

from pykcp.aio.slices import Slices
from pykcp.auth.user import MASTERS, User
from pykcp.cache import part_marks
from pykcp.cache.kinds import CachedResource, make_cached, schemaless
from pykcp.cache.part_marks import PartMark
from pykcp.cache.scopes import join, split
from pykcp.cache.server import Cache
from pykcp.clients.interface import Client
from pykcp.controllers.cache.published import Copy
from pykcp.controllers.cache.replication_plan import ORIGINAL_VERSION
from pykcp.machinery.resources import CACHED_OBJECTS, GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.keys import SHARD_END, object_key, resource_prefix, split_key
from pykcp.registry.mirroring import MirrorWriter
from pykcp.registry.stored import Entry, Event
from pykcp.registry.verbs.delete import delete
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.types import Object

_SYSTEM = User("system:kcp:cache", groups=(MASTERS,))


class CachePublisher:
    """The part in a cache of the same process."""

    keeps_texts = True
    is_remote = False

    def __init__(self, cache: Cache, shard: str, client: Client | None = None) -> None:
        """`client`: writes the part; that of the cache itself if None."""
        self._cache, self._shard = cache, shard
        self._client: Client = client or cache.client

    async def get(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        return await self._client.get(join(self._shard, cluster), kind, name)

    def has(self, kind: GroupVersionResource, cluster: str, name: str) -> bool:
        return self._entry(kind, cluster, name) is not None

    def _entry(self, kind: GroupVersionResource, cluster: str, name: str) -> Entry | None:
        prefix = resource_prefix(kind.group, kind.resource)
        return self._cache.store.get(object_key(prefix, join(self._shard, cluster), "", name))

    async def create(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        await self._client.create(join(self._shard, cluster), kind, obj)

    async def update(self, kind: GroupVersionResource, cluster: str, obj: Object) -> None:
        await self._client.update(join(self._shard, cluster), kind, obj)

    async def outline(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        return self.last_heard(kind, cluster, name)

    def last_heard(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        entry = self._entry(kind, cluster, name)
        return None if entry is None else codec.outline(entry.value)

    async def write(self, kind: GroupVersionResource, cluster: str, outline: Object) -> None:
        place = join(self._shard, cluster)
        await self._writer(place, kind).write_one(place, outline)

    async def delete(self, kind: GroupVersionResource, cluster: str, name: str) -> None:
        entry = self._entry(kind, cluster, name)
        if entry is not None:
            writer = self._writer(join(self._shard, cluster), kind)
            await writer.remove({entry.key: entry.revision})

    def _writer(self, place: str, kind: GroupVersionResource) -> MirrorWriter:
        resource = self._cache.client.resource(place, kind)
        assert isinstance(resource, CachedResource)
        return MirrorWriter(self._cache.store, resource)

    async def versions(self, kind: GroupVersionResource) -> AsyncIterator[tuple[str, str, str]]:
        store, slices = self._cache.store, Slices()
        prefix = resource_prefix(kind.group, kind.resource)
        for key in store.keys(f"{prefix}{self._shard}{SHARD_END}"):
            entry = store.get(key)
            if entry is not None:
                annotations = codec.outline(entry.value)["metadata"].get("annotations") or {}
                parts = split_key(key)
                version = annotations.get(ORIGINAL_VERSION) or ""
                yield split(parts.cluster).cluster, parts.name, version
            if slices.is_over():
                await slices.next()

    def names(self, resource: str, cluster: str) -> list[str]:
        keys = self._cache.store.keys(f"{resource}/{join(self._shard, cluster)}/")
        return [split_key(key).name for key in keys]

    async def purge(
        self, kind: GroupVersionResource, identity: str, cluster: str, name: str
    ) -> None:
        # The resource may not be served any more, so it is not looked up but made.
        definition = schemaless(
            kind.group,
            kind.resource,
            kind.resource,
            (kind.version,),
            namespaced=False,
            identity=identity,
        )
        resource = make_cached(definition, kind.version, self._cache.services)
        context = RequestContext(join(self._shard, cluster), _SYSTEM)
        try:
            await delete(resource, context, "", name, DeleteOptions())
        except NotFound:
            return

    def listen(self, callback: Callable[[Copy], None]) -> None:
        own = self._shard

        def changed(events: Sequence[Event]) -> None:
            for event in events:
                parts = split_key(event.key)
                place = split(parts.cluster)
                if place.shard == own:
                    callback(Copy(parts.resource_prefix[:-1], place.cluster, parts.name))

        self._cache.store.listen(changed)

    async def begin(self) -> Object:
        place = join(self._shard, part_marks.CLUSTER)
        found = await self._client.get(place, CACHED_OBJECTS, part_marks.NAME)
        before = part_marks.mark_of(found)
        # later than any before, even if the clock was set back
        session = max(int(time.time() * 1000), before.session + 1 if before is not None else 0)
        mark = part_marks.mark_object(PartMark(session, 0, marks_copies=True))
        if found is None:
            return await self._client.create(place, CACHED_OBJECTS, mark)
        mark["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        return await self._client.update(place, CACHED_OBJECTS, mark)

    async def finish(self, mark: Object, revision: int) -> None:
        begun = part_marks.mark_of(mark)
        assert begun is not None
        done = part_marks.mark_object(begun._replace(revision=revision, is_complete=True))
        done["metadata"]["resourceVersion"] = mark["metadata"]["resourceVersion"]
        done["metadata"]["uid"] = mark["metadata"]["uid"]
        place = join(self._shard, part_marks.CLUSTER)
        await self._client.update(place, CACHED_OBJECTS, done)

    def on_return(self, callback: Callable[[], None]) -> None:
        """A cache in the same process is always there."""
