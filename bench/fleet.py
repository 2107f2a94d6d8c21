"""A fleet under load and under faults: how fast workspaces are made on other shards, what survives.

    bench/run fleet [--shards 2] [--count 300] [--only start,workspaces,bindings,idle,abuse,faults]

A cache server, shards and a front-proxy are started on this machine; clients go through the proxy.
`abuse` measures the requests of one tenant through the proxy while another one sends requests that
are expensive there. `faults` kills and stops each program in turn while clients write to a workspace on every shard, and
checks that every acknowledged write is there, none twice, and that only the clusters of the program
in question failed. `lonely` starts a shard while all other programs are away.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import itertools
import json
import pathlib
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import uvloop
from target import processes_cpu, processes_memory

from pykcp.aio.owner import spawn
from pykcp.auth.certificates import ensure_client_ca, issue_client
from pykcp.client import Kcp, ServiceUnavailable, StatusError, Workspace, connect
from pykcp.testing.sharded import Fleet, FleetProcess

PARTS = ("start", "workspaces", "bindings", "idle", "abuse", "faults", "lonely")
_AT_A_TIME = 16
_SHARD = "internal.tenancy.kcp.io/shard"
_SCHEMA: dict[str, Any] = {
    "apiVersion": "apis.kcp.io/v1alpha1",
    "kind": "APIResourceSchema",
    "metadata": {"name": "v1.widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Cluster",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"type": "object"}}],
    },
}
_EXPORT: dict[str, Any] = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIExport",
    "metadata": {"name": "widgets"},
    "spec": {
        "resources": [
            {
                "group": "example.org",
                "name": "widgets",
                "schema": "v1.widgets.example.org",
                "storage": {"crd": {}},
            }
        ]
    },
}


def say(name: str, text: str) -> None:
    print(f"{name:24} {text}", flush=True)


def milliseconds(times: list[float]) -> str:
    ordered = sorted(times)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"median {statistics.median(ordered) * 1e3:.0f} ms, p99 {last * 1e3:.0f} ms"


async def gathered(
    count: int, work: Callable[[int], Awaitable[float]], at_a_time: int = _AT_A_TIME
) -> list[float]:
    """The results of `count` calls, a few at a time."""
    numbers = iter(range(count))

    async def worker() -> list[float]:
        return [await work(number) for number in numbers]

    found = await asyncio.gather(*(worker() for _ in range(at_a_time)))
    return [one for some in found for one in some]


def on(shard: str) -> dict[str, Any]:
    return {"selector": {"matchLabels": {"name": shard}}}


async def label_shards(kcp: Kcp, fleet: Fleet) -> None:
    """So that workspaces can be asked for on each of them."""
    shards = kcp.workspace("root").objects("shards.v1alpha1.core.kcp.io")
    for name in fleet.shards:
        await shards.wait(name, lambda _: True)
        await shards.patch(name, {"metadata": {"labels": {"name": name}}})


class ReadyWorkspaces:
    """Says when workspaces in one are ready; one watch for all of them, as controllers have."""

    def __init__(self, parent: Workspace) -> None:
        self._objects = parent.objects("workspaces.v1alpha1.tenancy.kcp.io")
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def version(self) -> str:
        return (await self._objects.list_with_version())[1]

    async def run(self, version: str) -> None:
        async for event in self._objects.watch(since=version):
            if (event.object.get("status") or {}).get("phase") == "Ready":
                future = self._waiting.pop(event.object["metadata"]["name"], None)
                if future is not None:
                    future.set_result(None)

    def expect(self, name: str) -> asyncio.Future[None]:
        future = self._waiting[name] = asyncio.get_running_loop().create_future()
        return future


async def make_workspaces(kcp: Kcp, count: int) -> None:
    org = await kcp.workspace("root").create("fleet")
    ready = ReadyWorkspaces(org)
    reached: list[float] = []
    following = spawn(ready.run(await ready.version()), "ready workspaces")

    async def make(number: int) -> float:
        began = time.perf_counter()
        name = f"w{number}"
        expected = ready.expect(name)
        child = await org.create(name, type="root:universal", wait=False)
        await expected
        seconds = time.perf_counter() - began
        if number % 4 == 0:
            began = time.perf_counter()
            await child.objects("namespaces").get("default")  # and it can be reached at once
            reached.append(time.perf_counter() - began)
        return seconds

    await gathered(32, lambda number: make(count + number))

    for at_a_time in (4, _AT_A_TIME):
        skipped = 0 if at_a_time == 4 else count // 2
        began = time.perf_counter()
        times = await gathered(count // 2, lambda n, skip=skipped: make(skip + n), at_a_time)
        rate = count // 2 / (time.perf_counter() - began)
        say("workspaces", f"{at_a_time} at a time: {rate:.0f}/s, {milliseconds(times)}")
    say("first request to each", milliseconds(reached))
    await reach_alone(org, ready)
    following.cancel()
    found = await org.objects("workspaces.v1alpha1.tenancy.kcp.io").list()
    spread = Counter(obj["metadata"]["annotations"].get(_SHARD, "?") for obj in found)
    say("workspaces", f"by shard {sorted(spread.values())}")

    async def remove(number: int) -> float:
        started = time.perf_counter()
        await (org / f"w{number}").delete(wait=True)
        return time.perf_counter() - started

    began = time.perf_counter()
    times = await gathered(count, remove)
    say("deletion", f"{count / (time.perf_counter() - began):.0f}/s, {milliseconds(times)}")


async def reach_alone(org: Workspace, ready: ReadyWorkspaces, count: int = 50) -> None:
    """How much longer the first request to a workspace takes than the second, with nothing else."""
    later: list[float] = []
    for number in range(count):
        name = f"alone{number}"
        expected = ready.expect(name)
        await org.create(name, type="root:universal", wait=False)
        await expected
        began = time.perf_counter()
        await (org / name).objects("namespaces.v1").get("default")
        reached = time.perf_counter()
        await (org / name).objects("namespaces.v1").get("default")
        later.append(max(0.0, 2 * reached - began - time.perf_counter()))
    say("first request alone", f"later than the second: {milliseconds(later)}")


async def bind_across(kcp: Kcp, fleet: Fleet, count: int) -> None:
    first, last = fleet.shards[0], fleet.shards[-1]
    root = kcp.workspace("root")
    provider = await root.create("provider", location=on(first))
    await provider.apply(_SCHEMA)
    await provider.apply(_EXPORT)
    consumers = await root.create("consumers", location=on(last))

    async def make(number: int) -> float:
        await consumers.create(f"c{number}", type="root:universal", location=on(last))
        return 0.0

    async def bind(number: int) -> float:
        began = time.perf_counter()
        await (consumers / f"c{number}").bind("widgets", provider.path)
        return time.perf_counter() - began

    await gathered(count, make)
    for at_a_time in (4, _AT_A_TIME):
        skipped = 0 if at_a_time == 4 else count // 2
        times = await gathered(count // 2, lambda n, skip=skipped: bind(skip + n), at_a_time)
        say("binding across shards", f"{at_a_time} at a time: {milliseconds(times)}")


async def idle(fleet: Fleet, seconds: float = 60.0) -> None:
    await asyncio.sleep(10.0)  # what the parts before have left to do
    before = {name: processes_cpu([p.pid]) for name, p in fleet.processes.items()}
    await asyncio.sleep(seconds)
    for name, process in fleet.processes.items():
        used = processes_cpu([process.pid]) - before[name]
        memory = processes_memory([process.pid])
        in_five = used / seconds * 5e3
        say(f"idle {name}", f"{in_five:.1f} ms CPU in 5 s, over {seconds:.0f} s; {memory:.0f} MiB")


# --- abuse


async def innocent(workspace: Workspace, stop: asyncio.Event) -> tuple[list[float], list[float]]:
    """Seconds that reads and writes of a tenant take, one after the other."""
    maps = workspace.objects("configmaps")
    reads: list[float] = []
    writes: list[float] = []
    while not stop.is_set():
        began = time.perf_counter()
        await maps.get("kube-root-ca.crt")
        reads.append(time.perf_counter() - began)
        began = time.perf_counter()
        await maps.patch("kube-root-ca.crt", {"metadata": {"annotations": {"n": str(began)}}})
        writes.append(time.perf_counter() - began)
    return reads, writes


async def abuse(kcp: Kcp, fleet: Fleet) -> None:
    """What another tenant notices of requests that make the proxy work."""
    root = kcp.workspace("root")
    quiet = await root.create("quiet", location=on(fleet.shards[-1]))
    busy = await root.create("busy", location=on(fleet.shards[-1]))
    await quiet.objects("configmaps").wait("kube-root-ca.crt", lambda _: True)
    text = "x" * 100_000
    for number in range(50):
        obj = {"metadata": {"name": f"large{number}"}, "data": {"text": text}}
        await busy.objects("configmaps").create(obj)
    for name in ("nothing", *ATTACKS):
        await _beside(name, fleet, quiet)


def attacker_kubeconfig(fleet: Fleet) -> str:
    """A user of another name."""
    files = fleet.files
    pair = issue_client(
        ensure_client_ca(files.pki, time.time()), "attacker", ["system:kcp:admin"], time.time()
    )
    config = json.loads(files.admin_kubeconfig.read_text())
    data = (pair.certificate, pair.key)
    certificate, key = (base64.b64encode(part).decode() for part in data)
    config["users"][0]["user"] = {
        "client-certificate-data": certificate,
        "client-key-data": key,
    }
    path = files.directory / "attacker.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


async def _beside(name: str, fleet: Fleet, quiet: Workspace) -> None:
    """Measure with an attack in a process of its own."""
    attacker = None
    if name in ATTACKS:
        command = (sys.executable, __file__, "--attack", name, attacker_kubeconfig(fleet))
        attacker = await asyncio.create_subprocess_exec(*command)
        await asyncio.sleep(2.0)
    stop = asyncio.Event()
    measured = spawn(innocent(quiet, stop), "innocent")
    await asyncio.sleep(5.0)
    stop.set()
    reads, writes = await measured
    if attacker is not None:
        attacker.kill()
        await attacker.wait()
    longest = f"longest {max(reads) * 1e3:.0f} and {max(writes) * 1e3:.0f} ms"
    say(f"beside {name}", f"reads {milliseconds(reads)}; writes {milliseconds(writes)}; {longest}")


async def unknown_clusters(kcp: Kcp, number: int) -> None:
    await kcp.workspace(f"{number:016x}").get("configmaps", "a")


async def unknown_paths(kcp: Kcp, number: int) -> None:
    await kcp.workspace(f"root:no{number}:such").get("configmaps", "a")


async def large_lists(kcp: Kcp, number: int) -> None:
    await kcp.workspace("root:busy").objects("configmaps").list()


async def many_watches(kcp: Kcp, number: int) -> None:
    async for _ in kcp.workspace("root:busy").objects("secrets").watch(since="1"):
        pass


ATTACKS: dict[str, tuple[int, Callable[[Kcp, int], Awaitable[None]]]] = {
    "unknown-clusters": (64, unknown_clusters),
    "unknown-paths": (64, unknown_paths),
    "large-lists": (16, large_lists),
    "many-watches": (2000, many_watches),
}
"""How many at a time, and what each does."""


async def attack(name: str, kubeconfig: str) -> None:
    """Until it is killed."""
    at_a_time, work = ATTACKS[name]
    numbers = itertools.count()

    async def attacker(kcp: Kcp) -> None:
        while True:
            with contextlib.suppress(StatusError):
                await work(kcp, next(numbers))

    clients = [connect(kubeconfig, context="root") for _ in range(min(20, at_a_time))]
    await asyncio.gather(*(attacker(clients[n % len(clients)]) for n in range(at_a_time)))


# --- faults


@dataclass
class FleetWriter:
    """Creates numbered objects in one workspace and notes what was acknowledged."""

    shard: str
    workspace: Workspace
    prefix: str
    pause: float = 0.0
    """Seconds from one write to the next; 0: the next follows at once."""
    written: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """Sent, but the answer was lost: they may be there."""
    failures: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        return max(self.times, default=0.0)

    async def run(self, stop: asyncio.Event) -> None:
        maps = self.workspace.objects("configmaps")
        number = 0
        while not stop.is_set():
            number += 1
            name = f"{self.prefix}{number}"
            began = time.perf_counter()
            try:
                async with asyncio.timeout(10):
                    await maps.create({"metadata": {"name": name}})
            except (StatusError, TimeoutError) as error:
                self.unknown.add(name)
                self.failures[_short(error)] += 1
                await asyncio.sleep(0.05)
            else:
                self.written.append(name)
                self.times.append(time.perf_counter() - began)
                if self.pause:
                    await asyncio.sleep(max(0.0, began + self.pause - time.perf_counter()))

    async def lost(self) -> list[str]:
        """What was acknowledged and is not there, and what is there and was never sent."""
        names = [o["metadata"]["name"] async for o in self.workspace.objects("configmaps")]
        found = {name for name in names if name.startswith(self.prefix)}
        sent = {*self.written, *self.unknown}
        return sorted((set(self.written) - found) | (found - sent))


def _short(error: Exception) -> str:
    if isinstance(error, ServiceUnavailable):
        return "unreachable" if "cannot be reached" in error.message else "503"
    return f"{error.code} {error.message}" if isinstance(error, StatusError) else "timeout"


async def fault(
    kcp: Kcp, fleet: Fleet, workspaces: dict[str, Workspace], name: str, *, is_pause: bool
) -> None:
    """One program killed or stopped for two seconds under load."""
    process: FleetProcess = fleet[name]
    prefix = f"{name}-{'stop' if is_pause else 'kill'}-"
    writers = [FleetWriter(shard, workspace, prefix) for shard, workspace in workspaces.items()]
    stop = asyncio.Event()
    tasks = [spawn(writer.run(stop), "writer") for writer in writers]
    await asyncio.sleep(1.0)
    if is_pause:
        process.pause()
        await asyncio.sleep(2.0)
        process.resume()
    else:
        process.kill()
        await asyncio.sleep(2.0)
        process.launch()
    began = time.perf_counter()
    back = await _back(workspaces[name] if name in workspaces else workspaces["root"])
    recovered = back - began
    await asyncio.sleep(1.0)
    stop.set()
    await asyncio.gather(*tasks)
    lost = [item for writer in writers for item in await writer.lost()]
    parts = ", ".join(
        f"{w.shard}: {len(w.written)} written, failed {dict(w.failures) or 0}" for w in writers
    )
    word = "stopped" if is_pause else "killed"
    say(f"{word} {name}", f"back after {recovered:.1f} s; lost or doubled {len(lost)}; {parts}")


async def _back(workspace: Workspace) -> float:
    while True:
        try:
            async with asyncio.timeout(1):
                await workspace.objects("configmaps").list()
                return time.perf_counter()
        except (StatusError, TimeoutError):
            await asyncio.sleep(0.02)


async def faults(kcp: Kcp, fleet: Fleet) -> None:
    workspaces = {
        shard: await kcp.workspace("root").create(f"load-{shard}", location=on(shard))
        for shard in fleet.shards
    }
    for name in fleet.processes:
        for is_pause in (False, True):
            await fault(kcp, fleet, workspaces, name, is_pause=is_pause)


def start_lonely(fleet: Fleet) -> None:
    for process in fleet.processes.values():
        process.kill()
    shard = fleet[fleet.shards[-1]]
    began = time.perf_counter()
    shard.start()
    used = processes_cpu([shard.pid])
    say("start alone", f"ready after {time.perf_counter() - began:.2f} s, {used:.2f} s of CPU")
    for process in fleet.processes.values():
        if process is not shard:
            process.start()


async def run(fleet: Fleet, parts: list[str], count: int) -> None:
    async with connect(fleet.files.admin_kubeconfig, context="root", manager="bench") as kcp:
        await label_shards(kcp, fleet)
        if "workspaces" in parts:
            await make_workspaces(kcp, count)
        if "bindings" in parts:
            await bind_across(kcp, fleet, min(count, 100))
        if "idle" in parts:
            await idle(fleet)
        if "abuse" in parts:
            await abuse(kcp, fleet)
        if "faults" in parts:
            await faults(kcp, fleet)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--count", type=int, default=300, help="workspaces to make")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, by commas")
    parser.add_argument("--attack", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        uvloop.run(attack(*arguments.attack))
    with tempfile.TemporaryDirectory(prefix="pykcp-fleet-") as folder:
        fleet = Fleet(pathlib.Path(folder), arguments.shards)
        try:
            began = time.perf_counter()
            fleet.start()
            say("start", f"{arguments.shards} shards ready in {time.perf_counter() - began:.1f} s")
            parts = arguments.only.split(",")
            uvloop.run(run(fleet, parts, arguments.count))
            if "lonely" in parts:
                start_lonely(fleet)
        finally:
            fleet.stop()


if __name__ == "__main__":
    main()
