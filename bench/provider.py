"""How late a provider's watch over all of its consumers is.

    bench/run provider [--consumers 10000] [--rate 1000] [--seconds 20] [--one-core]

Binds an export in as many logical clusters, then changes their objects at a steady rate while
the provider watches all of them through its view. A delay is the time from sending a write
to seeing its event. (`bench/run bindings` says what the bindings cost.)
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import time
from collections.abc import Awaitable, Callable

from http2client import Connection
from target import Target
from target import load as load_target

from pykcp.testing.exports import APIS, ExportProvider
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
_SENT = re.compile(rb'"sent":([0-9.]+)')
_AT_ONCE = 32
Work = Callable[[Connection, str], Awaitable[object]]


async def send(connection: Connection, method: str, path: str, body: object) -> bytes:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    reply = await connection.request(method, path, json.dumps(body).encode(), kind)
    if reply.status >= 300:
        raise RuntimeError(f"{method} {path}: {reply.status} {reply.content()[:300]!r}")
    return reply.content()


async def consume(connection: Connection, provider: ExportProvider, cluster: str) -> None:
    """A logical cluster with a binding and one object."""
    root = f"/clusters/{cluster}"
    head = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster"}
    await send(connection, "POST", root + _CLUSTERS, {**head, "metadata": {"name": "cluster"}})
    await send(connection, "POST", f"{root}/api/v1/namespaces", {"metadata": {"name": "default"}})
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": provider.export},
        "spec": {"reference": {"export": {"path": provider.cluster, "name": provider.export}}},
    }
    await send(connection, "POST", f"{root}{APIS}/apibindings", binding)


async def bound(connection: Connection, provider: ExportProvider, cluster: str) -> None:
    path = f"/clusters/{cluster}{APIS}/apibindings/{provider.export}"
    while True:
        reply = await connection.request("GET", path)
        if b'"phase":"Bound"' in reply.content():
            return
        await asyncio.sleep(0.005)


async def each(target: Target, count: int, work: Work) -> None:
    """Do something for every consumer, some at once."""
    numbers = iter(range(count))

    async def worker() -> None:
        connection = await target.connect()
        for number in numbers:
            await work(connection, f"bench{number}")
        connection.close()

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))


async def set_up(target: Target, provider: ExportProvider, count: int) -> None:
    began = time.perf_counter()
    await each(target, count, lambda c, name: consume(c, provider, name))
    await each(target, count, lambda c, name: bound(c, provider, name))
    print(f"{count} consumers bound in {time.perf_counter() - began:.1f} s")
    path = provider.path(namespace="default")
    body = {"apiVersion": f"{provider.group}/v1", "kind": "Cowboy", "metadata": {"name": "joe"}}
    await each(target, count, lambda c, name: send(c, "POST", f"/clusters/{name}{path}", body))


async def follow(
    target: Target, provider: ExportProvider, count: int, rate: int, seconds: float
) -> None:
    watching = await target.connect()
    delays: list[float] = []
    rest = b""

    def on_data(data: bytes) -> None:
        nonlocal rest
        now = time.time()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            sent = _SENT.search(line)
            if sent is not None:
                delays.append(now - float(sent[1]))

    view = f"/services/apiexport/{provider.cluster}/{provider.export}/clusters/*"
    listed = await watching.request("GET", f"{view}{provider.path()}?limit=1")
    version = json.loads(listed.content())["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={version}"
    await watching.request("GET", f"{view}{provider.path()}?{query}", on_data=on_data)
    writers = [await target.connect() for _ in range(_AT_ONCE)]
    cpu, began, sent = target.cpu(), time.perf_counter(), 0
    under_way: set[asyncio.Task[bytes]] = set()
    for number in itertools.count():
        elapsed = time.perf_counter() - began
        if elapsed > seconds:
            break
        while sent < elapsed * rate:
            path = f"/clusters/bench{sent % count}{provider.path(namespace='default')}/joe"
            body = {"spec": {"sent": time.time()}}
            task = asyncio.ensure_future(send(writers[sent % _AT_ONCE], "PATCH", path, body))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            sent += 1
        await asyncio.sleep(0.001 if number else 0)
    await asyncio.gather(*under_way)
    await asyncio.sleep(0.5)
    used = target.cpu() - cpu
    delays.sort()
    marks = " ".join(
        f"p{p} {delays[int(len(delays) * p / 100) - 1] * 1000:.1f}" for p in (50, 99, 100)
    )
    print(f"{len(delays)} of {sent} events at {sent / seconds:.0f}/s: {marks} ms, ", end="")
    print(f"{used / sent * 1e6:.0f} µs of CPU per write and event")


async def measure(server: ServerProcess, options: argparse.Namespace) -> None:
    provider = ExportProvider(server)
    target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
    await set_up(target, provider, options.consumers)
    await follow(target, provider, options.consumers, options.rate, options.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--one-core", action="store_true", help="give the server one core only")
    options = parser.parse_args()
    with run_server() as server:
        if options.one_core:
            os.sched_setaffinity(server.pid, {0})
            os.sched_setaffinity(0, set(range(1, os.cpu_count() or 2)))
        asyncio.run(measure(server, options))


if __name__ == "__main__":
    main()
