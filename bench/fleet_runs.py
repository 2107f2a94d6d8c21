"""Longer runs of a fleet: what holds while shards are away, clusters move, and workspaces are many.

    bench/run fleet_runs --only merged,stale,move,drain,away,many [--seconds 600] [--count 20000]

- merged: how much later an event comes on the watch over all shards than on that of one shard
- stale: reads through two proxies while logical clusters move to and fro; each answer is checked
- move: a logical cluster with 10,000 objects moves while it is written to and watched
- drain: a shard with 100 workspaces is emptied by a plan while clients write
- away: the root shard is stopped for `--seconds`; everything that is not in `root` is used
- many: `--count` idle workspaces, and the memory of the proxy and the shards
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from fleet import FleetWriter, ReadyWorkspaces, gathered, label_shards, milliseconds, on, say
from target import processes_memory

from pykcp.aio.owner import spawn
from pykcp.client import Kcp, StatusError, Workspace, connect
from pykcp.testing.client import TestClient
from pykcp.testing.moving.migrations import GATE, bind_migrations, migrate, phase
from pykcp.testing.server import environment
from pykcp.testing.sharded import Fleet, FleetProcess, free_ports

_MAPS = "/api/v1/namespaces/default/configmaps"
_WRITERS = 8


def second_proxy(fleet: Fleet) -> FleetProcess:
    """Another front-proxy with the same settings, at a port of its own."""
    first, (port,) = fleet["front-proxy"].member, free_ports(1)
    kept = [w for w in first.words if not w.startswith(("--secure-port=", "--root-directory="))]
    folder = fleet.files.directory / "front-proxy-2"
    words = (*kept, f"--secure-port={port}", f"--root-directory={folder}")
    member = first._replace(name="front-proxy-2", words=words, port=port)
    return FleetProcess(member, fleet.files)


# --- merged


def note_events(client: TestClient, version: str, seen: dict[str, float], count: int) -> None:
    for event in client.watch("", resourceVersion=version, labelSelector="bench=merged"):
        seen.setdefault(event["object"]["metadata"]["name"], time.perf_counter())
        if len(seen) >= count:
            return


def merged(fleet: Fleet, count: int = 600) -> None:
    """Each event on the watch of its shard, and on that of all shards."""
    root = fleet.client(cluster="root")
    writers = [root.in_cluster(f"root:merged-{shard}") for shard in fleet.shards]
    everything = fleet.client(user="shard-admin")
    everything.prefix = "/services/merged/clusters/*/api/v1/configmaps"
    each = count // len(writers)
    single: dict[str, float] = {}
    together: dict[str, float] = {}
    page = everything.get("", limit=1)
    assert page.status == 200, page
    version = page.json["metadata"]["resourceVersion"]
    tasks = [
        threading.Thread(
            target=note_events, args=(everything, version, together, each * len(writers))
        )
    ]
    for name in fleet.shards:
        direct = fleet.client(name)
        direct.prefix = "/clusters/*/api/v1/configmaps"
        start = direct.get("", limit=1).json["metadata"]["resourceVersion"]
        own: dict[str, float] = {}
        tasks.append(
            threading.Thread(
                target=lambda c=direct, v=start, s=own: (
                    note_events(c, v, s, each),
                    single.update(s),
                )
            )
        )
    for task in tasks:
        task.start()
    time.sleep(0.5)
    for number in range(each):
        for shard, client in zip(fleet.shards, writers, strict=True):
            body = {"metadata": {"name": f"{shard}-{number}", "labels": {"bench": "merged"}}}
            assert client.post(_MAPS, body).status == 201
    for task in tasks:
        task.join(60)
    added = [together[name] - seen for name, seen in single.items()]
    say("merged watch", f"{len(added)} events, later than on their shards: {milliseconds(added)}")


# --- stale reads


async def stale(kcp: Kcp, fleet: Fleet, reads: int, clusters: int = 8) -> None:
    """Each read must answer with the object of the very cluster that was asked for."""
    root = kcp.workspace("root")
    names: dict[str, str] = {}
    for number in range(clusters):
        child = await root.create(f"stale{number}", location=on(fleet.shards[0]))
        await child.objects("configmaps").create(
            {"metadata": {"name": "mark"}, "data": {"in": f"stale{number}"}}
        )
        names[f"stale{number}"] = await child.cluster()
    other = second_proxy(fleet)
    other.start()
    config = json.loads(fleet.files.admin_kubeconfig.read_text())
    text = json.dumps(config).replace(
        f":{fleet['front-proxy'].member.port}", f":{other.member.port}"
    )
    path = fleet.files.directory / "admin-2.kubeconfig"
    path.write_text(text)
    bind_migrations(fleet)
    wrong: list[str] = []
    slow: list[float] = []
    failures: Counter[str] = Counter()
    done = asyncio.Event()
    try:
        async with connect(path, context="root") as second:
            moving = spawn(asyncio.to_thread(_move_about, fleet, names, done), "moves")

            places = [
                (name, client.workspace(place).objects("configmaps.v1", "default"))
                for name, cluster in names.items()
                for client in (kcp, second)
                for place in (cluster, f"root:{name}")
            ]

            async def read(number: int) -> float:
                name, objects = places[number % len(places)]
                began = time.perf_counter()
                try:
                    found = await objects.get("mark")
                except StatusError as error:
                    failures[f"{error.code} {error.message[:150]}"] += 1
                    return 0.0
                if found["data"]["in"] != name:
                    wrong.append(f"{name}: {found}")
                return time.perf_counter() - began

            began = time.perf_counter()
            slow = await gathered(reads, read)
            seconds = time.perf_counter() - began
            done.set()
            moves = await moving
    finally:
        other.stop()
    say(
        "stale reads",
        f"{reads} reads through two proxies in {seconds:.0f} s, {moves} moves; wrong {len(wrong)}, "
        f"failed {dict(failures) or 0}; {milliseconds(slow)}, longest {max(slow) * 1e3:.0f} ms",
    )


def _move_about(fleet: Fleet, names: dict[str, str], done: asyncio.Event) -> int:
    """Move one after the other to and fro; the number of completed moves."""
    moves, here, there = 0, fleet.shards[1], fleet.shards[0]
    while not done.is_set():
        for cluster in names.values():
            name = f"stale-{moves}"
            migrate(fleet, name, cluster, here)
            while phase(fleet, name) != "Completed" and not done.is_set():
                time.sleep(0.05)
            moves += 1
            if done.is_set():
                return moves
        here, there = there, here
    return moves


# --- a large move


async def move(kcp: Kcp, fleet: Fleet, rate: float, objects: int = 10_000) -> None:
    """A logical cluster with many objects moves while it is written to and watched."""
    child = await kcp.workspace("root").create("large", location=on(fleet.shards[0]))
    cluster, maps, text = await child.cluster(), child.objects("configmaps"), "x" * 1000

    async def fill(number: int) -> float:
        await maps.create({"metadata": {"name": f"o{number}"}, "data": {"text": text}})
        return 0.0

    await gathered(objects, fill)
    await asyncio.to_thread(bind_migrations, fleet)
    _, version = await maps.list_with_version(labels="bench=none")
    seen: set[str] = set()

    async def follow() -> None:
        async for event in maps.watch(since=version):
            seen.add(event.object["metadata"]["name"])

    watching = spawn(follow(), "watch")
    stop = asyncio.Event()
    writers = [FleetWriter("", child, f"w{number}-", _WRITERS / rate) for number in range(_WRITERS)]
    tasks = [spawn(writer.run(stop), "writer") for writer in writers]
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    await asyncio.to_thread(migrate, fleet, "large", cluster, fleet.shards[1])
    while (found := await asyncio.to_thread(phase, fleet, "large")) != "Completed":
        assert found != "Failed"
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - began
    await asyncio.sleep(0.5)
    stop.set()
    await asyncio.gather(*tasks)
    lost = [item for writer in writers for item in await writer.lost()]
    written = {name for writer in writers for name in writer.written}
    times = sorted(one for writer in writers for one in writer.times)
    failures: Counter[str] = sum((writer.failures for writer in writers), Counter())
    await asyncio.sleep(1.0)
    say(
        "large move",
        f"{objects} objects in {seconds:.1f} s, {len(written) / (seconds + 1.5):.0f} writes/s; "
        f"{milliseconds(times)}, longest {times[-1] * 1e3:.0f} ms; lost or doubled {len(lost)}, "
        f"failed {dict(failures) or 0}; watch {'ended' if watching.done() else 'went on'}, "
        f"missed {len(written - seen)}",
    )
    for line in fleet[fleet.shards[1]].log().splitlines():
        if f"logical cluster {cluster} has come" in line:
            say("  of which", line.partition("entries; ")[2])
    watching.cancel()


# --- drain


async def drain(kcp: Kcp, fleet: Fleet, count: int = 100) -> None:
    origin = fleet.shards[-1]
    org = await kcp.workspace("root").create("drained", location=on(fleet.shards[0]))

    async def make(number: int) -> float:
        await org.create(f"d{number}", type="root:universal", location=on(origin))
        return 0.0

    await gathered(count, make)
    stop = asyncio.Event()
    writers = [
        FleetWriter(origin, org / f"d{number * 10}", "load-") for number in range(count // 10)
    ]
    tasks = [spawn(writer.run(stop), "writer") for writer in writers]
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pykcp.cli.plugins", "kubectl-kcp", "shard", "drain", origin, "--yes",
        env={**environment(), "KUBECONFIG": str(fleet.files.admin_kubeconfig)},
        stdout=subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    seconds = time.perf_counter() - began
    stop.set()
    await asyncio.gather(*tasks)
    lost = [item for writer in writers for item in await writer.lost()]
    failures: Counter[str] = sum((writer.failures for writer in writers), Counter())
    written = sum(len(writer.written) for writer in writers)
    slowest = max(writer.slowest for writer in writers)
    done = output.decode().count(f"{origin} -> ")
    say(
        "drain",
        f"{count} clusters in {seconds:.0f} s under {written / seconds:.0f} writes/s "
        f"({done // 2 if done > count else done} moved, exit {process.returncode}); "
        f"lost or doubled {len(lost)}, failed {dict(failures) or 0}, slowest write {slowest:.2f} s",
    )


# --- root is away


async def away(kcp: Kcp, fleet: Fleet, seconds: float) -> None:
    """Everything that is not in `root`, every second; the other shards and the proxy restart."""
    other = fleet.shards[-1]
    org = await kcp.workspace("root").create("elsewhere", location=on(other))
    name = await org.cluster()
    team = kcp.workspace(name)
    await team.create("first", type="root:universal", location=on(other))
    fleet["root"].kill()
    began = time.monotonic()
    tasks: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    round_ = 0

    async def attempt(what: str, work: Callable[[], Awaitable[Any]]) -> None:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(20):
                await work()
        except (StatusError, TimeoutError) as error:
            failures[f"{what}: {str(error)[:120]}"] += 1
        else:
            tasks[what] += 1
            slowest[what] = max(slowest.get(what, 0.0), time.perf_counter() - started)

    while time.monotonic() - began < seconds:
        await _round(team, round_, attempt)
        if round_ % 60 == 30:
            for part in ("front-proxy", other):
                fleet[part].kill()
                await attempt(
                    f"restart of {part}", lambda p=part: asyncio.to_thread(fleet[p].start)
                )
        round_ += 1
        await asyncio.sleep(1.0)
    gone = time.monotonic() - began
    fleet["root"].start()
    back = time.perf_counter()
    await attempt(
        "root back", lambda: kcp.workspace("root").objects("shards.v1alpha1.core.kcp.io").list()
    )
    say("root away", f"{gone:.0f} s, {round_} rounds; failed {dict(failures) or 0}")
    for what, number in tasks.items():
        say(f"  {what}", f"{number} times, longest {slowest[what] * 1e3:.0f} ms")
    say("  root back", f"answers {time.perf_counter() - back:.1f} s after it is ready")


async def _round(
    team: Workspace,
    number: int,
    attempt: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[None]],
) -> None:
    """What tenants do, in a workspace and below it."""
    maps = team.objects("configmaps")
    name = f"away{number}"
    child = team / name
    body = {"metadata": {"name": name}, "data": {"n": str(number)}}
    await attempt("write", lambda: maps.create(body))
    await attempt("read", lambda: maps.get(name))
    await attempt("list", lambda: maps.list())
    await attempt("namespaces of a child", lambda: (team / "first").objects("namespaces").list())
    if number % 5 == 0:
        await attempt("new workspace", lambda: team.create(name, type="root:universal"))
        await attempt("its content", lambda: child.objects("configmaps").create(dict(body)))
        await attempt("deletion of it", lambda: child.delete(wait=True))
    await attempt("deletion", lambda: maps.delete(name))


# --- many workspaces


async def many(kcp: Kcp, fleet: Fleet, count: int) -> None:
    """Memory and disk of idle workspaces."""
    org = await kcp.workspace("root").create("many")
    ready = ReadyWorkspaces(org)
    following = spawn(ready.run(await ready.version()), "ready workspaces")
    await asyncio.sleep(2.0)
    before = {name: processes_memory([p.pid]) for name, p in fleet.processes.items()}

    async def make(number: int) -> float:
        began = time.perf_counter()
        expected = ready.expect(f"w{number}")
        await org.create(f"w{number}", type="root:universal", wait=False)
        await expected
        return time.perf_counter() - began

    began = time.perf_counter()
    times = await gathered(count, make)
    rate = count / (time.perf_counter() - began)
    following.cancel()
    await asyncio.sleep(5.0)
    say("many workspaces", f"{count} at {rate:.0f}/s, {milliseconds(times)}")
    for name, process in fleet.processes.items():
        memory = processes_memory([process.pid])
        grown = (memory - before[name]) * 1024 / count
        files = sum(p.stat().st_size for p in process.root.rglob("*") if p.is_file())
        say(
            f"  {name}",
            f"{memory:.0f} MiB ({grown:+.2f} KiB each), {files / count / 1024:.1f} KiB on disk each",
        )
    for name in fleet.shards:
        fleet[name].stop()
        began = time.perf_counter()
        fleet[name].start()
        took = time.perf_counter() - began
        say(f"  {name} restarted", f"{took:.1f} s, {processes_memory([fleet[name].pid]):.0f} MiB")
    reads = await gathered(
        min(count, 2000), lambda n: _read(org / f"w{n * (count // min(count, 2000))}")
    )
    say(
        "  first read of each",
        f"{milliseconds(reads)}; proxy {processes_memory([fleet['front-proxy'].pid]):.0f} MiB",
    )


async def _read(workspace: Workspace) -> float:
    began = time.perf_counter()
    await workspace.objects("namespaces").get("default")
    return time.perf_counter() - began


async def run(
    fleet: Fleet, parts: list[str], seconds: float, count: int, reads: int, rate: float
) -> None:
    async with connect(fleet.files.admin_kubeconfig, context="root", manager="bench") as kcp:
        await label_shards(kcp, fleet)
        if "merged" in parts:
            for shard in fleet.shards:
                await kcp.workspace("root").create(f"merged-{shard}", location=on(shard))
            await asyncio.to_thread(merged, fleet)
        if "stale" in parts:
            await stale(kcp, fleet, reads)
        if "move" in parts:
            await move(kcp, fleet, rate)
        if "drain" in parts:
            await drain(kcp, fleet)
        if "many" in parts:
            await many(kcp, fleet, count)
        if "away" in parts:
            await away(kcp, fleet, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0, help="for which root is away")
    parser.add_argument("--reads", type=int, default=100_000, help="while clusters move")
    parser.add_argument("--rate", type=float, default=200, help="writes per second to what moves")
    parser.add_argument("--count", type=int, default=20_000, help="idle workspaces")
    parser.add_argument("--only", default="merged,stale,move,drain", help="parts to run, by commas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykcp-fleet-") as folder:
        # Masters pass the proxy, so that one watch can see all logical clusters.
        flags = ["--authentication-drop-groups=none"]
        fleet = Fleet(pathlib.Path(folder), arguments.shards, [GATE], flags)
        try:
            fleet.start()
            uvloop.run(
                run(
                    fleet,
                    arguments.only.split(","),
                    arguments.seconds,
                    arguments.count,
                    arguments.reads,
                    arguments.rate,
                )
            )
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                fleet.stop()


if __name__ == "__main__":
    main()
