"""Where a logical cluster has gone is remembered for a day."""

from __future__ import annotations

from typing import Any, cast

from pykcp.controllers.migration.objects import MigrationKey
from pykcp.controllers.migration.origin import MigrationOrigin
from pykcp.registry.clock import Timestamps
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.outgoing import OutgoingMoves
from pykcp.registry.moving.records import Departure
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import PutKey

DAY = 24 * 3600
GONE_AT = 1_700_000_000


async def test_departures_are_forgotten_after_a_day() -> None:
    store = MemoryStore()
    moves = ClusterMoves(store, WatchHub(store))
    outgoing = OutgoingMoves(store, moves, lambda: "")
    stamp = Timestamps(lambda: GONE_AT)()
    for cluster, migration, is_cleaned in (
        ("moved", "org:move", True),
        ("unfinished", "org:move", False),
        ("other", "org:other", True),
    ):
        gone = Departure(cluster, "shard-1", 7, migration, stamp, is_cleaned)
        await store.write((PutKey(gone.key, gone.encoded()),))
    clock = [GONE_AT + 10.0]
    unused = cast("Any", None)
    origin = MigrationOrigin(unused, unused, outgoing, "root", unused, lambda: clock[0])
    key = MigrationKey("org", "move")
    assert await origin.forget_departures(key) == DAY - 10
    assert len(moves.departed) == 3
    clock[0] += DAY
    assert await origin.forget_departures(key) is None
    assert set(moves.departed) == {"unfinished", "other"}
