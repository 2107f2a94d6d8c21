"""Programs of a fleet are killed in the middle of moves: what was acknowledged, and what watches saw.

    bench/run fleet_kills [--rounds 20] [--objects 1000] [--seed 1]

A logical cluster moves to and fro between two shards, under 200 writes per second and with watches.
Each of origin, destination, cache server and front-proxy is killed at three moments of a move: when
it was asked for, when the copy has begun, and when the origin has given the logical cluster away.
A round has these twelve kills. All moves have to complete; every acknowledged write has to be
there, once, with its resource version; and the watches have to see each of them once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter

import uvloop
from fleet import FleetWriter, gathered, label_shards, on, say

from pykcp.aio.owner import spawn
from pykcp.client import Expired, Kcp, Workspace, connect
from pykcp.testing.client import eventually
from pykcp.testing.moving.migrations import (
    GATE,
    MIGRATIONS,
    bind_migrations,
    holder,
    migrate,
)
from pykcp.testing.sharded import Fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER

_MOMENTS = ("asked", "copying", "given")
_VICTIMS = ("origin", "destination", "cache", "front-proxy")
_WRITERS, _PAUSE = 8, 0.04
_WATCHES = 8
_LONGEST = 120.0
"""Seconds that a move may take, the restart of a program included."""


class EventLog:
    """What one watch of a workspace has shown."""

    def __init__(self, workspace: Workspace) -> None:
        self._maps = workspace.objects("configmaps")
        self.seen: Counter[str] = Counter()
        self.expired = 0
        self._changed = asyncio.Event()

    async def run(self, since: str) -> None:
        while True:
            try:
                async for event in self._maps.watch(since=since):
                    if event.type == "ADDED":
                        self.seen[event.object["metadata"]["name"]] += 1
                        self._changed.set()
            except Expired:
                self.expired += 1
                since = (await self._maps.list_with_version())[1]
                self._changed.set()

    async def missed(self, written: set[str]) -> set[str]:
        """What of it has not been seen, nor comes within half a minute; nothing is expected of a
        watch that had to list again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                while not self.expired and written - self.seen.keys():
                    self._changed.clear()
                    await self._changed.wait()
        return set() if self.expired else written - self.seen.keys()


def phase_of(fleet: Fleet, name: str) -> str:
    """As far as it can be asked for: programs are away at times."""
    try:
        answer = fleet.client(cluster="root").get(f"{MIGRATIONS}/{name}")
    except OSError:
        return ""
    return (answer.json.get("status") or {}).get("phase", "") if answer.status == 200 else ""


def is_reached(fleet: Fleet, moment: str, name: str, cluster: str, origin: str) -> bool:
    if moment == "asked":
        return True
    found = phase_of(fleet, name)
    if moment == "copying":
        return found in ("Migrating", "Completed")
    return fleet.client(origin, cluster).get(LOGICAL_CLUSTER).status != 200


def kill_during_move(
    fleet: Fleet, cluster: str, name: str, moment: str, victim: str, later: float
) -> float:
    """Seconds from the request for the move to its end."""
    origin = holder(fleet, cluster)
    (destination,) = {*fleet.shards} - {origin}
    killed = fleet[{"origin": origin, "destination": destination}.get(victim, victim)]
    began = time.perf_counter()
    migrate(fleet, name, cluster, destination)
    while not is_reached(fleet, moment, name, cluster, origin):
        time.sleep(0.002)
    time.sleep(later)
    killed.kill()
    killed.start()
    eventually(lambda: phase_of(fleet, name) == "Completed", _LONGEST)
    took = time.perf_counter() - began
    assert holder(fleet, cluster) == destination
    return took


async def one_round(
    kcp: Kcp, fleet: Fleet, number: int, objects: int, chance: random.Random
) -> list[str]:
    """What is wrong after it."""
    child = await kcp.workspace("root").create(f"kills{number}", location=on(fleet.shards[0]))
    maps, cluster = child.objects("configmaps"), await child.cluster()

    async def fill(n: int) -> float:
        await maps.create({"metadata": {"name": f"o{n}"}, "data": {"text": "x" * 1000}})
        return 0.0

    await gathered(objects, fill)
    _, version = await maps.list_with_version()
    logs = [EventLog(child) for _ in range(_WATCHES)]
    watches = [spawn(log.run(version), "watch") for log in logs]
    stop = asyncio.Event()
    writers = [FleetWriter("", child, f"w{n}-", _PAUSE) for n in range(_WRITERS)]
    tasks = [spawn(writer.run(stop), "writer") for writer in writers]
    points = [(moment, victim) for moment in _MOMENTS for victim in _VICTIMS]
    chance.shuffle(points)
    times: dict[str, float] = {}
    relisted = ""
    for step, (moment, victim) in enumerate(points):
        name, later = f"kills-{number}-{step}", chance.random() * 0.05
        took = await asyncio.to_thread(
            kill_during_move, fleet, cluster, name, moment, victim, later
        )
        times[f"{victim} killed, {moment}"] = took
        print(f"  {victim} killed, {moment}: {took:.1f} s", flush=True)
        if any(log.expired for log in logs) and not relisted:
            relisted = f" (first: {victim} killed, {moment})"
    stop.set()
    await asyncio.gather(*tasks)
    problems = await compare(child, writers, logs)
    for task in watches:
        task.cancel()
    slowest = max(times, key=lambda point: times[point])
    written = sum(len(writer.written) for writer in writers)
    failed: Counter[str] = sum((writer.failures for writer in writers), Counter())
    say(
        f"round {number}",
        f"{len(times)} moves, median {statistics.median(times.values()):.1f} s, "
        f"longest {times[slowest]:.1f} s ({slowest}); "
        f"{written} writes, not answered {dict(failed) or 0}; watches that had to list again "
        f"{sum(log.expired for log in logs)}{relisted}; wrong {problems or 0}",
    )
    await child.delete(wait=True)
    return problems


async def compare(child: Workspace, writers: list[FleetWriter], logs: list[EventLog]) -> list[str]:
    """What was written, what is there, and what the watches have seen."""
    problems = [f"lost or doubled: {item}" for one in writers for item in await one.lost()]
    written = {name for writer in writers for name in writer.written}
    for number, log in enumerate(logs):
        missed = await log.missed(written)
        if missed:
            problems.append(f"watch {number} missed {len(missed)}: {sorted(missed)[:3]}")
        twice = [name for name, times in log.seen.items() if times > 1]
        if twice:
            problems.append(f"watch {number} saw {len(twice)} twice: {twice[:3]}")
    return problems


async def run(fleet: Fleet, rounds: int, objects: int, seed: int) -> int:
    chance = random.Random(seed)
    wrong = 0
    async with connect(fleet.files.admin_kubeconfig, context="root", manager="bench") as kcp:
        await label_shards(kcp, fleet)
        await asyncio.to_thread(bind_migrations, fleet)
        for number in range(1, rounds + 1):
            wrong += bool(await one_round(kcp, fleet, number, objects, chance))
    say("kills", f"{rounds} rounds of {len(_MOMENTS) * len(_VICTIMS)}, wrong {wrong}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--objects", type=int, default=1000, help="that are there before")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykcp-kills-") as folder:
        fleet = Fleet(pathlib.Path(folder), 2, [GATE])
        try:
            fleet.start()
            wrong = uvloop.run(run(fleet, options.rounds, options.objects, options.seed))
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                fleet.stop()
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
