"""A remote cache server, followed into a local store of the same layout.

One informer for each resource writes what it receives to the store, so objects are on disk and
not in memory, and are there after a restart while the cache server is away.

Objects that are missing when the server is read again are removed only if the part of their shard
is complete there (`part_marks`): a cache server that lost its data is filled again by the shards.
The own shard's part is removed at once, since this shard is the one that fills it again.

The mark that the copies of a ClusterCachedResource are complete (`copy_marks`) is written here
when they have all been read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from pykcp.aio.owner import TaskOwner
from pykcp.aio.slices import Slices
from pykcp.cache import part_marks
from pykcp.cache.kinds import SHARD_ANNOTATION, make_cached, served_definitions
from pykcp.cache.remote import CacheFollower, CacheServerClient, Reconnection
from pykcp.cache.requested import RequestedFollowers, Run
from pykcp.cache.scopes import ObjectLocation, join, split
from pykcp.cache.server import Cache
from pykcp.cache.synthesized import RequestedResource
from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Change
from pykcp.controllers.cache.copy_marks import copies_of
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import (
    CACHED_OBJECTS,
    CLUSTER_CACHED_RESOURCES,
    GroupVersionResource,
)
from pykcp.machinery.status import StatusError
from pykcp.registry.codec import CLUSTER_ANNOTATION, decode, outline
from pykcp.registry.keys import SHARD_END, object_key, resource_prefix, split_key
from pykcp.registry.mirroring import MirroredObject, MirrorWriter
from pykcp.registry.stored import Event
from pykcp.types import Object

_log = logging.getLogger(__name__)
_BATCH = 200
"""Objects in one write."""
_MARKS = resource_prefix(CACHED_OBJECTS.group, CACHED_OBJECTS.resource)
_REQUESTS = resource_prefix(CLUSTER_CACHED_RESOURCES.group, CLUSTER_CACHED_RESOURCES.resource)


class CacheMirror:
    """`run` it; `cache` is then a copy of what the client's server has."""

    def __init__(self, client: CacheServerClient, cache: Cache, own_shard: str) -> None:
        self.client, self.cache, self.own_shard = client, cache, own_shard
        self._reconnection = Reconnection(client)
        self._kinds: dict[str, MirrorFollower] = {}
        """By the prefix of their keys."""
        self._requested_followers = RequestedFollowers(
            "cache-mirror-requested", cache.store, self._requested, self._forget
        )
        self.early_marks: dict[str, dict[str, MirroredObject]] = {}
        """Marks of copies that have not been read yet: by the prefix of the copies, then by key."""
        self._sweeps: set[str] = set()
        """Shards whose parts have become complete, and may hold less than is kept here."""
        self._sweep_due = asyncio.Event()
        self._on_return: list[Callable[[], None]] = []
        self._was_reached = False

    @property
    def is_connected(self) -> bool:
        """Whether the server could be reached lately."""
        return self._was_reached and not self._reconnection.is_waiting

    @property
    def kept_parts(self) -> int:
        """Shards of which objects are kept that the server does not have."""
        return len({shard for each in self._kinds.values() for shard in each.held.kept})

    def on_return(self, callback: Callable[[], None]) -> None:
        """Call this when the server can be reached, at first and after every interruption."""
        self._on_return.append(callback)

    def returned(self) -> None:
        self._was_reached = True
        for callback in self._on_return:
            callback()

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self.cache.store.listen(self._changed)
        try:
            async with TaskOwner("cache-mirror") as owner:
                for definition in served_definitions():
                    version = definition.storage_version
                    kind = GroupVersionResource(definition.group, version, definition.plural)
                    resource = make_cached(definition, version, self.cache.services)
                    writer = MirrorWriter(self.cache.store, resource)
                    name = f"{kind.group}/{kind.resource}"
                    owner.start_restartable(name, self._follower(kind, writer).run)
                owner.start_restartable("sweeps", self._sweep_parts)
                owner.start_restartable("requested", self._requested_followers.run)
                self._requested_followers.changed.set()
                await asyncio.Event().wait()
        finally:
            unlisten()
            self._kinds.clear()
            self.client.http.close()

    def _follower(self, kind: GroupVersionResource, writer: MirrorWriter) -> MirrorFollower:
        copies = MirroredCopies(self, kind, writer)
        # One of them notices that the server is back.
        connected = self.returned if kind == CACHED_OBJECTS else None
        made = CacheFollower(self.client, kind, copies, self._reconnection, connected)
        self._kinds[writer.prefix] = made
        return made

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_MARKS):
                self._mark_changed(split(split_key(event.key).cluster), event)
            elif event.key.startswith(_REQUESTS):
                self._requested_followers.changed.set()

    def _mark_changed(self, place: ObjectLocation, event: Event) -> None:
        if place.cluster != part_marks.CLUSTER:
            return  # that of copies
        if place.shard != self.own_shard:
            self._sweeps.add(place.shard)
            self._sweep_due.set()
        elif event.deleted:
            self.returned()  # the server has lost it, and the rest of this shard's part with it

    # --- parts that are complete again

    async def _sweep_parts(self) -> None:
        while True:
            await self._sweep_due.wait()
            self._sweep_due.clear()
            shards, self._sweeps = self._sweeps, set()
            for shard in sorted(shards):
                for follower in list(self._kinds.values()):
                    if shard in follower.held.kept:
                        await self._sweep(follower.held, shard)

    async def _sweep(self, copies: MirroredCopies, shard: str) -> None:
        try:
            await copies.remove_missing(shard)
        except (StatusError, SendFailed) as error:
            # The informer meets the same failure, reads everything again and finds them missing.
            _log.debug("the part of %s in %s was not read: %s", shard, copies.prefix, error)

    def known_mark(self, shard: str) -> part_marks.PartMark | None:
        """The newest mark of a part that was ever seen here."""
        key = object_key(_MARKS, join(shard, part_marks.CLUSTER), "", part_marks.NAME)
        entry = self.cache.store.get(key)
        return part_marks.mark_of(decode(entry.value)) if entry is not None else None

    async def read_mark(self, shard: str) -> Object | None:
        """The mark of a part, as the server has it now."""
        place = join(shard, part_marks.CLUSTER)
        return await self.client.get(place, CACHED_OBJECTS, part_marks.NAME)

    # --- resources that ClusterCachedResources ask for

    def is_read(self, prefix: str) -> bool:
        """Whether all objects of a resource have been read at least once."""
        follower = self._kinds.get(prefix)
        return follower is not None and follower.held.is_read

    async def write_early_marks(self, prefix: str) -> None:
        marks = self.early_marks.pop(prefix, None)
        if marks:
            await self._kinds[_MARKS].held.write(marks)

    def _requested(self, one: RequestedResource) -> Run:
        version = one.versions[0]
        kind = GroupVersionResource(one.group, version, f"{one.plural}:{one.identity}")
        resource = make_cached(one.definition(), version, self.cache.services)
        return self._follower(kind, MirrorWriter(self.cache.store, resource)).run

    async def _forget(self, one: RequestedResource, wanted: set[RequestedResource]) -> None:
        """Its objects go, unless it is followed in other versions from now on."""
        follower = self._kinds.pop(one.prefix)
        if one.prefix not in {other.prefix for other in wanted}:
            await follower.held.remove_all()


class MirroredCopies:
    """The copies of one resource: an `ObjectHolder` that writes to the store."""

    def __init__(
        self, mirror: CacheMirror, kind: GroupVersionResource, writer: MirrorWriter
    ) -> None:
        self.prefix = writer.prefix
        self.kept: set[str] = set()
        """Shards of which objects are missing in the server that may come back."""
        self._mirror, self._kind, self._writer = mirror, kind, writer
        self._pending: list[tuple[bytes, bool]] = []
        self._unseen: set[str] | None = None
        self._is_replaced = False
        self.is_read = False
        self._lock = asyncio.Lock()
        """One write at a time: each is compared with what is stored."""

    def put(self, value: bytes) -> None:
        self._pending.append((value, False))

    def remove(self, value: bytes) -> None:
        self._pending.append((value, True))

    def begin_replacing(self) -> None:
        self._pending.clear()
        self._unseen = set(self._mirror.cache.store.keys(self.prefix))

    def end_replacing(self) -> Iterable[Change]:
        self._is_replaced = True
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        slices = Slices()
        while self._pending:
            batch, self._pending = self._pending[:_BATCH], self._pending[_BATCH:]
            objects: dict[str, MirroredObject] = {}
            for value, is_gone in batch:
                self._take(objects, outline(value), is_gone=is_gone)
                if slices.is_over():
                    await slices.next()
            await self.write(objects)
        if self._is_replaced:
            self._is_replaced = False
            unseen, self._unseen = self._unseen or set(), None
            for shard in sorted({split(split_key(key).cluster).shard for key in unseen}):
                await self.remove_missing(shard)
            self.is_read = True
            await self._mirror.write_early_marks(self.prefix)

    async def write(self, objects: dict[str, MirroredObject]) -> None:
        async with self._lock:
            await self._writer.write(objects)

    def _take(self, objects: dict[str, MirroredObject], obj: Object, *, is_gone: bool) -> None:
        metadata = obj["metadata"]
        annotations = metadata.get("annotations") or {}
        shard, cluster = annotations.get(SHARD_ANNOTATION), annotations.get(CLUSTER_ANNOTATION)
        if not shard or not cluster:
            return  # of no shard: nothing that could be looked up
        place = join(shard, cluster)
        key = self._writer.key(place, metadata.get("namespace", ""), metadata["name"])
        if self._unseen is not None:
            self._unseen.discard(key)
        if self._is_outdated(shard, obj, is_gone=is_gone):
            return
        objects.pop(key, None)
        taken = MirroredObject(place, None if is_gone else obj)
        if self.prefix != _MARKS or not self._is_early(key, obj, taken):
            objects[key] = taken

    def _is_early(self, key: str, obj: Object, taken: MirroredObject) -> bool:
        """Whether it is the mark of copies that are not here yet; it is kept for then."""
        copies = f"{copies_of(obj)}/"
        if copies == "/":
            return False
        waiting = self._mirror.early_marks.setdefault(copies, {})
        waiting.pop(key, None)
        if taken.outline is None or self._mirror.is_read(copies):
            return False
        waiting[key] = taken
        return True

    def _is_outdated(self, shard: str, obj: Object, *, is_gone: bool) -> bool:
        """Whether it is an older mark than the one that is known: that of an old state."""
        if self.prefix != _MARKS or is_gone or shard == self._mirror.own_shard:
            return False
        known, found = self._mirror.known_mark(shard), part_marks.mark_of(obj)
        return known is not None and found is not None and found[:2] < known[:2]

    async def remove_missing(self, shard: str) -> None:
        """Remove the objects of a shard that its part no longer has, if it is complete."""
        self.kept.add(shard)  # first: its mark may change while it is compared
        is_own = shard == self._mirror.own_shard
        known = self._mirror.known_mark(shard)
        before = None if is_own else await self._mirror.read_mark(shard)
        revisions = await self._revisions(f"{self.prefix}{shard}{SHARD_END}")
        place = join(shard, WILDCARD)
        async for page in self._mirror.client.pages(place, self._kind):
            for obj in page:
                metadata = obj["metadata"]
                cluster = join(shard, metadata["annotations"][CLUSTER_ANNOTATION])
                key = self._writer.key(cluster, metadata.get("namespace", ""), metadata["name"])
                revisions.pop(key, None)
        after = None if is_own else await self._mirror.read_mark(shard)
        if revisions and not is_own and not part_marks.may_remove(before, after, known):
            return
        self.kept.discard(shard)
        await self._remove(revisions)

    async def remove_all(self) -> None:
        await self._remove(await self._revisions(self.prefix))

    async def _revisions(self, prefix: str) -> dict[str, int]:
        store, slices = self._mirror.cache.store, Slices()
        found: dict[str, int] = {}
        for key in store.keys(prefix):
            entry = store.get(key)
            if entry is not None:
                found[key] = entry.revision
            if slices.is_over():
                await slices.next()
        return found

    async def _remove(self, revisions: dict[str, int]) -> None:
        keys = list(revisions)
        for start in range(0, len(keys), _BATCH):
            async with self._lock:
                some = keys[start : start + _BATCH]
                await self._writer.remove({key: revisions[key] for key in some})


MirrorFollower = CacheFollower[MirroredCopies]
