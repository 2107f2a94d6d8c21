"""The link between a cache server and its upstream: each gets the parts that the other one has.

A part flows away from its shard (`relaying.direction`), so changes are copied in one direction
and what is missing at the source is removed at the target. Both servers serve their shards while
the link is broken; afterwards all parts are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import orjson

from pykcp.aio.owner import TaskOwner
from pykcp.cache import part_marks
from pykcp.cache.kinds import SHARD_ANNOTATION, served_definitions
from pykcp.cache.part_marks import PartMark, mark_object, mark_of
from pykcp.cache.relaying import Direction, direction, relay_plan, relayed, version_of
from pykcp.cache.remote import CacheFollower, CacheServerClient, Reconnection
from pykcp.cache.requested import RequestedFollowers, Run
from pykcp.cache.scopes import join, split
from pykcp.cache.server import Cache
from pykcp.cache.synthesized import RequestedResource
from pykcp.clients.interface import Change, Client
from pykcp.controllers.cache.replication_plan import CopyAction
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import (
    CACHED_OBJECTS,
    CLUSTER_CACHED_RESOURCES,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists, Conflict, NotFound
from pykcp.registry.codec import CLUSTER_ANNOTATION
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.registry.stored import Event
from pykcp.types import Object

_TOGETHER = 0.2
"""Seconds."""
_MARKS = resource_prefix(CACHED_OBJECTS.group, CACHED_OBJECTS.resource)
_MARK = (_MARKS, part_marks.CLUSTER, part_marks.NAME)
_REQUESTS = resource_prefix(CLUSTER_CACHED_RESOURCES.group, CLUSTER_CACHED_RESOURCES.resource)


class Part(NamedTuple):
    """Everything of one shard."""

    shard: str


class RelayedObject(NamedTuple):
    """One object of a part."""

    prefix: str
    """Of the keys of its resource."""
    shard: str
    cluster: str
    namespace: str
    name: str


RelayKey: TypeAlias = Part | RelayedObject


class UpstreamLink:
    """`run` it."""

    def __init__(self, client: CacheServerClient, cache: Cache) -> None:
        self._upstream, self._cache = client, cache
        self._here: Client = cache.client
        self._reconnection = Reconnection(client)
        self._kinds: dict[str, GroupVersionResource] = {}
        """By the prefix of their keys."""
        self._directions: dict[str, Direction] = {}
        """Of the parts, by shard."""
        self._copied: dict[str, tuple[Direction, PartMark]] = {}
        """The state of the parts that have been copied whole since the link was last broken."""
        self._written: dict[str, tuple[PartMark, PartMark]] = {}
        """The marks that this link writes, by shard."""
        self._requested = RequestedFollowers(
            "cache-upstream-requested", cache.store, self._follow_requested
        )
        self._controller: Controller[RelayKey] = Controller(
            "cache-upstream", self.reconcile, workers=8
        )

    async def run(self) -> None:
        """Until cancelled."""
        unlisten = self._cache.store.listen(self._on_local)
        try:
            async with TaskOwner("cache-upstream") as owner:
                owner.start_restartable("controller", self._controller.run)
                for definition in served_definitions():
                    version = definition.storage_version
                    kind = GroupVersionResource(definition.group, version, definition.plural)
                    owner.start_restartable(f"{kind.group}/{kind.resource}", self._follow(kind).run)
                owner.start_restartable("requested", self._requested.run)
                self._requested.changed.set()
                await asyncio.Event().wait()
        finally:
            unlisten()
            self._upstream.http.close()

    def _follow(self, kind: GroupVersionResource) -> CacheFollower[Announcements]:
        prefix = resource_prefix(kind.group, kind.resource)
        self._kinds[prefix] = kind
        held = Announcements(self, prefix)
        return CacheFollower(self._upstream, kind, held, self._reconnection)

    def _follow_requested(self, one: RequestedResource) -> Run:
        """A resource that a ClusterCachedResource asks for, which has been copied before."""
        named = f"{one.plural}:{one.identity}"
        follower = self._follow(GroupVersionResource(one.group, one.versions[0], named))
        self.compare_all()
        return follower.run

    # --- what happened

    def _on_local(self, events: Sequence[Event]) -> None:
        for event in events:
            parts = split_key(event.key)
            shard, cluster = split(parts.cluster)
            key = RelayedObject(parts.resource_prefix, shard, cluster, parts.namespace, parts.name)
            self.changed(key, event.value)
            if event.key.startswith(_REQUESTS):
                self._requested.changed.set()

    def changed(self, key: RelayedObject, value: bytes) -> None:
        """An object changed on either side; `value` is its last state."""
        shard = key.shard
        if (key.prefix, key.cluster, key.name) == _MARK:
            if mark_of(orjson.loads(value)) not in self._written.get(shard, ()):
                # The direction may turn: until it is known, changes are left to the comparison.
                self._directions[shard] = Direction.NOWHERE
                self._copied.pop(shard, None)
                self._controller.add(Part(shard))
        elif self._directions.get(shard, Direction.NOWHERE) is not Direction.NOWHERE:
            self._controller.add(key)

    def compare_all(self) -> None:
        """Compare all parts: changes may have been missed."""
        shards = {split(split_key(key).cluster).shard for key in self._cache.store.keys(_MARKS)}
        self._copied.clear()
        for shard in shards.union(self._directions):
            # All resources are listed at the same time, and each of them calls this.
            self._controller.add_after(Part(shard), _TOGETHER)

    # --- copying

    async def reconcile(self, key: RelayKey) -> None:
        if self._reconnection.is_waiting:
            return  # all parts are compared when the server is back
        if isinstance(key, Part):
            await self._reconcile_part(key)
        else:
            await self._reconcile_object(key)

    def _ends(self, shard: str) -> tuple[Client, Client] | None:
        """Source and target of a part."""
        match self._directions.get(shard):
            case Direction.UP:
                return self._here, self._upstream
            case Direction.DOWN:
                return self._upstream, self._here
            case _:
                return None

    async def _reconcile_object(self, key: RelayedObject) -> None:
        ends, kind = self._ends(key.shard), self._kinds.get(key.prefix)
        if ends is None or kind is None:
            return
        await self._copy(*ends, kind, key)

    async def _copy(
        self, source: Client, target: Client, kind: GroupVersionResource, key: RelayedObject
    ) -> None:
        place = join(key.shard, key.cluster)
        wanted = await _find(source, place, kind, key)
        todo = relay_plan(wanted, await _find(target, place, kind, key))
        try:
            if todo.action is CopyAction.DELETE:
                await target.delete(place, kind, key.name, key.namespace)
                if wanted is not None:
                    self._controller.add(key)
            elif todo.action is CopyAction.CREATE and todo.copy is not None:
                await target.create(place, kind, todo.copy)
            elif todo.copy is not None:
                await target.update(place, kind, todo.copy)
        except (AlreadyExists, Conflict, NotFound) as error:
            # written at the same time, or of a resource that has not been requested there yet
            raise Requeue(str(error)) from error

    async def _reconcile_part(self, part: Part) -> None:
        here, upstream = await self._mark(self._here, part), await self._mark(self._upstream, part)
        found = direction(mark_of(here), mark_of(upstream))
        self._directions[part.shard] = found
        ends = self._ends(part.shard)
        if ends is None:
            return
        source, target = ends
        marked, known = (here, upstream) if found is Direction.UP else (upstream, here)
        mark = mark_of(marked)
        if mark is None:
            return
        begun = relayed(mark, is_complete=False)
        done = relayed(mark, is_complete=mark.is_complete)
        self._written[part.shard] = (begun, done)
        if mark_of(known) == done and self._copied.get(part.shard) == (found, done):
            return
        if mark_of(known) != done:
            known = await self._write_mark(target, part, begun, known)
        # Without its mark, a part may lack objects that are not deleted.
        await self._compare(source, target, part, removes=mark.is_complete)
        if mark_of(await self._mark(source, part)) != mark:
            self._controller.add(part)
            return
        if mark_of(known) != done:
            await self._write_mark(target, part, done, known)
        self._copied[part.shard] = (found, done)

    async def _compare(self, source: Client, target: Client, part: Part, *, removes: bool) -> None:
        """Copy what differs; all of it is written when this returns."""
        for prefix, kind in list(self._kinds.items()):
            copies = {key: version async for key, version in _versions(target, part, prefix, kind)}
            async for key, version in _versions(source, part, prefix, kind):
                if copies.pop(key, None) != version or not version[1]:
                    await self._copy(source, target, kind, key)
            for key in copies if removes else ():
                await self._copy(source, target, kind, key)

    async def _mark(self, client: Client, part: Part) -> Object | None:
        return await client.get(
            join(part.shard, part_marks.CLUSTER), CACHED_OBJECTS, part_marks.NAME
        )

    async def _write_mark(
        self, target: Client, part: Part, mark: PartMark, known: Object | None
    ) -> Object:
        """Replace the mark of a copy; Requeue if it has changed."""
        place, obj = join(part.shard, part_marks.CLUSTER), mark_object(mark)
        try:
            if known is None:
                return await target.create(place, CACHED_OBJECTS, obj)
            obj["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            obj["metadata"]["uid"] = known["metadata"]["uid"]
            return await target.update(place, CACHED_OBJECTS, obj)
        except (AlreadyExists, Conflict, NotFound) as error:
            raise Requeue(str(error)) from error


async def _find(
    client: Client, place: str, kind: GroupVersionResource, key: RelayedObject
) -> Object | None:
    try:
        return await client.get(place, kind, key.name, key.namespace)
    except NotFound:
        return None  # the resource is not requested there


async def _versions(
    client: Client, part: Part, prefix: str, kind: GroupVersionResource
) -> AsyncIterator[tuple[RelayedObject, tuple[str, str]]]:
    """The objects of a part, without its mark."""
    try:
        async for page in client.pages(join(part.shard, WILDCARD), kind):
            for obj in page:
                metadata = obj["metadata"]
                cluster = metadata["annotations"][CLUSTER_ANNOTATION]
                if prefix != _MARKS or cluster != part_marks.CLUSTER:
                    namespace, name = metadata.get("namespace", ""), metadata["name"]
                    key = RelayedObject(prefix, part.shard, cluster, namespace, name)
                    yield key, version_of(obj)
    except NotFound:
        return  # the resource is not requested there


class Announcements:
    """An `ObjectHolder` that holds nothing: it passes on what has changed upstream."""

    def __init__(self, link: UpstreamLink, prefix: str) -> None:
        self._link, self._prefix = link, prefix
        self._is_listing = False

    def put(self, value: bytes) -> None:
        # A list says nothing of changes; parts are compared at its end. But marks name the parts.
        if not self._is_listing or self._prefix == _MARKS:
            self._announce(value)

    def remove(self, value: bytes) -> None:
        self._announce(value)

    def _announce(self, value: bytes) -> None:
        metadata = orjson.loads(value)["metadata"]
        annotations = metadata.get("annotations") or {}
        shard, cluster = annotations.get(SHARD_ANNOTATION), annotations.get(CLUSTER_ANNOTATION)
        if shard and cluster:
            namespace = metadata.get("namespace", "")
            key = RelayedObject(self._prefix, shard, cluster, namespace, metadata["name"])
            self._link.changed(key, value)

    def begin_replacing(self) -> None:
        self._is_listing = True

    def end_replacing(self) -> Iterable[Change]:
        self._is_listing = False
        self._link.compare_all()
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to finish: the work is queued."""
