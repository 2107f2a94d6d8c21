"""kcp-logicalcluster-migration: moves a logical cluster to another shard.

This is the part of the origin until the destination takes over: the logical cluster is marked,
so that only other shards can access it. A cancelled migration removes the mark.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTER_MIGRATIONS, LOGICAL_CLUSTERS, SHARDS
from pykcp.machinery.status import NotFound, go_quote
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import copy as deep_copy
from pykcp.registry.codec import decode
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

NAME = "kcp-logicalcluster-migration"
GATE = "LogicalClusterMigration"
MIGRATING = "internal.kcp.io/migrating"
ORIGIN_READY = "OriginReady"
_CLUSTER = "cluster"


class Migration(NamedTuple):
    cluster: str
    name: str
    moved: str
    """The logical cluster that is to be moved."""

    @property
    def mark(self) -> str:
        """What the annotation of the moved cluster says."""
        return f"{self.cluster}:{self.name}"


class Migrations:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        shard: str,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self._shard, self._now = shard, now
        self.controller: Controller[Migration] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTER_MIGRATIONS, self._on_migration)
        feed.at_start(self._resume)

    async def _resume(self) -> None:
        for key in self._lister.keys(LOGICAL_CLUSTER_MIGRATIONS):
            found = self._lister.get(key.cluster, LOGICAL_CLUSTER_MIGRATIONS, key.name)
            if found is not None:
                self._add(key, found)

    def _on_migration(self, change: Change) -> None:
        self._add(change.key, decode(change.value))

    def _add(self, key: ObjectKey, migration: Object) -> None:
        moved = (migration.get("spec") or {}).get("logicalCluster") or ""
        self.controller.add(Migration(key.cluster, key.name, moved))

    async def reconcile(self, key: Migration) -> None:
        found = await self._client.get(key.cluster, LOGICAL_CLUSTER_MIGRATIONS, key.name)
        if found is None:
            await self._release(key)
            return
        after = deep_copy(found)
        status = after.setdefault("status", {})
        if status.get("phase") in ("", None, "Preparing") and not meta.is_deleting(found):
            await self._prepare(key, after)
        if after["status"] != (found.get("status") or {}):
            await self._write_status(key, after["status"])

    async def _prepare(self, key: Migration, after: Object) -> None:
        status = after["status"]
        moved = await self._client.get(key.moved, LOGICAL_CLUSTERS, _CLUSTER)
        if moved is None:
            return  # it is on another shard, whose controller prepares it
        refusal = self._refusal(key, after, moved)
        if refusal is not None:
            mark_false(after, ORIGIN_READY, *refusal, self._now())
            after["status"]["phase"] = "Failed"
            return
        status["originShard"] = self._shard
        await self._mark(key, key.mark)
        mark_true(after, ORIGIN_READY, self._now())
        after["status"]["phase"] = "Migrating"

    def _refusal(self, key: Migration, after: Object, moved: Object) -> tuple[str, str] | None:
        """Reason and message if the migration cannot even begin."""
        other = meta.annotation(moved, MIGRATING)
        if other and other != key.mark:
            text = f"logical cluster is already migrating with {go_quote(other)}"
            return "LogicalClusterAlreadyMigrating", text
        wanted = (after.get("spec") or {}).get("destinationShard") or ""
        if wanted == self._shard:
            return "InvalidDestination", f"logical cluster is on shard {go_quote(wanted)} already"
        if self._lookup.get(SHARDS, "root", wanted) is None:
            return "InvalidDestination", f"shard {go_quote(wanted)} not found"
        return None

    async def _release(self, key: Migration) -> None:
        moved = await self._client.get(key.moved, LOGICAL_CLUSTERS, _CLUSTER) if key.moved else None
        if moved is not None and meta.annotation(moved, MIGRATING) == key.mark:
            await self._mark(key, "")

    async def _mark(self, key: Migration, mark: str) -> None:
        def change(live: Object) -> None:
            annotations = {**meta.annotations(live)}
            annotations.pop(MIGRATING, None)
            if mark:
                annotations[MIGRATING] = mark
            live["metadata"]["annotations"] = annotations

        await self._client.change(key.moved, LOGICAL_CLUSTERS, _CLUSTER, change)

    async def _write_status(self, key: Migration, status: Object) -> None:
        def change(live: Object) -> None:
            live["status"] = status

        try:
            await self._client.change(
                key.cluster, LOGICAL_CLUSTER_MIGRATIONS, key.name, change, subresource="status"
            )
        except NotFound:
            return
