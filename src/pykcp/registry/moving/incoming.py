"""The destination's part of a move: what arrives is stored out of sight, then adopted at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pykcp.aio.slices import Slices
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.registry import codec
from pykcp.registry.errors import translate
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.outgoing import MIGRATING
from pykcp.registry.moving.records import (
    Arrival,
    CopyProgress,
    TravellingRow,
    incoming,
)
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Store
from pykcp.storage.moving import IncomingRow
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.types import Object

_read_progress = msgspec.json.Decoder(CopyProgress).decode


class IncomingMoves:
    def __init__(self, store: Store, moves: ClusterMoves, hub: WatchHub, room: ClusterRoom) -> None:
        self._store, self._moves, self._hub, self._room = store, moves, hub, room
        self._announced: set[str] = set()
        """Those that arrive and that listeners of this process know; they count what is new."""

    def arrival(self, cluster: str) -> Arrival | None:
        return self._moves.arriving.get(cluster)

    def exists(self, cluster: str) -> bool:
        """Whether a logical cluster is stored here, adopted or not at all moved."""
        return self._store.get(_cluster_key(cluster)) is not None

    def is_leaving(self, cluster: str) -> bool:
        """Whether it is on another shard now, and something of it is still here."""
        departure = self._moves.departed.get(cluster)
        return departure is not None and not departure.is_cleaned

    def progress(self, cluster: str) -> CopyProgress | None:
        """How far it is; None if nothing of it is staged."""
        note = self._store.staged(cluster)
        return _read_progress(note) if note else None

    async def begin(self, cluster: str, shard: str, migration: str) -> None:
        """Record that a cluster arrives; what another migration left behind is dropped.

        Raises TooManyRequests if the shard has no room for it.
        """
        arrival = Arrival(cluster, shard, migration)
        found = self._moves.arriving.get(cluster)
        if found is not None and found._replace(is_due=False) == arrival:
            return
        await self._store.discard(cluster)
        record = PutKey(arrival.key, arrival.encoded())
        await self._write((record,), room_for=cluster if found is None else "")

    async def prepare(self, cluster: str) -> None:
        """Number revisions ahead of what has come so far, so that `adopt` need not wait for it."""
        progress = self.progress(cluster)
        if progress is not None:
            await self._advance(progress.revision)

    async def _advance(self, revision: int) -> None:
        try:
            await self._store.advance(revision)
        except StoreError as error:
            raise translate(error) from error

    async def expect(self, cluster: str, *, is_due: bool) -> None:
        """Record whether the origin may have given a cluster away: then requests wait for it here."""
        arrival = self._moves.arriving.get(cluster)
        if arrival is not None and arrival.is_due != is_due:
            arrival = arrival._replace(is_due=is_due)
            await self._write((PutKey(arrival.key, arrival.encoded()),))

    async def stage(
        self, cluster: str, rows: Sequence[TravellingRow], progress: CopyProgress
    ) -> None:
        slices, staged = Slices(cluster), list[IncomingRow]()
        for row in rows:
            staged.append(incoming(row))
            if slices.is_over():
                await slices.next()
        note = msgspec.json.encode(progress).decode()
        try:
            await self._store.stage(cluster, staged, note)
        except StoreError as error:
            raise translate(error) from error

    async def restart(self, cluster: str) -> None:
        """Copy it anew: the origin cannot go on from where it was."""
        await self._store.discard(cluster)

    async def adopt(self, cluster: str) -> None:
        """Make the cluster one of this shard's. Repeatable; it is served after `arrive`."""
        progress = self.progress(cluster)
        if progress is not None:
            await self._advance(progress.revision)
            try:
                await self._store.adopt(cluster, progress.base)
            except StoreError as error:
                raise translate(error) from error
            # Watches over all clusters list again: what arrived is older than what they have seen.
            self._hub.end_cluster("")

    async def announce(self, cluster: str) -> None:
        """Tell listeners of this process about an adopted cluster. Repeatable."""
        if cluster not in self._announced:
            await self._store.announce(cluster)
            self._announced.add(cluster)

    async def arrive(self, cluster: str) -> None:
        """Serve it: the last write of a move at the destination."""
        key = _cluster_key(cluster)
        entry, arrival = self._store.get(key), self._moves.arriving.get(cluster)
        if entry is None or arrival is None:
            return
        obj: Object = codec.decode(entry.value)
        annotations = obj["metadata"].get("annotations") or {}
        annotations.pop(MIGRATING, None)
        row = TravellingRow(key, 0, entry.terms, "")
        written = incoming(row._replace(value=codec.fill(codec.encode(obj, cluster), 0).decode()))
        assert isinstance(written.operation, PutKey)
        operations: list[Operation] = [
            written.operation._replace(expect=entry.revision),
            DeleteKey(arrival.key, arrival.encoded()),
        ]
        former = self._moves.departed.get(cluster)
        if former is not None:  # it was here before, and comes back
            operations.append(DeleteKey(former.key, former.encoded()))
            self._store.release(cluster)
        await self._write(operations)
        self._announced.discard(cluster)

    async def tidy(self, cluster: str) -> None:
        """Remove what a move that is done has left."""
        await self._store.tidy(cluster)

    async def abandon(self, cluster: str) -> None:
        """Drop what has arrived of a cluster that stays where it is. Repeatable."""
        arrival = self._moves.arriving.get(cluster)
        await self._store.discard(cluster)
        if arrival is not None:
            await self._write((DeleteKey(arrival.key, arrival.encoded()),))

    async def _write(self, operations: Sequence[Operation], room_for: str = "") -> None:
        try:
            if room_for:
                await self._room.write(self._store, (room_for,), operations)
            else:
                await self._store.write(operations)
        except RevisionMismatch:
            raise
        except StoreError as error:
            raise translate(error) from error


def _cluster_key(cluster: str) -> str:
    return object_key(kind_prefix(LOGICAL_CLUSTERS), cluster, "", "cluster")
