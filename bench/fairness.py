"""What one caller's flood does to another tenant's requests.

    bench/run fairness [--objects 5000] [--flood 64] [--seconds 5] [--only gets writes]

A flood runs in a process of its own, so many requests at a time. Another user, in another
logical cluster, gets an object and creates one, again and again. Printed are the delays of these
requests: alone, and beside each flood on a server that shares fairly and on one that does not.
Beside the time on the clock stands the time that the server's event loop had a processor for
meanwhile: what the delay would be on a machine with nothing else to do.

    lists      one user lists a cluster full of objects and creates more, three to one
    writes     one user creates objects of 300 keys in eight workspaces
    gets       one user gets an object in eight workspaces
    strangers  nobody in particular, with wrong tokens, from the same address
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import pathlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from http2client import Connection, Reply
from target import Target
from target import load as load_target

from pykcp.testing.flood import make_open_cluster
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

CM = "/api/v1/namespaces/default/configmaps"
_USERS = ("flooder", "neighbour")
_CROWDED = tuple(f"crowded{number}" for number in range(8))
_STREAMS = 8
"""Requests at a time on one connection of the flood."""
_numbers = itertools.count()
_COLUMNS = (
    (("get p50", 13), ("p99", 13), ("longest", 13)),
    (("write p50", 15), ("p99", 13), ("longest", 13)),
)
_HEADING = f"{'ms on the clock / of the loop':<30}" + "".join(
    name.rjust(width) for group in _COLUMNS for name, width in group
)

Delay = tuple[float, float]
"""Seconds on the clock, and of the server's event loop."""


@dataclass(frozen=True, slots=True)
class Request:
    cluster: str
    method: str
    path: str
    body: bytes = b""


def _lists(place: int) -> Request:
    if place % 4:
        return Request(_CROWDED[0], "GET", CM)
    body = b'{"metadata":{"name":"f%d"}}' % next(_numbers)
    return Request(_CROWDED[0], "POST", CM, body)


def _writes(place: int) -> Request:
    data = {f"key{number}": "x" * 40 for number in range(280)}
    body = json.dumps({"metadata": {"name": f"w{next(_numbers)}"}, "data": data}).encode()
    return Request(_CROWDED[place % 8], "POST", CM, body)


def _gets(place: int) -> Request:
    return Request(_CROWDED[place % 8], "GET", f"{CM}/one")


def _strangers(place: int) -> Request:
    return Request("quiet", "GET", f"{CM}/one")


FLOODS: dict[str, Callable[[int], Request]] = {
    "lists": _lists,
    "writes": _writes,
    "gets": _gets,
    "strangers": _strangers,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--flood", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", choices=tuple(FLOODS), default=tuple(FLOODS))
    options = parser.parse_args()
    print(_HEADING)
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens.csv"
        tokens.write_text("".join(f"{user}-token,{user},{user}\n" for user in _USERS))
        for label, flags in (("fair", ()), ("unfair", ("--fairness=false",))):
            with run_server(f"--token-auth-file={tokens}", *flags) as server:
                _prepare(server, options.objects if "lists" in options.only else 1)
                if not flags:
                    _report("alone", asyncio.run(_innocent(server, options.seconds)))
                for name in options.only:
                    _measure(server, options, name, label)


def _prepare(server: ServerProcess, count: int) -> None:
    data = {"text": "x" * 1400}
    for cluster in (*_CROWDED, "quiet"):
        client = make_open_cluster(server, cluster, _USERS)
        assert client.post(CM, {"metadata": {"name": "one"}, "data": data}).status == 201
    crowded = server.client(cluster=_CROWDED[0])
    with ThreadPoolExecutor(16) as threads:
        bodies = ({"metadata": {"name": f"m{n}"}, "data": data} for n in range(count))
        for reply in threads.map(lambda body: crowded.post(CM, body), bodies):
            assert reply.status == 201, reply


def _measure(server: ServerProcess, options: argparse.Namespace, name: str, label: str) -> None:
    queue: multiprocessing.Queue[Counter[str]] = multiprocessing.Queue()
    arguments = (str(server.kubeconfig), name, options.flood, options.seconds + 2, queue)
    flood = multiprocessing.Process(target=_flood_process, args=arguments)
    flood.start()
    time.sleep(1.5)
    _report(f"{name}, {label}", asyncio.run(_innocent(server, options.seconds)))
    counts = " ".join(f"{count} × {code}" for code, count in sorted(queue.get().items()))
    flood.join()
    memory = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid)).memory()
    print(f"    flood: {counts}; server {memory:.0f} MiB", flush=True)


async def _innocent(server: ServerProcess, seconds: float) -> tuple[list[Delay], list[Delay]]:
    """Delays of gets and of creates in a quiet cluster."""
    found = load_target(str(server.kubeconfig), "shard-base", "quiet", str(server.pid))
    target = replace(found, token="neighbour-token")
    until = time.perf_counter() + seconds

    async def repeat(send: Callable[[Connection], asyncio.Future[Reply]]) -> list[Delay]:
        connection = await target.connect()
        delays: list[Delay] = []
        while (began := time.perf_counter()) < until:
            cpu = _loop_seconds(server.pid)
            reply = await send(connection)
            assert reply.status in {200, 201}, reply.status
            delays.append((time.perf_counter() - began, _loop_seconds(server.pid) - cpu))
            await asyncio.sleep(0.005)
        connection.close()
        return delays

    def get(connection: Connection) -> asyncio.Future[Reply]:
        return connection.request("GET", f"{target.prefix}{CM}/one")

    def create(connection: Connection) -> asyncio.Future[Reply]:
        body = b'{"metadata":{"generateName":"n-"}}'
        return connection.request("POST", f"{target.prefix}{CM}", body)

    gets, creates = await asyncio.gather(repeat(get), repeat(create))
    return gets, creates


def _loop_seconds(pid: int) -> float:
    """Processor time that the first thread of a process, its event loop, has had."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def _report(label: str, delays: tuple[list[Delay], list[Delay]]) -> None:
    line = f"{label:<30}"
    for found, columns in zip(delays, _COLUMNS, strict=True):
        clock, loop = (sorted(one[side] for one in found) for side in (0, 1))
        for part, (_, width) in zip((0.5, 0.99, 1.0), columns, strict=True):
            place = int(part * (len(found) - 1))
            line += f"{clock[place] * 1000:.1f} / {loop[place] * 1000:.1f}".rjust(width)
    print(line, flush=True)


def _flood_process(
    kubeconfig: str,
    name: str,
    width: int,
    seconds: float,
    queue: multiprocessing.Queue[Counter[str]],
) -> None:
    target = load_target(kubeconfig, "shard-base", "root")
    queue.put(asyncio.run(_flood(target, name, width, seconds)))


async def _flood(target: Target, name: str, width: int, seconds: float) -> Counter[str]:
    """Each request is followed by the next as soon as it is answered."""
    until = time.perf_counter() + seconds
    counts: Counter[str] = Counter()
    count = max(1, width // _STREAMS)
    tokens = ["flooder-token"] * count
    if name == "strangers":
        tokens = [f"wrong-{number}" for number in range(count)]
    connections = [await replace(target, token=token).connect() for token in tokens]

    async def send(place: int) -> None:
        connection = connections[place % count]
        while time.perf_counter() < until:
            request = FLOODS[name](place)
            path = f"/clusters/{request.cluster}{request.path}"
            reply = await connection.request(request.method, path, request.body)
            counts[str(reply.status)] += 1
            if reply.status == 429:
                await asyncio.sleep(0.05)

    await asyncio.gather(*(send(place) for place in range(width)))
    return counts


if __name__ == "__main__":
    main()
