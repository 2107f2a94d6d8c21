"""How the gets of a shard grow with its processes (`--serving-processes`).

    python bench/serving.py [--processes 1 2] [--seconds 5] [--connections 16] [--requests 4]

Each connection keeps some requests under way, always of the same object of 1.5 KB. Printed are the
gets per second, the CPU time of all serving processes per get, and how evenly they share the work.

The client needs a part of the machine, too: with as many processes as cores the gets per second are
limited by both together (`most`, if nothing else runs). `capacity` is what the processes would serve with a core each, by the CPU
time that the busiest one spends.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import time
from pathlib import Path
from typing import Any, NamedTuple

import hpack
import uvloop
from target import processes_cpu

from pykcp.testing.processes import wait_for_processes
from pykcp.testing.server import ServerProcess, server
from pykcp.wire.http2 import frames

PATH = "/clusters/root/api/v1/namespaces/default/configmaps/measured"


class Getter(asyncio.Protocol):
    """Sends the same few requests again and again; encodes nothing while it measures."""

    def __init__(self, token: str, requests: int) -> None:
        headers = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", PATH),
            ("accept", "application/json"),
            ("authorization", f"Bearer {token}"),
        ]
        encoder = hpack.Encoder()
        # The first one puts the headers into the table of the connection, all others refer to it.
        self._first, self._block = encoder.encode(headers), encoder.encode(headers)
        self._requests, self._waiting = requests, 0
        self._next_id, self._buffer = 1, b""
        self.count = self.errors = 0
        self.is_running = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        hello = frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**31 - 1})
        transport.write(frames.PREFACE + hello + frames.window_update(0, 2**31 - 65536))
        self._send(self._first)

    def _send(self, first: bytes) -> None:
        sent = []
        for block in (first, *(self._block,) * (self._requests - 1)):
            sent.append(frames.frame(frames.HEADERS, 5, self._next_id, block))
            self._next_id += 2
        self._waiting = self._requests
        self.transport.write(b"".join(sent))

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        position, size = 0, len(data)
        while size - position >= 9:
            word, flags, _ = frames.HEADER.unpack_from(data, position)
            end = position + 9 + (word >> 8)
            if end > size:
                break
            kind = word & 0xFF
            if kind == frames.HEADERS:
                self.errors += data[position + 9] != 0x88  # :status 200, in HPACK's static table
            if kind <= frames.HEADERS and flags & frames.END_STREAM:
                self._waiting -= 1
                self.count += 1
            position = end
        self._buffer = data[position:]
        if not self._waiting and self.is_running:
            self._send(self._block)


class Measured(NamedTuple):
    gets: float
    """Per second."""
    cpu: float
    """Microseconds of all processes per get."""
    client: float
    """Microseconds of the client per get."""
    share: float
    """Of the CPU time that the busiest process has spent; 1 / processes is even."""

    @property
    def capacity(self) -> float:
        return 1e6 / (self.cpu * self.share)

    @property
    def most(self) -> float:
        """Gets per second that all cores of this machine could serve, the client's part included."""
        return (os.cpu_count() or 1) * 1e6 / (self.cpu + self.client)


async def load(shard: ServerProcess, options: argparse.Namespace) -> Measured:
    access = shard.client().access
    context = ssl.create_default_context(cadata=access.ca)
    context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    getters = []
    for _ in range(options.connections):
        _, getter = await loop.create_connection(
            lambda: Getter(access.token, options.requests), access.host, access.port, ssl=context
        )
        getters.append(getter)
    await asyncio.sleep(options.warm_up)
    pids = serving_pids(shard.pid)
    before = {pid: processes_cpu([pid]) for pid in pids}
    counted, began = sum(each.count for each in getters), time.perf_counter()
    client = time.process_time()
    await asyncio.sleep(options.seconds)
    wall, client = time.perf_counter() - began, time.process_time() - client
    counted = sum(each.count for each in getters) - counted
    spent = [processes_cpu([pid]) - before[pid] for pid in pids]
    for each in getters:
        each.is_running = False
        each.transport.close()
    assert counted, "nothing was answered"
    assert not sum(each.errors for each in getters), "not all were answered with 200"
    cpu = sum(spent) / counted * 1e6
    return Measured(counted / wall, cpu, client / counted * 1e6, max(spent) / sum(spent))


def serving_pids(writer: int) -> list[int]:
    children = Path(f"/proc/{writer}/task/{writer}/children").read_text().split()
    return [writer, *map(int, children)]


def measure(processes: int, options: argparse.Namespace) -> Measured:
    with server(f"--serving-processes={processes}") as shard:
        if processes > 1:
            wait_for_processes(shard, processes)
        body = {"metadata": {"name": "measured"}, "data": {"text": "x" * 1200}}
        made = shard.client(cluster="root").post("/api/v1/namespaces/default/configmaps", body)
        assert made.status == 201, made
        return uvloop.run(load(shard, options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, default=4)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; {options.connections} connections x {options.requests} gets")
    print(
        f"{'processes':>9} {'gets/s':>9} {'ratio':>6} {'µs CPU/get':>11} {'client':>7}"
        f" {'most':>9} {'capacity':>9} {'ratio':>6}"
    )
    first: Measured | None = None
    for processes in options.processes:
        found = measure(processes, options)
        first = first or found
        print(
            f"{processes:9} {found.gets:9,.0f} {found.gets / first.gets:6.2f} {found.cpu:11.1f}"
            f" {found.client:7.1f} {found.most:9,.0f} {found.capacity:9,.0f} {found.capacity / first.capacity:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
