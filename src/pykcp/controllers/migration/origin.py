"""The origin of a migration: marks the logical cluster, and cleans up when it has left.

The mark allows one migration at a time. It does not block requests: the logical cluster is used
until another shard has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from pykcp.clients.interface import Client
from pykcp.controllers.migration.objects import MigrationKey
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT, is_system
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import NotFound, StatusError, go_quote
from pykcp.registry.clock import Timestamps
from pykcp.registry.moving.outgoing import MIGRATING, OutgoingMoves
from pykcp.registry.shards import KnownShards
from pykcp.types import Object

ORIGIN_READY, ORIGIN_CLEANED = "OriginReady", "OriginCleaned"
_CLUSTER = "cluster"
_REMEMBER_SECONDS = 24 * 3600.0
"""How long requests for a logical cluster that has moved are answered with its new shard."""


class MigrationOrigin:
    def __init__(
        self,
        client: Client,
        shards: KnownShards,
        outgoing: OutgoingMoves,
        shard: str,
        now: Timestamps,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._shards, self._outgoing = client, shards, outgoing
        self._shard, self._now, self._clock = shard, now, clock

    async def has(self, cluster: str) -> bool:
        """Whether the logical cluster is here and was not given away."""
        if self._outgoing.departure(cluster) is not None:
            return False
        return await self._client.get(cluster, LOGICAL_CLUSTERS, _CLUSTER) is not None

    async def prepare(self, key: MigrationKey, migration: Object) -> None:
        """Let the destination begin, or say why it cannot. Changes the migration's status."""
        cluster = migration["spec"]["logicalCluster"]
        found = await self._client.get(cluster, LOGICAL_CLUSTERS, _CLUSTER)
        if found is None:
            return
        problem = self._problem(key, migration, found)
        if problem is not None:
            mark_false(migration, ORIGIN_READY, *problem, self._now())
            migration["status"]["phase"] = "Failed"
            return
        migration["status"]["originShard"] = self._shard
        await self._mark(cluster, key.mark)
        mark_true(migration, ORIGIN_READY, self._now())
        migration["status"]["phase"] = "Migrating"

    def _problem(
        self, key: MigrationKey, migration: Object, found: Object
    ) -> tuple[str, str] | None:
        """Reason and message if the migration cannot even begin."""
        cluster = migration["spec"]["logicalCluster"]
        if cluster == ROOT or is_system(cluster):
            text = f"logical cluster {go_quote(cluster)} belongs to its shard"
            return "InvalidLogicalCluster", text
        other = meta.annotation(found, MIGRATING)
        if other and other != key.mark:
            text = f"logical cluster is already migrating with {go_quote(other)}"
            return "LogicalClusterAlreadyMigrating", text
        wanted = migration["spec"].get("destinationShard") or ""
        if wanted == self._shard:
            return "InvalidDestination", f"logical cluster is on shard {go_quote(wanted)} already"
        if not self._shards.is_present(wanted):
            return "InvalidDestination", f"shard {go_quote(wanted)} not found"
        return None

    async def cancel(self, key: MigrationKey, cluster: str) -> bool:
        """Take the mark away, so that the destination cannot have it; False: it is too late."""
        if self._outgoing.departure(cluster) is not None:
            return False
        found = await self._client.get(cluster, LOGICAL_CLUSTERS, _CLUSTER)
        if found is not None and meta.annotation(found, MIGRATING) == key.mark:
            try:
                await self._mark(cluster, "")
            except StatusError:
                if self._outgoing.departure(cluster) is None:
                    raise
                return False  # it was given away while the mark was being removed
        return True

    async def remove(self, cluster: str) -> None:
        """Remove what a logical cluster that another shard serves has left here."""
        await self._outgoing.clean(cluster)

    async def forget_disowned(self) -> None:
        """Forget clusters that were given up when this shard came back from a backup."""
        await self._forget_departures("")

    async def forget_departures(self, key: MigrationKey) -> float | None:
        """Forget where a migration has sent clusters, after a day; the seconds until then."""
        return await self._forget_departures(key.mark)

    async def _forget_departures(self, mark: str) -> float | None:
        waiting: list[float] = []
        for departure in self._outgoing.departures(mark):
            since = datetime.fromisoformat(departure.departed_at).timestamp()
            left = since + _REMEMBER_SECONDS - self._clock()
            if left > 0:
                waiting.append(left)
            elif departure.is_cleaned:
                await self._outgoing.forget(departure.cluster)
        return min(waiting, default=None)

    async def clean(self, migration: Object) -> None:
        await self.remove(migration["spec"]["logicalCluster"])
        mark_true(migration, ORIGIN_CLEANED, self._now())
        migration["status"]["phase"] = "DestinationFinalize"

    async def _mark(self, cluster: str, mark: str) -> None:
        def change(live: Object) -> None:
            annotations = {**meta.annotations(live)}
            annotations.pop(MIGRATING, None)
            if mark:
                annotations[MIGRATING] = mark
            live["metadata"]["annotations"] = annotations

        try:
            await self._client.change(cluster, LOGICAL_CLUSTERS, _CLUSTER, change)
        except NotFound:
            if mark:
                raise
