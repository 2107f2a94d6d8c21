"""kcp-revision-slots: gives every shard of a fleet a number of its own for its revisions.

The shard that has `root` assigns the numbers, as annotations of the Shards there, as soon as
two are running. Every shard then uses its own. A number is never given to another shard while its
Shard exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT, SYSTEM_SHARD
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS
from pykcp.machinery.status import NotFound
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
from pykcp.types import Object

NAME = "kcp-revision-slots"
SLOT_ANNOTATION = "internal.core.kcp.io/revision-slot"
SLOTS = 128
_ALL = ObjectKey(ROOT, "", "")


class RevisionSlots:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        use_slot: Callable[[int], Awaitable[None]],
        shard: str,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self._shards, self._use_slot, self._shard = KnownShards(lookup), use_slot, shard
        self._used: int | None = None
        self.controller: Controller[ObjectKey] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(SHARDS, self._on_shard)
        feed.at_start(self._resume)
        if self._lookup.replica is not None:
            self._lookup.replica.follow(SHARDS, self._on_published)

    def _on_shard(self, change: Change) -> None:
        if change.cluster == ROOT:
            self.controller.add(_ALL)

    def _on_published(self, cluster: str, name: str) -> None:
        """A Shard of root, or the first word of a shard itself; its later reports do not count."""
        if cluster == ROOT or self._is_without(name):
            self.controller.add(_ALL)

    def _is_without(self, name: str) -> bool:
        shard = self._lookup.get(SHARDS, ROOT, name)
        return shard is not None and slot_of_shard(shard) is None

    async def _resume(self) -> None:
        self.controller.add(_ALL)

    async def reconcile(self, key: ObjectKey) -> None:
        if self._lister.has(ROOT, LOGICAL_CLUSTERS, "cluster"):
            await self._assign()
        own = self._shards.get(self._shard)
        slot = slot_of_shard(own) if own is not None else None
        if slot is not None and slot != self._used:
            await self._use_slot(slot)
            self._used = slot

    async def _assign(self) -> None:
        known = self._lookup.all(SHARDS, ROOT)
        # A Shard may be created before its shard runs, and need never have one.
        names = {meta.name(shard) for shard in known}
        joined = {name for name in names if self._lookup.get(SHARDS, SYSTEM_SHARD, name)}
        for name, slot in missing_slots(known, joined).items():

            def change(live: Object, slot: int = slot) -> None:
                annotations = {**meta.annotations(live)}
                annotations.setdefault(SLOT_ANNOTATION, str(slot))
                live["metadata"]["annotations"] = annotations

            try:
                await self._client.change(ROOT, SHARDS, name, change)
            except NotFound:
                continue


def slot_of_shard(shard: Object) -> int | None:
    text = meta.annotation(shard, SLOT_ANNOTATION)
    return int(text) if text.isdecimal() and int(text) < SLOTS else None


def missing_slots(shards: Iterable[Object], joined: Collection[str]) -> dict[str, int]:
    """Slots for the joined shards that have none; none for a shard that is alone."""
    known = {meta.name(shard): slot_of_shard(shard) for shard in shards}
    if len(joined) < 2:
        return {}
    free = sorted(set(range(SLOTS)) - set(known.values()))
    without = (name for name in sorted(joined) if known[name] is None)
    return dict(zip(without, free, strict=False))
