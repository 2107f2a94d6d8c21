"""Room for logical clusters is counted once, whatever brings them."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from pykcp.machinery.status import TooManyRequests
from pykcp.registry import codec
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.records import Arrival
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.errors import RevisionMismatch
from pykcp.storage.moving import IncomingRow
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import SQLiteStore

LIMIT = 3


class Shard:
    def __init__(self, path: pathlib.Path) -> None:
        self.store = SQLiteStore(path)

    def wire(self) -> None:
        moves = ClusterMoves(self.store, WatchHub(self.store))
        self.room = ClusterRoom(self.store, moves, "root", lambda _: LIMIT)

    async def left(self) -> int:
        """How many more logical clusters there is room for."""
        for number in range(LIMIT + 1):
            try:
                async with self.room.taken([f"asked{n}" for n in range(number + 1)]):
                    pass
            except TooManyRequests:
                return number
        raise AssertionError

    async def arrive(self, name: str) -> Arrival:
        """A logical cluster is about to come from another shard."""
        arrival = Arrival(name, "other", "move")
        await self.room.write(self.store, [name], [PutKey(arrival.key, arrival.encoded())])
        await self.store.stage(name, [IncomingRow(cluster(name), 5)], "note")
        return arrival


def cluster(name: str) -> PutKey:
    value = codec.encode({"metadata": {"name": "cluster"}}, name)
    return PutKey(f"core.kcp.io/logicalclusters/{name}//cluster", value)


@pytest.fixture
async def shard(tmp_path: pathlib.Path) -> AsyncIterator[Shard]:
    made = Shard(tmp_path / "store.db")
    await made.store.start()
    made.wire()
    yield made
    await made.store.stop()


async def test_system_clusters_take_none(shard: Shard) -> None:
    await shard.store.write([cluster("system:shard")])
    assert await shard.left() == 3
    await shard.store.write([cluster("system:admin"), cluster("a")])
    assert await shard.left() == 2


async def test_what_fails_gives_its_room_back(shard: Shard) -> None:
    exists = cluster("a")._replace(expect=5)
    with pytest.raises(RevisionMismatch):
        await shard.room.write(shard.store, ["a", "b"], [exists, cluster("b")])
    assert await shard.left() == 3
    async with shard.room.taken(["a", "b"]):
        assert await shard.left() == 1
    assert await shard.left() == 3


async def test_what_is_deleted_makes_room(shard: Shard) -> None:
    await shard.room.write(shard.store, ["a"], [cluster("a")])
    assert await shard.left() == 2
    made = cluster("a")
    await shard.store.write([DeleteKey(made.key, made.value)])
    assert await shard.left() == 3


@pytest.mark.parametrize("counts_from", ["start", "arrival", "adoption", "announcement"])
async def test_what_arrives_is_counted_once(shard: Shard, counts_from: str) -> None:
    """Its row appears before anybody is told of it."""
    steps = ["start", "arrival", "adoption", "announcement", "end"]

    async def check(step: str) -> None:
        if steps.index(step) >= steps.index(counts_from):
            assert await shard.left() == (3 if step == "start" else 2), step

    await check("start")
    arrival = await shard.arrive("moved")
    await check("arrival")
    await shard.store.adopt("moved", 1)
    await check("adoption")
    await shard.store.announce("moved")
    await check("announcement")
    await shard.store.write([DeleteKey(arrival.key, arrival.encoded())])
    await check("end")


async def test_an_arrival_that_is_abandoned_makes_room(shard: Shard) -> None:
    arrival = await shard.arrive("moved")
    assert await shard.left() == 2
    await shard.store.discard("moved")
    await shard.store.write([DeleteKey(arrival.key, arrival.encoded())])
    assert await shard.left() == 3


async def test_there_is_no_room_for_an_arrival(shard: Shard) -> None:
    await shard.store.write([cluster("a"), cluster("b"), cluster("c")])
    with pytest.raises(TooManyRequests, match=r'^shard "root" has reached its limit .* \(3/3\)$'):
        await shard.arrive("moved")
