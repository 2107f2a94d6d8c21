"""The syncer of one Cluster: `Syncer(registration, upstream, downstream, …).run()`.

Each type has an informer for the assigned objects of the workspace. Types of which something is
assigned have another one for the copies in the cluster. Events queue keys of objects; two
controllers bring specs down and statuses up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from pykcp.aio.owner import TaskOwner
from pykcp.aio.timers import call_later
from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import Forbidden, NotFound, StatusError
from pykcp.multicluster.interpreter.kinds import TABLE
from pykcp.multicluster.names import CLUSTER_LABEL, CLUSTERS, DOWNSTREAM_CLUSTER
from pykcp.multicluster.syncer.down import DownSync
from pykcp.multicluster.syncer.metrics import SyncMetrics
from pykcp.multicluster.syncer.namespaces import DownstreamNamespaces
from pykcp.multicluster.syncer.projections import CopyStore, Leaf, LeafStore
from pykcp.multicluster.syncer.render import CopyName, TypeName
from pykcp.multicluster.syncer.servers import Downstream, Upstream
from pykcp.multicluster.syncer.settings import Registration, SyncSettings
from pykcp.multicluster.syncer.sweep import Sweeper
from pykcp.multicluster.syncer.types import (
    NEVER_SYNCED,
    ServedType,
    WantedType,
    parse_type,
    served_type,
    synced_types,
)
from pykcp.multicluster.syncer.unschedulable import UnschedulableReplicas
from pykcp.multicluster.syncer.up import UpSync
from pykcp.multicluster.syncer.work import SyncContext, SyncKey, TypeSync

_log = logging.getLogger(__name__)

_RETIRED_SECONDS = 5.0
_FAILED_DISCOVERY = 2.0
"""Seconds until types are looked for again in a cluster that could not be asked."""


class SyncHealth(NamedTuple):
    """How far a syncer is behind."""

    queued: int
    oldest_unsynced: float | None
    """Seconds since the oldest change that is not applied yet."""
    unavailable: tuple[str, ...]
    """Types that the cluster does not serve."""


class Syncer:
    def __init__(
        self,
        registration: Registration,
        upstream: Upstream,
        downstream: Downstream,
        resources: Iterable[str],
        settings: SyncSettings | None = None,
        metrics: SyncMetrics | None = None,
        *,
        retired: Iterable[str] = (),
    ) -> None:
        """`resources`: types to sync, as `deployments.apps` or `deployments.v1.apps`; `retired`: types
        that were synchronized before, beside those that the Cluster names.
        """
        self._upstream, self._downstream = upstream, downstream
        self._settings = settings or SyncSettings()
        self._wanted = _parsed(resources)
        self._retired: dict[TypeName, WantedType] = {}
        """Types that are not wanted, of which something may be left."""
        self._retire(_parsed(retired))
        self._is_told = False
        """The Cluster has said which types those are."""
        namespaces = DownstreamNamespaces(downstream.client, registration, self._namespace_lost)
        self._context = SyncContext(
            registration,
            self._settings,
            upstream.client,
            downstream.client,
            namespaces,
            metrics or SyncMetrics(),
            upstream.hosts,
        )
        self._down = DownSync(self._context, self._rediscover)
        self._up = UpSync(self._context)
        self._sweeper = Sweeper(self._context, self._down, upstream.consumers)
        workers = self._settings.workers
        self.down: Controller[SyncKey] = Controller(
            "syncer-down", self._down.reconcile, workers=workers, lane=_one_lane
        )
        self.up: Controller[SyncKey] = Controller(
            "syncer-up", self._up.reconcile, workers=workers, lane=_one_lane
        )
        self._changed = asyncio.Event()
        """The types, or what is known of them, have to be looked at again."""
        self._shrunk = asyncio.Event()
        """Namespaces may have become empty."""
        self._unswept = asyncio.Event()
        """Something may have been left behind that was not searched for yet."""
        self._discovered = asyncio.Event()
        """All types were looked for once."""
        self._is_doubtful = False
        """The cluster may have stopped to serve a type."""
        self._followed: dict[TypeName, _FollowedType] = {}
        self._owner: TaskOwner | None = None

        downstream.listen(self)

    # --- for the process that runs it

    def set_resources(self, resources: Iterable[str]) -> None:
        """Sync these types from now on. Of other types nothing is applied: copies stay as they are,
        their statuses are reported, and they go when their objects do.
        """
        wanted = _parsed(resources)
        if wanted != self._wanted:
            before, self._wanted = self._wanted, wanted
            self._retire(before)
            self._changed.set()

    def retire(self, types: Iterable[str]) -> None:
        """Look after what may be left of these types, if they are not synchronized."""
        before = self._retired
        self._retire(_parsed(types))
        if self._retired.keys() != before.keys():
            self._changed.set()

    def _retire(self, types: Iterable[WantedType]) -> None:
        wanted = {_name(one) for one in self._wanted}
        known = self._retired | {_name(one): one for one in types}
        self._retired = {name: one for name, one in known.items() if name not in wanted}

    def owns_namespace(self, name: str) -> bool:
        """Whether a namespace of the cluster was made for this registration."""
        return name in self._context.namespaces.known()

    def health(self) -> SyncHealth:
        unavailable = tuple(sorted(str(w) for w in self._wanted if _name(w) not in self._followed))
        return SyncHealth(self._queued(), self._oldest_unsynced(), unavailable)

    def _queued(self) -> int:
        queues = (self.down.queue, self.up.queue)
        return sum(len(queue) + queue.running for queue in queues)

    def _oldest_unsynced(self) -> float | None:
        if self.down.queue.is_idle:
            return None
        oldest = None
        for synced in self._context.types.values():
            for leaf in synced.leaves:
                copy = synced.copies.get(leaf.target)
                if copy is None or copy.hash != leaf.hash:
                    oldest = min(oldest or leaf.changed_at, leaf.changed_at)
        return None if oldest is None else time.monotonic() - oldest

    @property
    def is_synced(self) -> bool:
        """Whether all types are known on both sides, and nothing waits to be done."""
        return (
            bool(self._followed)
            and all(_name(one) in self._followed for one in self._wanted)
            and all(followed.is_settled for followed in self._followed.values())
            and not self._queued()
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with TaskOwner("syncer") as owner:
            self._owner = owner
            registration, metrics = self._context.registration, self._context.metrics
            metrics.follow(registration.uid, self._queued)
            mine = f"{DOWNSTREAM_CLUSTER}={registration.downstream_label}"
            namespaces = self._downstream.follow(NAMESPACES, "", mine, self._context.namespaces)
            owner.start_restartable("namespaces", namespaces.run)
            owner.start_restartable("types", self._keep_types)
            owner.start_restartable("down", self.down.run)
            owner.start_restartable("up", self.up.run)
            owner.start_restartable("sweep", lambda: self._sweep(namespaces.is_synced))
            owner.start_restartable("namespaces-empty", self._remove_namespaces)
            owner.start_restartable("unschedulable", UnschedulableReplicas(self._context).run)
            try:
                await asyncio.Event().wait()
            finally:
                metrics.forget(registration.uid)
                self._owner = None
                self._followed.clear()

    # --- types

    async def _keep_types(self) -> None:
        """Start and stop the informers of types as they are wanted and served."""
        while True:
            self._changed.clear()
            pause = await self._learn_retired()
            for name in set(self._followed) - set(map(_name, self._wanted)) - set(self._retired):
                await self._unfollow(name)
            if self._is_doubtful:
                await self._drop_unserved()
            for wanted in (*self._wanted, *self._retired.values()):
                if _name(wanted) not in self._followed:
                    retry = await self._try_to_follow(wanted)
                    pause = min(pause or retry, retry) if retry else pause
            self._note_retired()
            for followed in list(self._followed.values()):
                await followed.adjust()
            if self._followed:
                self._discovered.set()
            try:
                await asyncio.wait_for(self._changed.wait(), pause)
            except TimeoutError:
                continue

    async def _learn_retired(self) -> float | None:
        """Ask the Cluster for types that were synchronized before a restart. Returns seconds after
        which to try again.
        """
        if self._is_told:
            return None
        registration = self._context.registration
        try:
            cluster = await self._context.upstream.get(
                registration.workspace, CLUSTERS, registration.name
            )
        except NotFound:
            cluster = None  # another shard has it
        except StatusError:
            return _FAILED_DISCOVERY
        found = synced_types(cluster or {}, is_accepted=False)
        self._retire(one for one in _parsed(found) if _name(one) not in self._retired)
        self._is_told = True
        return None

    def _note_retired(self) -> None:
        for name, synced in self._context.types.items():
            is_retired = name in self._retired
            if synced.is_retired != is_retired:
                synced.is_retired = is_retired
                self._all_ready(name)

    async def _forget_retired(self) -> None:
        """Those of which nothing is left. Raises StatusError."""
        for name in list(self._retired):
            synced, followed = self._context.types.get(name), self._followed.get(name)
            if synced is None or followed is None or not followed.is_known:
                continue
            is_left = bool(synced.leaves) or bool(synced.leaves.released)
            if not is_left and not await self._sweeper.has_finalized(synced.kind):
                self._retired.pop(name, None)
                self._changed.set()

    async def _try_to_follow(self, wanted: WantedType) -> float:
        """Returns seconds after which to try again; 0 if it is followed now."""
        try:
            served = await served_type(self._downstream.client, wanted)
        except StatusError as error:
            _log.warning("types of cluster %s: %s", self._context.registration.name, error)
            return _FAILED_DISCOVERY
        if served is None:
            return self._settings.discovery_interval
        name = _name(wanted)
        if name in self._retired and not await self._is_left(name, served):
            return 0.0
        leaves = LeafStore(
            name, self._context.registration, lambda key: self._leaf_changed(name, key)
        )
        copies = CopyStore(leaves, lambda target: self._copy_changed(name, target))
        self._context.types[name] = TypeSync(
            served, leaves, copies, note_delay=_note_delay(name, self._settings)
        )
        assert self._owner is not None
        self._followed[name] = _FollowedType(
            self._context, self._upstream, self._downstream, name, self._owner, self._all_ready
        )
        self._followed[name].start()
        if name in self._retired:
            self._unswept.set()
        return 0.0

    async def _is_left(self, name: TypeName, served: ServedType) -> bool:
        """Whether something of a retired type may be in the cluster: most types of a Cluster that
        are not accepted never were.
        """
        try:
            if await self._sweeper.has_finalized(served.kind):
                return True
        except StatusError as error:
            _log.debug("%s is followed, it may have copies: %s", served.kind, error)
            return True
        self._retired.pop(name, None)
        return False

    def _rediscover(self) -> None:
        """A type is served no longer, it seems."""
        self._is_doubtful = True
        self._changed.set()

    async def _drop_unserved(self) -> None:
        """Stop following types that the cluster says it does not serve. Nothing is deleted."""
        self._is_doubtful = False
        for wanted in (*self._wanted, *self._retired.values()):
            followed = self._followed.get(_name(wanted))
            if followed is None:
                continue
            try:
                served = await served_type(self._downstream.client, wanted)
            except StatusError:
                continue  # that says nothing about the type
            if served != followed.served:
                _log.warning("cluster %s: %s changed", self._context.registration.name, wanted)
                await self._unfollow(_name(wanted))

    async def _unfollow(self, name: TypeName) -> None:
        await self._followed.pop(name).stop()
        self._context.types.pop(name, None)

    def _all_ready(self, name: TypeName) -> None:
        """The copies of a type are known: all its objects are looked at."""
        synced = self._context.types.get(name)
        for leaf in synced.leaves if synced is not None else ():
            self.down.add(SyncKey(name, *leaf.key))
        for key in list(synced.leaves.released) if synced is not None else ():
            self.down.add(SyncKey(name, *key))
        for target, _ in synced.copies.items() if synced is not None else ():
            self._copy_changed(name, target)

    # --- events

    def _leaf_changed(self, name: TypeName, key: ObjectKey) -> None:
        synced = self._context.types.get(name)
        if synced is None:
            return
        followed = self._followed.get(name)
        if followed is not None and followed.is_watching != bool(synced.leaves):
            self._changed.set()
        if synced.leaves.get(key) is None:
            call_later(self._settings.namespace_grace / 2, self._shrunk.set)
        self.down.add(SyncKey(name, *key))

    def _copy_changed(self, name: TypeName, target: CopyName) -> None:
        synced = self._context.types.get(name)
        leaf = synced.leaves.owner(target) if synced is not None else None
        if synced is not None and leaf is not None and synced.is_ready:
            self._look_at(name, synced, leaf)

    def _look_at(self, name: TypeName, synced: TypeSync, leaf: Leaf) -> None:
        """Queue an object if something has to be done for it."""
        copy, key = synced.copies.get(leaf.target), SyncKey(name, *leaf.key)
        is_current = (
            copy is not None
            and (copy.origin_uid, copy.hash) == (leaf.uid, leaf.hash)
            and copy.is_intact
            and not copy.is_terminating
        )
        if not is_current or leaf.is_terminating:
            self.down.add(key)
        if copy is not None and self._up.is_due(leaf, copy):
            self.up.add(key)

    def _namespace_lost(self, namespace: str) -> None:
        for name, synced in self._context.types.items():
            for leaf in synced.leaves:
                if leaf.target.namespace == namespace:
                    self.down.add(SyncKey(name, *leaf.key))

    def connected(self, kind: GroupVersionResource) -> None:
        """A server answers again: what failed meanwhile does not wait for its next attempt."""
        for name, synced in self._context.types.items():
            if name == (kind.group, kind.resource):
                synced.problem = ""
            for key in synced.leaves.released:
                self.down.add(SyncKey(name, *key))
            for leaf in synced.leaves:
                self._look_at(name, synced, leaf)

    def failed(self, kind: GroupVersionResource, error: Exception) -> None:
        """What the cluster does not allow is noted on the objects; other failures pass."""
        name = (kind.group, kind.resource)
        synced = self._context.types.get(name)
        if synced is None or synced.is_ready or not isinstance(error, Forbidden):
            return
        if synced.problem != error.message:
            synced.problem = error.message
            for leaf in synced.leaves:
                self.down.add(SyncKey(name, *leaf.key))

    # --- leftovers

    async def _sweep(self, namespaces_known: asyncio.Event) -> None:
        while True:
            await namespaces_known.wait()
            await self._discovered.wait()
            self._unswept.clear()
            for name in map(_name, self._wanted):
                if name in self._followed:
                    await self._followed[name].wait_until_known()
            await self._wait_for_retired()
            known = [name for name, one in self._followed.items() if one.is_known]
            await self._sweeper.sweep(known)
            await self._forget_retired()
            self._shrunk.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.sweep_interval):
                    await self._unswept.wait()

    async def _wait_for_retired(self) -> None:
        """Not for long: the workspace may have such a type no longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETIRED_SECONDS):
                for name in list(self._retired):
                    if name in self._followed:
                        await self._followed[name].wait_until_known()

    async def _remove_namespaces(self) -> None:
        """Those that are kept for a while, or for lack of proof, are looked at less and less."""
        grace = self._settings.namespace_grace
        pause = grace / 2
        while True:
            await self._shrunk.wait()
            self._shrunk.clear()
            if self._are_all_known() and await self._sweeper.remove_empty_namespaces():
                call_later(pause, self._shrunk.set)
                pause = min(2 * pause, self._settings.sweep_interval)
            else:
                pause = grace / 2

    def _are_all_known(self) -> bool:
        """No namespace is empty before every type is known."""
        found = [self._followed.get(_name(wanted)) for wanted in self._wanted]
        return all(followed is not None and followed.is_known for followed in found)


class _FollowedType:
    """The informers of one type; that of the copies runs while something is assigned."""

    def __init__(
        self,
        context: SyncContext,
        upstream: Upstream,
        downstream: Downstream,
        name: TypeName,
        owner: TaskOwner,
        ready: Callable[[TypeName], None],
    ) -> None:
        self._synced, self._name, self._owner, self._ready = context.types[name], name, owner, ready
        registration, kind = context.registration, self._synced.kind
        own, shared = (
            f"{CLUSTER_LABEL}={name}" for name in (registration.name, registration.shared)
        )
        mine = f"{DOWNSTREAM_CLUSTER}={registration.downstream_label}"
        workspace, leaves = registration.workspace, self._synced.leaves
        self._leaves = upstream.follow(kind, workspace, own, leaves)
        self._shared = upstream.follow_consumers(kind, workspace, shared, leaves)
        self._downstream, self._mine = downstream, mine
        self._copies_known = asyncio.Event()
        self.is_watching = False

    @property
    def served(self) -> ServedType:
        return self._synced.served

    @property
    def is_known(self) -> bool:
        is_shared_known = self._shared is None or self._shared.is_synced.is_set()
        return self._leaves.is_synced.is_set() and is_shared_known

    @property
    def is_settled(self) -> bool:
        return self.is_known and self._synced.is_ready == bool(self._synced.leaves)

    async def wait_until_known(self) -> None:
        await self._leaves.is_synced.wait()
        if self._shared is not None:
            await self._shared.is_synced.wait()
        if self._synced.leaves:
            await self._copies_known.wait()

    def start(self) -> None:
        self._owner.start_restartable(f"leaves/{self._text}", self._leaves.run)
        if self._shared is not None:
            self._owner.start_restartable(f"shared/{self._text}", self._shared.run)

    @property
    def _text(self) -> str:
        return str(self._synced.kind)

    async def adjust(self) -> None:
        """Watch the copies if something is assigned; stop when nothing is."""
        wanted = bool(self._synced.leaves)
        if wanted == self.is_watching or self._synced.leaves.released:
            return
        self.is_watching = wanted
        if wanted:
            self._owner.start_restartable(f"copies/{self._text}", self._watch_copies)
        else:
            self._synced.is_ready = False
            self._copies_known.clear()
            await self._owner.stop_one(f"copies/{self._text}")

    async def _watch_copies(self) -> None:
        copies = self._synced.copies
        follower = self._downstream.follow(self._synced.kind, "", self._mine, copies)
        async with TaskOwner("syncer") as inner:
            inner.start_restartable(f"copies-of/{self._text}", follower.run)
            await follower.is_synced.wait()
            self._synced.is_ready, self._synced.problem = True, ""
            self._copies_known.set()
            self._ready(self._name)
            await asyncio.Event().wait()

    async def stop(self) -> None:
        await self._owner.stop_one(f"leaves/{self._text}")
        await self._owner.stop_one(f"shared/{self._text}")
        await self._owner.stop_one(f"copies/{self._text}")


def _parsed(resources: Iterable[str]) -> tuple[WantedType, ...]:
    found = {_name(one): one for one in map(parse_type, sorted(set(resources)))}
    return tuple(one for name, one in found.items() if name not in NEVER_SYNCED)


def _note_delay(name: TypeName, settings: SyncSettings) -> float:
    """Workloads wait for the objects that they need: these are noted at once."""
    group, resource = name
    traits = TABLE.get(f"{resource}.{group}" if group else resource)
    return 0.0 if traits is not None and traits.is_follower else settings.note_delay


def _name(wanted: WantedType) -> TypeName:
    return (wanted.group, wanted.resource)


def _one_lane(_: SyncKey) -> str:
    return ""
