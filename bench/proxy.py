"""What the front-proxy costs: its CPU per GET, list and watch event beside the shard's, its memory.

    python bench/proxy.py [--seconds 3] [--paths 200] [--other PROGRAM]

A shard and a front-proxy are started; the clients sign in with certificates. `--other` is another
front-proxy with the same flags, such as kcp's own, before the same shard. All are measured in turn,
for a part of the time each, so that whatever else the machine does concerns all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

import uvloop
from http2client import Connection, connect
from target import Target, threads_cpu

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles, front_proxy
from pykcp.testing.server import ServerProcess
from pykcp.testing.sharded import free_ports
from pykcp.testing.workspaces import make_workspace

_MAPS = "/api/v1/namespaces/default/configmaps"
_CONNECTIONS = ((1, 1), (16, 1), (64, 1), (1, 64))
"""How many, and how many requests on each at a time."""
_ROUNDS = 6
"""Parts of the time; what is measured takes turns."""
_LISTED, _LISTED_SIZE = 1000, 15_000
_WATCHES, _EVENTS = 100, 100
_ADMIN = ("kcp-admin", ["system:kcp:admin"])


class Work(NamedTuple):
    """What is asked for."""

    paths: list[str]
    """Of objects of 1.2 KB."""
    large: str
    """Of a collection of 15 MB."""
    watched: str
    """Of a collection that changes."""


def target(name: str, port: int, pid: int, files: ProxyFiles) -> Target:
    context = ssl.create_default_context(cafile=files.serving_ca)
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(files.user(*_ADMIN))
    return Target(name, "127.0.0.1", port, "", "", context, (pid,))


async def open_all(to: Target, count: int) -> list[Connection]:
    headers = [("accept", "application/json"), ("user-agent", "bench/1")]
    return [await connect(to.host, to.port, to.context, headers) for _ in range(count)]


class Spent:
    """CPU time of the shard and of the proxy since it was made."""

    def __init__(self, shard: Target, proxy: Target) -> None:
        self._both = (shard.pids, proxy.pids)
        self._before = [threads_cpu(pids) for pids in self._both]

    def each(self, count: int) -> list[float]:
        """Microseconds of both for one of so many."""
        now = [threads_cpu(pids) for pids in self._both]
        return [(a - b) / count * 1e6 for a, b in zip(now, self._before, strict=True)]


async def load(
    connections: list[Connection], each: int, paths: list[str], seconds: float
) -> list[float]:
    """Seconds of each request that was done."""
    end = time.perf_counter() + seconds
    times: list[float] = []

    async def worker(connection: Connection, first: int) -> None:
        number = first
        while (now := time.perf_counter()) < end:
            reply = await connection.request("GET", paths[number % len(paths)])
            assert reply.status == 200, reply.content()
            times.append(time.perf_counter() - now)
            number += 7

    await asyncio.gather(
        *(worker(c, i * 31) for i, c in enumerate(connections) for _ in range(each))
    )
    return times


class Measured:
    """What requests to one target took in all rounds."""

    def __init__(self, shard: Target, to: Target, opened: list[Connection]) -> None:
        self._shard, self.to, self.opened = shard, to, opened
        self.times: list[float] = []
        self._rounds: list[list[float]] = []

    async def add(self, work: Awaitable[list[float]]) -> None:
        spent = Spent(self._shard, self.to)
        times = await work
        self.times += times
        self._rounds.append(spent.each(len(times)))

    def each(self) -> list[float]:
        """Microseconds of the shard and of the target for one request: the median of the rounds."""
        return [statistics.median(column) for column in zip(*self._rounds, strict=True)]

    def least(self) -> float:
        """Of the target, in the round in which other programs were least in its way."""
        return min(of_target for _, of_target in self._rounds)

    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.times) * 1e3


@asynccontextmanager
async def measured(
    shard: Target, targets: Sequence[Target], connections: int
) -> AsyncIterator[list[Measured]]:
    """Connections to all targets at once: they take turns."""
    made = [Measured(shard, to, await open_all(to, connections)) for to in targets]
    yield made
    for one in made:
        for connection in one.opened:
            connection.close()


async def measure(
    shard: Target,
    proxies: Sequence[Target],
    paths: list[str],
    connections: int,
    each: int,
    seconds: float,
) -> None:
    async with measured(shard, (shard, *proxies), connections) as all_:
        for one in all_:
            await load(one.opened, each, paths, 0.5)
        for _ in range(_ROUNDS):
            for one in all_:
                await one.add(load(one.opened, each, paths, seconds / _ROUNDS))
    direct = all_[0]
    for one in all_[1:]:
        of_shard, of_proxy = one.each()
        print(
            f"get, {connections:3} connections × {each:2}: {one.to.name} {of_proxy:6.1f} µs "
            f"(least {one.least():.1f}), "
            f"shard {of_shard:6.1f} µs behind it, {direct.each()[0]:6.1f} µs directly; "
            f"p50 {one.median():.2f} ms, directly {direct.median():.2f} ms",
            flush=True,
        )


async def measure_list(shard: Target, proxies: Sequence[Target], path: str) -> None:
    size = 0

    async def ask(connection: Connection) -> list[float]:
        nonlocal size
        began = time.perf_counter()
        reply = await connection.request("GET", path)
        assert reply.status == 200, reply.content()[:300]
        size = sum(map(len, reply.body))
        return [time.perf_counter() - began]

    async with measured(shard, proxies, 1) as all_:
        for _ in range(_ROUNDS):
            for one in all_:
                await one.add(ask(one.opened[0]))
    for one in all_:
        of_shard, of_proxy = one.each()
        print(
            f"list of {size / 1e6:.1f} MB: {one.to.name} {of_proxy / 1e3:.1f} ms, "
            f"shard {of_shard / 1e3:.1f} ms",
            flush=True,
        )


async def measure_events(shard: Target, proxy: Target, path: str) -> None:
    watching, (writer,) = await open_all(proxy, _WATCHES), await open_all(shard, 1)
    wanted, seen, all_seen = 0, 0, asyncio.Event()

    def note(data: bytes) -> None:
        nonlocal seen
        seen += data.count(b"\n")  # one for each event
        if seen >= wanted:
            all_seen.set()

    async def change(first: int, count: int) -> None:
        """So many events, and wait until all watches have them."""
        nonlocal wanted
        all_seen.clear()
        wanted += _WATCHES * count
        for number in range(first, first + count):
            changed = json.dumps({**body, "data": {"n": str(number), "text": "x" * 1000}}).encode()
            reply = await writer.request("PUT", f"{path}/of-{proxy.name}", changed)
            assert reply.status == 200, reply.content()
        await all_seen.wait()

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"of-{proxy.name}"}}
    made = await writer.request("POST", path, json.dumps(body).encode())
    assert made.status == 201, made.content()
    version = json.loads(made.content())["metadata"]["resourceVersion"]
    for connection in watching:
        query = f"watch=true&resourceVersion={version}"
        assert (await connection.request("GET", f"{path}?{query}", on_data=note)).status == 200
    await change(0, 10)  # the handshakes, and the first event of each, are not what is measured
    rounds: list[list[float]] = []
    for number in range(_ROUNDS):
        spent = Spent(shard, proxy)
        await change(10 + number * _EVENTS, _EVENTS)
        rounds.append(spent.each(_WATCHES * _EVENTS))
    for connection in (*watching, writer):
        connection.close()
    of_shard, of_proxy = (statistics.median(column) for column in zip(*rounds, strict=True))
    least = min(of_proxy for _, of_proxy in rounds)
    print(
        f"event to {_WATCHES} watches: {proxy.name} {of_proxy:.1f} µs (least {least:.1f}), "
        f"shard {of_shard:.1f} µs",
        flush=True,
    )


async def run(shard: Target, proxies: Sequence[Target], work: Work, seconds: float) -> None:
    for proxy in proxies:
        print(f"memory of {proxy.name}, idle: {proxy.memory():.1f} MiB")
    for connections, each in _CONNECTIONS:
        await measure(shard, proxies, work.paths, connections, each, seconds)
    await measure_list(shard, proxies, work.large)
    for proxy in proxies:
        await measure_events(shard, proxy, work.watched)
        print(f"memory of {proxy.name}, afterwards: {proxy.memory():.1f} MiB")


def make_work(proxy: FrontProxyProcess, count: int) -> Work:
    """A ConfigMap in each of some workspaces, half of them by path, half by name; and more."""
    root, paths = proxy.admin("root"), []
    for number in range(count):
        cluster = make_workspace(root, f"w{number}")["spec"]["cluster"]
        named = cluster if number % 2 else f"root:w{number}"
        inside = root.in_cluster(named)
        body = {"metadata": {"name": "object"}, "data": {"key": "x" * 1000}}
        assert inside.post(_MAPS, body).status == 201
        paths.append(f"/clusters/{named}{_MAPS}/object")
    made = {name: make_workspace(root, name)["spec"]["cluster"] for name in ("large", "watched")}
    inside = root.in_cluster(made["large"])
    for number in range(_LISTED):
        body = {"metadata": {"name": f"object-{number}"}, "data": {"key": "x" * _LISTED_SIZE}}
        assert inside.post(_MAPS, body).status == 201
    large, watched = (f"/clusters/{made[name]}{_MAPS}" for name in ("large", "watched"))
    return Work(paths, large, watched)


@contextmanager
def other_proxy(program: str, files: ProxyFiles, shard: ServerProcess) -> Iterator[Target]:
    """Another front-proxy with the files of ours."""
    (port,) = free_ports(1)
    words = [
        program, f"--root-directory={files.root / 'other'}", "--bind-address=127.0.0.1",
        f"--secure-port={port}", f"--tls-cert-file={files.serving}",
        f"--tls-private-key-file={files.serving}", f"--client-ca-file={files.client_ca}",
        f"--mapping-file={files.root / 'front-proxy-mapping.yaml'}",
        f"--root-kubeconfig={files.root_kubeconfig(shard)}",
        f"--shards-kubeconfig={files.shards_kubeconfig()}",
    ]  # fmt: skip
    with (files.root / "other.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        beside = FrontProxyProcess(files, "other", ())
        beside.port = port
        client = beside.admin("root")
        eventually(lambda: _answers(client), 60)
        yield target("other", port, process.pid, files)
    finally:
        process.terminate()
        process.wait()


def _answers(client: TestClient) -> bool:
    try:
        return client.get(_MAPS).status == 200
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--paths", type=int, default=200)
    parser.add_argument("--other", default="", help="another front-proxy")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        shard = ServerProcess(files.root / "root", files.shard_flags()).start()
        try:
            with front_proxy(files, shard) as proxy:
                work = make_work(proxy, options.paths)
                before = target("shard", shard.port, shard.pid, files)
                ours = target("proxy", proxy.port, proxy.pid, files)
                if options.other:
                    with other_proxy(options.other, files, shard) as other:
                        uvloop.run(run(before, (ours, other), work, options.seconds))
                else:
                    uvloop.run(run(before, (ours,), work, options.seconds))
        finally:
            shard.stop()


if __name__ == "__main__":
    main()
