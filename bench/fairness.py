"""What one tenant's flood does to another's requests.

    bench/run fairness [--objects 10000] [--flood 64] [--seconds 10]

One user, in a process of their own, lists a logical cluster full of objects and creates more,
so many requests at a time. Another user, in another logical cluster, gets one object after the
other. Printed are the delays of these gets: alone, beside the flood, and beside the flood on a
server that does not share fairly.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import pathlib
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from target import Target
from target import load as load_target

from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

CM = "/api/v1/namespaces/default/configmaps"
_USERS = ("flooder", "neighbour")
_STREAMS = 8
"""Requests at a time on one connection of the flood."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--flood", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.csv"
        tokens.write_text("".join(f"{user}-token,{user},{user}\n" for user in _USERS))
        for flags in ((), ("--fairness=false",)):
            with run_server(f"--token-auth-file={tokens}", *flags) as server:
                _prepare(server, options.objects)
                _measure(server, options, "unfair" if flags else "fair")


def _prepare(server: ServerProcess, count: int) -> None:
    for cluster, user in (("crowded", "flooder"), ("quiet", "neighbour")):
        client = make_cluster(server, cluster)
        status = {"status": {"phase": "Ready"}}
        client.patch("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster/status", status)
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        assert client.post(f"/apis/{group}/v1/clusterrolebindings", binding).status == 201
    crowded = server.client(cluster="crowded")
    data = {"text": "x" * 1400}
    with ThreadPoolExecutor(16) as threads:
        bodies = ({"metadata": {"name": f"m{n}"}, "data": data} for n in range(count))
        for reply in threads.map(lambda body: crowded.post(CM, body), bodies):
            assert reply.status == 201, reply
    quiet = server.client(cluster="quiet")
    assert quiet.post(CM, {"metadata": {"name": "one"}, "data": data}).status == 201


def _measure(server: ServerProcess, options: argparse.Namespace, label: str) -> None:
    target = _target(server, "quiet", "neighbour")
    if label == "fair":
        _report("alone", asyncio.run(_gets(target, options.seconds)))
    queue: multiprocessing.Queue[Counter[str]] = multiprocessing.Queue()
    arguments = (str(server.kubeconfig), options.flood, options.seconds + 2, queue)
    flood = multiprocessing.Process(target=_flood_process, args=arguments)
    flood.start()
    time.sleep(1.5)
    _report(
        f"{label}, beside a flood of {options.flood}", asyncio.run(_gets(target, options.seconds))
    )
    print(f"  flood: {dict(queue.get())}, server {load_memory(server):.0f} MiB")
    flood.join()


def load_memory(server: ServerProcess) -> float:
    return load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid)).memory()


def _target(server: ServerProcess, cluster: str, user: str) -> Target:
    found = load_target(str(server.kubeconfig), "shard-base", cluster, str(server.pid))
    return replace(found, token=f"{user}-token")


async def _gets(target: Target, seconds: float) -> list[float]:
    connection = await target.connect()
    delays: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        reply = await connection.request("GET", f"{target.prefix}{CM}/one")
        assert reply.status == 200, reply.status
        delays.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    connection.close()
    return delays


def _report(label: str, delays: list[float]) -> None:
    delays.sort()
    shown = " ".join(
        f"p{int(part * 1000) / 10:g} {delays[int(part * (len(delays) - 1))] * 1000:.1f} ms"
        for part in (0.5, 0.9, 0.99, 1.0)
    )
    print(f"{label}: {len(delays)} gets, {shown}", flush=True)


def _flood_process(
    kubeconfig: str, width: int, seconds: float, queue: multiprocessing.Queue[Counter[str]]
) -> None:
    target = replace(load_target(kubeconfig, "shard-base", "crowded"), token="flooder-token")
    queue.put(asyncio.run(_flood(target, width, seconds)))


async def _flood(target: Target, width: int, seconds: float) -> Counter[str]:
    """Three lists to one create, each sent again as soon as it is answered."""
    until = time.perf_counter() + seconds
    counts: Counter[str] = Counter()
    numbers = itertools.count()
    connections = [await target.connect() for _ in range(max(1, width // _STREAMS))]

    async def send(place: int) -> None:
        connection = connections[place % len(connections)]
        while time.perf_counter() < until:
            if place % 4:
                reply = await connection.request("GET", f"{target.prefix}{CM}")
            else:
                body = b'{"metadata":{"name":"f%d"}}' % next(numbers)
                reply = await connection.request("POST", f"{target.prefix}{CM}", body)
            counts[f"{'list' if place % 4 else 'create'} {reply.status}"] += 1
            if reply.status == 429:
                await asyncio.sleep(0.05)

    await asyncio.gather(*(send(place) for place in range(width)))
    return counts


if __name__ == "__main__":
    main()
