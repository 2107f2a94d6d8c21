"""Garbage collection of dependents, within one logical cluster.

There is no graph in memory. The store knows the dependents of an object by index
(`owner:<cluster>:<uid>`), and an object knows its owners itself. Keys of the queue are
objects to look at and owners that went (`GoneOwner`).

An owner in foreground deletion waits for those dependents that block it. It is enough to watch
one of them, the witness: as long as that one is there, the owner waits whatever the others do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.kube.garbage_plan import (
    NOT_HERE,
    Dependents,
    Keep,
    Owner,
    OwnerState,
    Remove,
    Unreference,
    WaitForKind,
    blocks,
    plan,
    state_of_owner,
    waits_for_dependents,
)
from pykcp.controllers.kube.misplaced_owners import MisplacedOwners
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.metadata import Metadata, OwnerReference, metadata_of
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import API_BINDINGS, CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import Conflict, NotFound
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.entries import DELETING, owner_entry
from pykcp.registry.verbs.deletion import FOREGROUND, ORPHAN
from pykcp.types import Object

NAME = "generic-garbage-collector"
_PAGE = 200
_AT_A_TIME = 32
_REMEMBER = 8192
_PARK = 4096
_KIND_SOURCES = (CUSTOM_RESOURCE_DEFINITIONS, API_BINDINGS)
"""What brings kinds to a logical cluster."""

_OWNERS = b'"ownerReferences":[{'
_DELETING = b'"deletionTimestamp":"'
_FINALIZERS = (f'"{FOREGROUND}"'.encode(), f'"{ORPHAN}"'.encode())


class GoneOwner(NamedTuple):
    cluster: str
    uid: str


class GarbageItem(NamedTuple):
    """One object as the collector sees it."""

    ref: ObjectRef
    kind: ServedKind
    metadata: Metadata

    def __str__(self) -> str:
        return str(self.ref)


class GarbageCollector:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        kinds: ServedKinds,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._kinds = lister, client, kinds
        self._misplaced = MisplacedOwners(lister, client, kinds, now)
        self._witnesses: dict[ObjectRef, set[ObjectRef]] = {}
        """Dependents that block an owner's deletion, and their owner."""
        self._parked: set[ObjectRef] = set()
        """Objects with an owner of a kind that is not served, until a kind is added."""
        self._checked: BoundedCache[ObjectRef, int] = BoundedCache("garbage-checked", _REMEMBER)
        """Objects whose owners exist, with a hash of their references. The deletion of an owner has
        its own event, so they are not checked again until their references change."""
        self.controller: Controller[ObjectRef | GoneOwner] = Controller(
            NAME, self.reconcile, workers=_AT_A_TIME, metrics=metrics
        )

    # --- what happened ----------------------------------------------------------

    def follow(self, feed: ShardFeed) -> None:
        feed.on_everything(self._on_anything)
        for kind in _KIND_SOURCES:
            feed.on(kind, self._on_kind)
        feed.at_start(self._resume)

    def _on_anything(self, change: Change) -> None:
        """For every change of every object: an ordinary one costs two searches in its bytes."""
        value = change.value
        if self._witnesses:
            for owner in self._witnesses.pop(change.ref, ()):
                self.controller.add(owner)
        if change.deleted:
            self._on_deleted(change)
        elif _DELETING in value:
            if any(finalizer in value for finalizer in _FINALIZERS):
                self.controller.add(change.ref)
        elif (start := value.find(_OWNERS)) >= 0:
            references = hash(value[start : value.index(b"]", start)])
            if change.created or self._checked.get(change.ref) != references:
                self.controller.add(change.ref)
        elif self._checked and not change.created:
            self._checked.pop(change.ref)  # it may name the same owners again, who may be gone

    def _on_kind(self, change: Change) -> None:
        """A kind may have been added to a cluster: objects with owners of unknown kinds are retried."""
        if self._parked and not change.deleted:
            for ref in [ref for ref in self._parked if ref.cluster == change.cluster]:
                self._parked.discard(ref)
                self.controller.add(ref)

    def _on_deleted(self, change: Change) -> None:
        if self._checked or self._parked:
            self._checked.pop(change.ref)
            self._parked.discard(change.ref)
        # Most objects own nothing: one index lookup avoids a key in the queue for each of them.
        gone = GoneOwner(change.cluster, metadata_of(change.value).uid)
        if self._lister.find(owner_entry(*gone), limit=1):
            self._misplaced.forget(gone.uid)
            self.controller.add(gone)

    async def _resume(self) -> None:
        """Deletions that have been under way for longer than the log remembers."""
        for ref in self._lister.find(DELETING):
            self.controller.add(ref)

    # --- what is done about it --------------------------------------------------

    async def reconcile(self, key: ObjectRef | GoneOwner) -> None:
        if isinstance(key, GoneOwner):
            for dependent in self._dependents(key.cluster, key.uid):
                self.controller.add(dependent)
            return
        item = self._find(key)
        if item is None:
            return
        metadata = item.metadata
        if not metadata.is_deleting:
            await self._collect(item)
        elif metadata.has_finalizer(FOREGROUND):
            await self._delete_dependents_of(item)
        elif metadata.has_finalizer(ORPHAN):
            await self._orphan_dependents_of(item)

    def _find(self, ref: ObjectRef) -> GarbageItem | None:
        value = self._lister.value(ref)
        if value is None:
            return None
        kind = self._kinds.by_stored(ref.cluster, ref.resource)
        if kind is None:
            return None  # its kind is no longer served, so it cannot be deleted through the API
        return GarbageItem(ref, kind, metadata_of(value))

    def _dependents(self, cluster: str, uid: str) -> Iterator[ObjectRef]:
        """All objects that name this owner, read page by page."""
        after: ObjectRef | None = None
        while found := self._lister.find(owner_entry(cluster, uid), after=after, limit=_PAGE):
            yield from found
            after = found[-1]

    async def _collect(self, item: GarbageItem) -> None:
        """Delete the object if none of its owners is left."""
        self._checked.pop(item.ref)
        owners = await self._owners(item)
        # Dependents only matter for the propagation policy under an owner in foreground deletion.
        is_asked = any(owner.state is OwnerState.WAITING for owner in owners)
        dependents = await self._dependents_of(item) if is_asked else Dependents.NONE
        step = plan(item.metadata, owners, dependents)
        lost = [o.reference for o in owners if o.state in NOT_HERE]
        if lost:
            await self._misplaced.report(item.ref, lost)
        match step:
            case Keep():
                self._remember(item)
            case WaitForKind():
                self._park(item)
            case Unreference(uids):
                await self._unreference(item, uids)
            case Remove(propagation, unblocks_owners):
                if unblocks_owners:
                    await self._change(item, _unblock)
                await self._delete(item, propagation, is_exact=not unblocks_owners)

    async def _owners(self, item: GarbageItem) -> list[Owner]:
        """The owners that an object names, in slices: there may be tens of thousands."""
        owners: list[Owner] = []
        found: dict[ObjectRef, Metadata | None] = {}
        slices = Slices(item.ref.cluster)
        for reference in item.metadata.owner_references or ():
            owners.append(Owner(reference, self._state(item, reference, found)))
            if slices.is_over():
                await slices.next()
        return owners

    def _state(
        self, item: GarbageItem, reference: OwnerReference, found: dict[ObjectRef, Metadata | None]
    ) -> OwnerState:
        """The state of an owner; `found`: what was read already."""
        cluster, namespace = item.ref.cluster, item.ref.namespace
        kind = self._kinds.by_kind(cluster, reference.api_version, reference.kind)
        if kind is None:
            return OwnerState.UNKNOWN
        if kind.namespaced and not item.kind.namespaced:
            return OwnerState.IMPOSSIBLE
        where = namespace if kind.namespaced else ""
        ref = ObjectRef(kind.stored, cluster, where, reference.name)
        if ref not in found:
            value = self._lister.value(ref)
            found[ref] = None if value is None else metadata_of(value)
        return state_of_owner(reference, found[ref])

    async def _dependents_of(self, item: GarbageItem) -> Dependents:
        found, slices = Dependents.NONE, Slices(item.ref.cluster)
        for ref in self._dependents(item.ref.cluster, item.metadata.uid):
            found = Dependents.SOME
            value = self._lister.value(ref)
            if value is not None and waits_for_dependents(metadata_of(value)):
                return Dependents.SOME_WAITING
            if slices.is_over():
                await slices.next()
        return found

    def _remember(self, item: GarbageItem) -> None:
        value = self._lister.value(item.ref)
        start = -1 if value is None else value.find(_OWNERS)
        if value is None or start < 0:
            return
        self._checked.put(item.ref, hash(value[start : value.index(b"]", start)]))

    def _park(self, item: GarbageItem) -> None:
        if len(self._parked) >= _PARK:
            # Bounded memory: beyond it objects are retried with backoff instead of waiting for events.
            raise Requeue("the kind of an owner is not served")
        self._parked.add(item.ref)

    async def _delete_dependents_of(self, owner: GarbageItem) -> None:
        """Foreground deletion: ask all dependents to go; finish when none blocks any more."""
        uid = owner.metadata.uid
        witness: ObjectRef | None = None
        slices = Slices(owner.ref.cluster)
        for ref in self._dependents(owner.ref.cluster, uid):
            if slices.is_over():
                await slices.next()
            value = self._lister.value(ref)
            if value is None:
                continue
            dependent = metadata_of(value)
            if not dependent.is_deleting:
                self.controller.add(ref)
            if blocks(dependent, uid):
                witness = ref
        if witness is not None:
            # While this one blocks, the owner waits regardless of the others: watching it is enough.
            self._witnesses.setdefault(witness, set()).add(owner.ref)
        else:
            await self._remove_finalizer(owner, FOREGROUND)

    async def _orphan_dependents_of(self, owner: GarbageItem) -> None:
        """The dependents stay, without this owner."""
        uids = frozenset((owner.metadata.uid,))
        refs = list(self._dependents(owner.ref.cluster, owner.metadata.uid))
        for start in range(0, len(refs), _AT_A_TIME):
            found = [self._find(ref) for ref in refs[start : start + _AT_A_TIME]]
            await _all(self._unreference(item, uids) for item in found if item is not None)
        await self._remove_finalizer(owner, ORPHAN)

    # --- writes -----------------------------------------------------------------

    async def _delete(self, item: GarbageItem, propagation: str, *, is_exact: bool) -> None:
        """Delete the very object that was judged; if only its owners are the same, that will do."""
        ref, metadata = item.ref, item.metadata
        where = (ref.cluster, item.kind.resource, ref.name, ref.namespace)
        version = metadata.resource_version if is_exact else None
        try:
            await self._client.delete(*where, metadata.uid, propagation, version)
        except Conflict:
            live = self._find(item.ref)
            if live is None or live.metadata.uid != metadata.uid:
                return
            if live.metadata.owner_references != metadata.owner_references:
                raise
            await self._client.delete(*where, metadata.uid, propagation)

    async def _unreference(self, item: GarbageItem, uids: frozenset[str]) -> None:
        def change(live: Object) -> None:
            left = [r for r in meta.owner_references(live) if r.get("uid") not in uids]
            _set_or_drop(live, "ownerReferences", left)

        await self._change(item, change)

    async def _remove_finalizer(self, item: GarbageItem, finalizer: str) -> None:
        def change(live: Object) -> None:
            meta.remove_finalizer(live, finalizer)

        await self._change(item, change)

    async def _change(self, item: GarbageItem, make: Callable[[Object], None]) -> None:
        """Change this object, and not another one of the same name."""
        ref, uid = item.ref, item.metadata.uid

        def change(live: Object) -> None:
            if meta.uid(live) != uid:
                raise NotFound.resource(
                    item.kind.resource.group, item.kind.resource.resource, ref.name
                )
            make(live)

        try:
            await self._client.change(
                ref.cluster, item.kind.resource, ref.name, change, ref.namespace
            )
        except NotFound:
            return


async def _all(work: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Do all of it, then raise what went wrong first: the rest need not be done again."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _unblock(live: Object) -> None:
    live["metadata"]["ownerReferences"] = [
        {**r, "blockOwnerDeletion": False} if r.get("blockOwnerDeletion") else r
        for r in meta.owner_references(live)
    ]


def _set_or_drop(live: Object, name: str, value: list[Any]) -> None:
    if value:
        live["metadata"][name] = value
    else:
        live["metadata"].pop(name, None)
