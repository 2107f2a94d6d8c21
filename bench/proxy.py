"""What the front-proxy costs: its CPU per GET and per watch event beside the shard's, its memory.

    python bench/proxy.py [--seconds 3] [--paths 200]

A shard and a front-proxy are started; the clients sign in with certificates.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import time

import uvloop
from http2client import Connection, connect
from target import Target

from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles, front_proxy
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

_MAPS = "/api/v1/namespaces/default/configmaps"
_CONNECTIONS = ((1, 1), (16, 1), (64, 1), (1, 64))
"""How many, and how many requests on each at a time."""


def target(name: str, port: int, pid: int, files: ProxyFiles) -> Target:
    context = ssl.create_default_context(cafile=files.serving_ca)
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(files.user("kcp-admin", ["system:kcp:admin"]))
    return Target(name, "127.0.0.1", port, "", "", context, (pid,))


async def open_all(to: Target, count: int) -> list[Connection]:
    headers = [("accept", "application/json"), ("user-agent", "bench/1")]
    return [await connect(to.host, to.port, to.context, headers) for _ in range(count)]


async def load(
    connections: list[Connection], each: int, paths: list[str], seconds: float
) -> tuple[int, float]:
    """Requests done, and their median time in milliseconds."""
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
    return len(times), statistics.median(times) * 1e3


async def measure(
    shard: Target, proxy: Target, paths: list[str], connections: int, each: int, seconds: float
) -> None:
    costs = {}
    for to in (shard, proxy):
        opened = await open_all(to, connections)
        await load(opened, each, paths, 0.5)
        before = (shard.cpu(), proxy.cpu())
        count, median = await load(opened, each, paths, seconds)
        costs[to.name] = [
            (shard.cpu() - before[0]) / count * 1e6,
            (proxy.cpu() - before[1]) / count * 1e6,
            median,
        ]
        for connection in opened:
            connection.close()
    direct, through = costs["shard"], costs["proxy"]
    print(
        f"get, {connections:3} connections × {each:2}: proxy {through[1]:6.1f} µs, "
        f"shard {through[0]:6.1f} µs behind it, {direct[0]:6.1f} µs directly; "
        f"p50 {through[2]:.2f} ms, directly {direct[2]:.2f} ms",
        flush=True,
    )


async def run(shard: Target, proxy: Target, paths: list[str], seconds: float) -> None:
    print(f"idle memory of the proxy: {proxy.memory():.1f} MiB")
    for connections, each in _CONNECTIONS:
        await measure(shard, proxy, paths, connections, each, seconds)
    print(f"memory of the proxy afterwards: {proxy.memory():.1f} MiB")


def make_paths(proxy: FrontProxyProcess, count: int) -> list[str]:
    """A ConfigMap in each of some workspaces, half of them by path, half by name."""
    root, paths = proxy.admin("root"), []
    for number in range(count):
        cluster = make_workspace(root, f"w{number}")["spec"]["cluster"]
        named = cluster if number % 2 else f"root:w{number}"
        inside = root.in_cluster(named)
        body = {"metadata": {"name": "object"}, "data": {"key": "x" * 1000}}
        assert inside.post(_MAPS, body).status == 201
        paths.append(f"/clusters/{named}{_MAPS}/object")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--paths", type=int, default=200)
    options = parser.parse_args()
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        shard = ServerProcess(files.root / "root", files.shard_flags()).start()
        try:
            with front_proxy(files, shard) as proxy:
                paths = make_paths(proxy, options.paths)
                targets = (
                    target("shard", shard.port, shard.pid, files),
                    target("proxy", proxy.port, proxy.pid, files),
                )
                uvloop.run(run(*targets, paths, options.seconds))
        finally:
            shard.stop()


if __name__ == "__main__":
    main()
