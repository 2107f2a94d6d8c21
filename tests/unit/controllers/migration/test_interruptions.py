"""A move that is interrupted at any of its steps: nothing acknowledged is lost, and nothing doubled.

Origin and destination are real stores and the real parts of a shard, in one process. Before and
after each request between them, and before and after each write of the destination, one of them
"dies": it is made anew from its file.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import pytest

from pykcp.aio.owner import spawn
from pykcp.clients.peers import Peers
from pykcp.controllers.migration.destination import MigrationDestination
from pykcp.controllers.migration.needed_definitions import NeededDefinitions
from pykcp.controllers.migration.objects import MigrationKey
from pykcp.registry import codec
from pykcp.registry.moving.incoming import IncomingMoves
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.moving.outgoing import OutgoingMoves
from pykcp.registry.moving.parts import MigrationNews
from pykcp.registry.moving.records import CopyProgress, TravellingRow
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.errors import MovedAway, RevisionMismatch, StoreUnavailable
from pykcp.storage.interface import Store
from pykcp.storage.operations import PutKey
from pykcp.storage.sqlite import SQLiteStore
from pykcp.types import Object
from pykcp.virtual.moving import MovingView

KEY = MigrationKey("org", "move")
CLUSTER = "moved"
CLUSTER_KEY = f"core.kcp.io/logicalclusters/{CLUSTER}//cluster"
MAPS = f"core/configmaps/{CLUSTER}/default/"
NEVER_OVER = 60.0
"""Seconds of holding writes that no copy takes, however busy the machine is."""
T = TypeVar("T")
Incoming = TypeVar("Incoming", bound=IncomingMoves)


class Crash(Exception):
    """One of the shards died."""


class Points:
    """Every place at which a shard can die."""

    def __init__(self, crash_at: int) -> None:
        self.names: list[str] = []
        self._crash_at = crash_at
        self.look: Callable[[], None] = lambda: None

    def pass_by(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._crash_at:
            raise Crash(name)

    async def around(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self.pass_by(f"before {name}")
        result = await work()
        self.look()
        self.pass_by(f"after {name}")
        return result


def put(key: str, name: str, **annotations: str) -> PutKey:
    obj: Object = {"metadata": {"name": name, "annotations": annotations}}
    return PutKey(key, codec.encode(obj, CLUSTER), expect=0)


class ShardInTest:
    def __init__(self, path: pathlib.Path, slot: int, hold_seconds: float) -> None:
        self._path, self._slot, self._hold_seconds = path, slot, hold_seconds
        self.store: Store
        self.moves: ClusterMoves
        self._hub: WatchHub

    async def start(self) -> None:
        self.store = SQLiteStore(self._path)
        await self.store.start()
        await self.store.use_slot(self._slot)
        self._hub = WatchHub(self.store)
        self.moves = ClusterMoves(self.store, self._hub)
        outgoing = OutgoingMoves(
            self.store, self.moves, lambda: "now", hold_seconds=self._hold_seconds
        )
        self.view = MovingView(outgoing, MigrationNews())
        self.outgoing = outgoing
        self.incoming = self.incoming_with(IncomingMoves)

    def incoming_with(self, kind: type[Incoming]) -> Incoming:
        room = ClusterRoom(self.store, self.moves, "shard", lambda _: None)
        return kind(self.store, self.moves, self._hub, room)

    async def stop(self) -> None:
        self._hub.close()
        await self.store.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def serves(self) -> bool:
        if self.moves.is_arriving(CLUSTER) or self.moves.shard_of(CLUSTER):
            return False
        return self.store.get(CLUSTER_KEY) is not None


class PointedIncoming(IncomingMoves):
    points: Points

    async def begin(self, cluster: str, shard: str, migration: str) -> None:
        await self.points.around("begin", lambda: super(PointedIncoming, self).begin(cluster, shard, migration))  # fmt: skip

    async def stage(
        self, cluster: str, rows: Sequence[TravellingRow], progress: CopyProgress
    ) -> None:
        await self.points.around("stage", lambda: super(PointedIncoming, self).stage(cluster, rows, progress))  # fmt: skip

    async def expect(self, cluster: str, *, is_due: bool) -> None:
        await self.points.around("expect", lambda: super(PointedIncoming, self).expect(cluster, is_due=is_due))  # fmt: skip

    async def adopt(self, cluster: str) -> None:
        await self.points.around("adopt", lambda: super(PointedIncoming, self).adopt(cluster))

    async def announce(self, cluster: str) -> None:
        await self.points.around("announce", lambda: super(PointedIncoming, self).announce(cluster))

    async def tidy(self, cluster: str) -> None:
        await self.points.around("tidy", lambda: super(PointedIncoming, self).tidy(cluster))

    async def arrive(self, cluster: str) -> None:
        await self.points.around("arrive", lambda: super(PointedIncoming, self).arrive(cluster))


class FleetInTest:
    def __init__(self, directory: pathlib.Path, points: Points, hold_seconds: float) -> None:
        self.origin = ShardInTest(directory / "origin", 1, hold_seconds)
        self.destination = ShardInTest(directory / "destination", 2, hold_seconds)
        self.points = points
        points.look = self._check_directions
        self.acknowledged: dict[str, int] = {}
        self._is_writing = True
        self.reported = 0
        self._wrote = asyncio.Event()

    def _check_directions(self) -> None:
        """Requests are not sent to and fro between the shards."""
        if self.origin.moves.shard_of(CLUSTER):
            assert not self.destination.moves.origin_of(CLUSTER)

    # What `Peers` is for the destination.
    def client(self, name: str) -> FleetInTest:
        return self

    async def send(self, method: str, path: str, body: Object) -> Object:
        action = path.removeprefix("/services/moving")
        return await self.points.around(
            f"request {action}", lambda: self.origin.view.answer(action, body)
        )

    async def ensure(self, origin: str, cluster: str) -> None:
        """What `NeededDefinitions` does."""

    async def take(self) -> None:
        shard = self.destination
        incoming = shard.incoming_with(PointedIncoming)
        incoming.points = self.points
        destination = MigrationDestination(
            incoming, cast("NeededDefinitions", self), cast("Peers", self), "destination"
        )
        await destination.take(KEY, CLUSTER, "origin", self._report)

    async def _report(self, entries: int) -> None:
        self.reported = max(self.reported, entries)

    async def write(self) -> None:
        """Write to whichever shard has the cluster, until told to stop."""
        number = 0
        while self._is_writing:
            name = f"w{number}"
            shard = self.origin if self.origin.serves() else self.destination
            if not shard.serves():
                await asyncio.sleep(0.001)
                continue
            try:
                (revision,) = await shard.store.write((put(MAPS + name, name),))
            except (MovedAway, StoreUnavailable):
                await asyncio.sleep(0.001)
                continue
            except RevisionMismatch:
                revision = 0  # it was written, and the answer was lost
            self.acknowledged[name] = revision
            self._wrote.set()
            number += 1
            await asyncio.sleep(0)

    async def written(self, count: int) -> None:
        """Return when so many writes were acknowledged."""
        while len(self.acknowledged) < count:
            self._wrote.clear()
            await self._wrote.wait()

    def stop_writing(self) -> None:
        self._is_writing = False


async def run(
    directory: pathlib.Path, crash_at: int = 0, dies: str = "", hold_seconds: float = 0.1
) -> Points:
    fleet = FleetInTest(directory, Points(crash_at), hold_seconds)
    await fleet.origin.start()
    await fleet.destination.start()
    marked = put(CLUSTER_KEY, "cluster", **{"internal.kcp.io/migrating": KEY.mark})
    await fleet.origin.store.write((marked,))
    writer = spawn(fleet.write(), "writer")
    await fleet.written(20)
    try:
        await fleet.take()
    except Crash:
        await getattr(fleet, dies).restart()
        assert not (fleet.origin.serves() and fleet.destination.serves())
        fleet.points.look()
        await fleet.take()
    await fleet.origin.outgoing.clean(CLUSTER)
    await fleet.written(len(fleet.acknowledged) + 5)
    fleet.stop_writing()
    await writer
    assert fleet.destination.serves()
    assert not fleet.origin.serves()
    assert fleet.reported > 0  # also if the destination died before it could say that it is done
    assert fleet.origin.store.keys(MAPS) == []
    store = fleet.destination.store
    assert store.keys(MAPS) == sorted(MAPS + name for name in fleet.acknowledged)
    for name, revision in fleet.acknowledged.items():
        entry = store.get(MAPS + name)
        assert entry is not None
        assert revision in (0, entry.revision)
        assert codec.revision_of(entry.value) == entry.revision
    await fleet.origin.stop()
    await fleet.destination.stop()
    return fleet.points


async def test_without_interruption(tmp_path: pathlib.Path) -> None:
    points = await run(tmp_path, hold_seconds=NEVER_OVER)
    steps = [name.removeprefix("before ") for name in points.names if name.startswith("before")]
    assert [step for step in steps if step not in ("request /changes", "stage")] == [
        "begin", "request /state", "expect", "request /copy", "expect", "request /hold",
        "request /give", "adopt", "announce", "arrive", "tidy",
    ]  # fmt: skip


@pytest.mark.parametrize("dies", ["origin", "destination"])
@pytest.mark.parametrize("crash_at", range(1, 31))
async def test_a_shard_dies(tmp_path: pathlib.Path, crash_at: int, dies: str) -> None:
    points = await run(tmp_path, crash_at, dies)
    assert len(points.names) > crash_at or crash_at > 26


async def test_there_are_no_more_points(tmp_path: pathlib.Path) -> None:
    points = await run(tmp_path, hold_seconds=NEVER_OVER)
    assert len(points.names) <= 30
