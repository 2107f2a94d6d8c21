"""LogicalClusterMigrations, wherever they are: on this shard, or on one that publishes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Client, Lister
from pykcp.clients.peers import Peers
from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTER_MIGRATIONS, LOGICAL_CLUSTERS
from pykcp.machinery.status import NotFound, ServiceUnavailable, StatusError
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

SHARD_ANNOTATION = "kcp.io/shard"
LOOK_PATH = "/services/moving/look"
_KEEP = 1024
FINALIZER = "migration.pykcp.io/move"
"""Keeps a migration until it has ended: to delete it is to cancel it."""


class MigrationKey(NamedTuple):
    cluster: str
    name: str

    @property
    def mark(self) -> str:
        """How the moved logical cluster and the records of a move refer to it."""
        return f"{self.cluster}:{self.name}"


def key_of_mark(mark: str) -> MigrationKey:
    return MigrationKey(*mark.rsplit(":", 1))


class MigrationObjects:
    def __init__(
        self, lister: Lister, client: Client, lookup: ObjectLookup, peers: Peers | None
    ) -> None:
        self._lister, self._client, self._lookup, self._peers = lister, client, lookup, peers
        self._told: BoundedCache[MigrationKey, str] = BoundedCache("migrations", _KEEP)
        """Which shard has a migration, as another one said."""

    def note(self, key: MigrationKey, shard: str) -> None:
        """Another shard says which shard has a migration."""
        self._told.put(key, shard)

    async def tell(self, key: MigrationKey, cluster: str, shards: Iterable[str]) -> None:
        """Have other shards look at a migration now, as far as they answer."""
        peers, holder = self._peers, self._shard_of(key)
        if peers is None or not holder:
            return
        body: Object = {"cluster": cluster, "migration": key.mark, "shard": holder}
        for shard in set(shards) - {peers.own}:
            # A shard that does not answer hears of it through the cache when it is back.
            with suppress(StatusError):
                await peers.client(shard).send("POST", LOOK_PATH, body)

    async def is_served(self, shard: str, cluster: str) -> bool:
        """Whether another shard serves a logical cluster. Raises Requeue if it does not answer."""
        if self._peers is None:
            return False
        try:
            found = await self._peers.client(shard).get(cluster, LOGICAL_CLUSTERS, "cluster")
        except NotFound:
            return False
        except ServiceUnavailable as error:
            raise Requeue(f"shard {shard}: {error}") from error
        return found is not None

    def others(self) -> list[str]:
        return self._peers.names() if self._peers is not None else []

    def is_here(self, key: MigrationKey) -> bool:
        return self._lister.has(key.cluster, LOGICAL_CLUSTERS, "cluster")

    def keys(self) -> Iterator[MigrationKey]:
        """All that are known here."""
        for key in self._lister.keys(LOGICAL_CLUSTER_MIGRATIONS):
            yield MigrationKey(key.cluster, key.name)
        replica = self._lookup.replica
        for found in replica.all(LOGICAL_CLUSTER_MIGRATIONS) if replica is not None else ():
            yield MigrationKey(meta.cluster(found), meta.name(found))

    async def get(self, key: MigrationKey) -> Object | None:
        """As its own shard has it, not as it was published."""
        with_name = (key.cluster, LOGICAL_CLUSTER_MIGRATIONS, key.name)
        client = self._holder(key)
        if client is None:
            return None
        try:
            return await client.get(*with_name)
        except NotFound:
            return None
        except ServiceUnavailable as error:
            raise Requeue(f"{key.mark}: {error}") from error

    async def write_status(self, key: MigrationKey, change: Callable[[Object], None]) -> None:
        await self._change(key, change, "status")

    async def add_finalizer(self, key: MigrationKey) -> None:
        def change(live: Object) -> None:
            if FINALIZER not in meta.finalizers(live) and not meta.is_deleting(live):
                live["metadata"]["finalizers"] = [*meta.finalizers(live), FINALIZER]

        await self._change(key, change)

    async def remove_finalizer(self, key: MigrationKey) -> None:
        def change(live: Object) -> None:
            kept = [name for name in meta.finalizers(live) if name != FINALIZER]
            live["metadata"]["finalizers"] = kept

        await self._change(key, change)

    async def _change(
        self, key: MigrationKey, change: Callable[[Object], None], subresource: str = ""
    ) -> None:
        client = self._holder(key)
        if client is None:
            return
        try:
            await client.change(
                key.cluster, LOGICAL_CLUSTER_MIGRATIONS, key.name, change, subresource=subresource
            )
        except NotFound:
            return
        except ServiceUnavailable as error:
            raise Requeue(f"{key.mark}: {error}") from error

    def _holder(self, key: MigrationKey) -> Client | None:
        """A client of the shard that has it; None if it is nowhere."""
        if self.is_here(key):
            return self._client
        shard = self._shard_of(key)
        return self._peers.client(shard) if self._peers is not None and shard else None

    def _shard_of(self, key: MigrationKey) -> str:
        if self.is_here(key):
            return self._peers.own if self._peers is not None else ""
        replica = self._lookup.replica
        found = None
        if replica is not None:
            found = replica.get(LOGICAL_CLUSTER_MIGRATIONS, key.cluster, key.name)
        published = meta.annotation(found, SHARD_ANNOTATION) if found is not None else ""
        return published or self._told.get(key) or ""
