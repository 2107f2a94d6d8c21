"""The parts of a shard that take part in moves, made together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pykcp.registry.moving.incoming import IncomingMoves
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.outgoing import OutgoingMoves
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.interface import Store


class MigrationNews:
    """Migrations that other shards say have changed, and which shard has them.

    They arrive through the cache, too; this way is shorter, and open while the cache is away.
    """

    def __init__(self) -> None:
        self._callback: Callable[[str, str], None] | None = None

    def listen(self, callback: Callable[[str, str], None]) -> None:
        self._callback = callback

    def tell(self, migration: str, shard: str) -> None:
        if self._callback is not None:
            self._callback(migration, shard)


class ShardMoves(NamedTuple):
    moves: ClusterMoves
    outgoing: OutgoingMoves
    incoming: IncomingMoves
    news: MigrationNews
    use_slot: Callable[[int], Awaitable[None]]
    """Makes revisions differ from those of all other shards."""


def shard_moves(
    store: Store,
    hub: WatchHub,
    moves: ClusterMoves,
    now: Callable[[], str],
    room: ClusterRoom,
) -> ShardMoves:
    return ShardMoves(
        moves,
        OutgoingMoves(store, moves, now),
        IncomingMoves(store, moves, hub, room),
        MigrationNews(),
        store.use_slot,
    )
