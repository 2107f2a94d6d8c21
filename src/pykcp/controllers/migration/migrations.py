"""kcp-logicalcluster-migration: moves a logical cluster to another shard.

Origin and destination both follow a LogicalClusterMigration, and its phase says whose turn it is:

    Preparing            origin        marks the logical cluster
    Migrating            destination   copies it while it is used, and takes it over
    OriginCleanup        origin        removes what is left
    DestinationFinalize  destination   brings everything up to date that refers to it

To delete a migration is to cancel it, until the destination has taken the logical cluster over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pykcp.clients.interface import Change, Feed
from pykcp.controllers.migration.destination import (
    DestinationFull,
    MigrationCancelled,
    MigrationDestination,
)
from pykcp.controllers.migration.objects import (
    FINALIZER,
    MigrationKey,
    MigrationObjects,
    key_of_mark,
)
from pykcp.controllers.migration.origin import MigrationOrigin
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.resources import LOGICAL_CLUSTER_MIGRATIONS
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import copy as deep_copy
from pykcp.registry.lookup import Replica
from pykcp.registry.moving.parts import ShardMoves
from pykcp.types import Object

NAME = "kcp-logicalcluster-migration"
DATA_COPIED, COMPLETED = "DataCopied", "Completed"
_BEFORE_TAKEN = ("", "Preparing", "Migrating")
_ENDED = ("Completed", "Failed")
_AT_ONCE = 4

Settle = Callable[[str], Awaitable[None]]
"""Brings everything on this shard up to date that refers to a logical cluster which arrived."""


class Migrations:
    def __init__(
        self,
        objects: MigrationObjects,
        origin: MigrationOrigin,
        destination: MigrationDestination | None,
        moving: ShardMoves,
        settle: Settle,
        shard: str,
        now: Timestamps,
        replica: Replica | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        """`destination`: None if this shard does not know others."""
        self._objects, self._origin, self._destination = objects, origin, destination
        self._moves, self._news = moving.moves, moving.news
        self._settle, self._replica = settle, replica
        self._shard, self._now = shard, now
        self.controller: Controller[MigrationKey] = Controller(
            NAME, self.reconcile, workers=_AT_ONCE, metrics=metrics
        )

    # --- what happened

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTER_MIGRATIONS, self._on_migration)
        feed.at_start(self._resume)
        if self._replica is not None:
            self._replica.listen(self._on_published)
        self._news.listen(self._on_news)

    def _on_news(self, mark: str, shard: str) -> None:
        key = key_of_mark(mark)
        self._objects.note(key, shard)
        self.controller.add(key)

    def _on_migration(self, change: Change) -> None:
        self.controller.add(MigrationKey(change.cluster, change.name))

    def _on_published(self, kind: tuple[str, str], cluster: str) -> None:
        if kind != LOGICAL_CLUSTER_MIGRATIONS[::2]:
            return
        for key in (*self._objects.keys(), *self._recorded()):
            if key.cluster == cluster:
                self.controller.add(key)

    def _recorded(self) -> list[MigrationKey]:
        """Those that have left records, though they may be deleted."""
        marks = [arrival.migration for arrival in self._moves.arriving.values()]
        marks += [departure.migration for departure in self._moves.departed.values()]
        return [key_of_mark(mark) for mark in marks if mark]  # none: the cluster was disowned

    async def _resume(self) -> None:
        await self._origin.forget_disowned()
        for key in (*self._objects.keys(), *self._recorded()):
            self.controller.add(key)

    # --- what is done about it

    async def reconcile(self, key: MigrationKey) -> float | None:
        """Returns after how many seconds records of the move can be forgotten."""
        await self._advance(key)
        return await self._origin.forget_departures(key)

    async def _advance(self, key: MigrationKey) -> None:
        found = await self._objects.get(key)
        if found is None:
            await self._forget(key)
            return
        migration = deep_copy(found)
        status = migration.setdefault("status", {})
        spec, phase = migration.get("spec") or {}, status.get("phase") or ""
        cluster = spec.get("logicalCluster")
        if not cluster:
            return  # the schema allows it, as kcp's does; there is nothing to move
        if phase in _ENDED:
            await self._end(key, found)
        elif meta.is_deleting(found) and phase in _BEFORE_TAKEN:
            await self._cancel(key, migration)
        elif phase in ("", "Preparing"):
            await self._prepare(key, migration)
        elif phase == "OriginCleanup" and status.get("originShard") == self._shard:
            await self._origin.clean(migration)
        elif self._destination is not None and self._is_destination(migration):
            if phase == "Migrating":
                await self._take(self._destination, key, migration)
            elif phase == "DestinationFinalize":
                await self._settle(cluster)
                mark_true(migration, COMPLETED, self._now())
                status["phase"] = "Completed"
        if migration["status"] != (found.get("status") or {}):
            await self._write(key, migration["status"])
            if migration["status"].get("phase") != phase:
                sides = (status.get("originShard") or "", spec.get("destinationShard") or "")
                await self._objects.tell(key, cluster, {side for side in sides if side})

    async def _prepare(self, key: MigrationKey, migration: Object) -> None:
        cluster = migration["spec"]["logicalCluster"]
        if await self._origin.has(cluster):
            if FINALIZER not in meta.finalizers(migration):
                await self._objects.add_finalizer(key)
            await self._origin.prepare(key, migration)
        elif self._objects.is_here(key):
            await self._objects.tell(key, cluster, self._objects.others())

    def _is_destination(self, migration: Object) -> bool:
        return bool(migration["spec"].get("destinationShard") == self._shard)

    async def _take(
        self, destination: MigrationDestination, key: MigrationKey, migration: Object
    ) -> None:
        spec, status = migration["spec"], migration["status"]

        async def report(entries: int) -> None:
            await self._write(key, {**status, "entriesCopied": entries})

        cluster = spec["logicalCluster"]
        try:
            entries = await destination.take(key, cluster, status["originShard"], report)
        except MigrationCancelled as error:
            await destination.abandon(key, cluster)
            if not meta.is_deleting(migration):
                self._fail(migration, "NotMigrating", error)
            return
        except DestinationFull as error:
            self._fail(migration, "DestinationFull", error)
            return
        except Requeue as error:
            mark_false(migration, DATA_COPIED, "CopyFailed", str(error), self._now())
            await self._write(key, migration["status"])
            raise
        await self._settle(cluster)
        migration["status"]["entriesCopied"] = entries or status.get("entriesCopied") or 0
        mark_true(migration, DATA_COPIED, self._now())
        migration["status"]["phase"] = "OriginCleanup"

    def _fail(self, migration: Object, reason: str, error: Exception) -> None:
        mark_false(migration, DATA_COPIED, reason, str(error), self._now())
        migration["status"]["phase"] = "Failed"

    async def _cancel(self, key: MigrationKey, migration: Object) -> None:
        cluster = migration["spec"]["logicalCluster"]
        origin = migration["status"].get("originShard") or ""
        is_origin = origin == self._shard or (not origin and await self._origin.has(cluster))
        if is_origin and await self._origin.cancel(key, cluster):
            await self._objects.remove_finalizer(key)
        elif origin and not is_origin and self._destination and self._is_destination(migration):
            # It may have been given away a moment before: then it is taken nevertheless.
            await self._take(self._destination, key, migration)

    async def _forget(self, key: MigrationKey) -> None:
        """The migration is deleted: undo what was begun for it."""
        for cluster, arrival in tuple(self._moves.arriving.items()):
            if arrival.migration == key.mark and self._destination is not None:
                await self._drop_or_take(self._destination, key, cluster, arrival.shard)
        for cluster, departure in tuple(self._moves.departed.items()):
            if departure.migration == key.mark and not departure.is_cleaned:
                if not await self._objects.is_served(departure.shard, cluster):
                    raise Requeue(f"shard {departure.shard} does not serve {cluster} yet")
                await self._origin.remove(cluster)

    async def _drop_or_take(
        self, destination: MigrationDestination, key: MigrationKey, cluster: str, origin: str
    ) -> None:
        try:
            await destination.take(key, cluster, origin, _report_nothing)
        except MigrationCancelled:
            await destination.abandon(key, cluster)
        else:
            await self._settle(cluster)

    async def _end(self, key: MigrationKey, migration: Object) -> None:
        origin = migration["status"].get("originShard") or ""
        if migration["status"]["phase"] == "Failed" and origin:
            if origin != self._shard:
                return  # the origin removes its mark first
            await self._origin.cancel(key, migration["spec"]["logicalCluster"])
        if FINALIZER in meta.finalizers(migration):
            await self._objects.remove_finalizer(key)

    async def _write(self, key: MigrationKey, status: Object) -> None:
        def change(live: Object) -> None:
            live["status"] = newer_status(live.get("status") or {}, status)

        await self._objects.write_status(key, change)


_PHASES = ("", "Preparing", "Migrating", "OriginCleanup", "DestinationFinalize")
"""In order; then come those in which a migration ends."""


def newer_status(live: Object, made: Object) -> Object:
    """The status to store: the one that was made of a copy of the migration may be out of date,
    since the other shard, or this one a moment ago, has gone on.
    """
    if _step(live) > _step(made):
        return live
    copied = max(live.get("entriesCopied") or 0, made.get("entriesCopied") or 0)
    return {**made, "entriesCopied": copied} if copied else made


def _step(status: Object) -> int:
    phase = status.get("phase") or ""
    return _PHASES.index(phase) if phase in _PHASES else len(_PHASES)


async def _report_nothing(entries: int) -> None:
    """There is no migration to report to."""
