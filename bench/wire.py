"""What the wire costs: server CPU per small GET and per delivered watch event, over TLS.

    python bench/wire.py [--seconds 5] [--plain] [get] [watch] [list]

The server is a subprocess with a trivial application; the client is this process, so the rates
are those of two processes on one machine.  CPU per operation is the figure to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

import hpack
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pykcp.wire.exchange import Exchange, IncomingRequest, Stream
from pykcp.wire.http2 import frames
from pykcp.wire.listener import Listener
from pykcp.wire.settings import TLSSettings, WireSettings

OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","data":{"k":"' + b"v" * 1450 + b'"}}'
HEADERS = (("content-type", "application/json"), ("cache-control", "no-cache, private"))


# -- the server ----------------------------------------------------------------------------------


class BenchApplication:
    """GET answers an object, /watch keeps the stream for /emit, /cpu tells what has been used."""

    def __init__(self) -> None:
        self.watches: list[Stream] = []
        self.emitted = 0

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        if request.path == "/watch":
            self.watches.append(exchange.start(200, HEADERS))
        elif request.path == "/emit":
            return self.emit(exchange, *map(int, request.query.split(",")))
        elif request.path == "/cpu":
            exchange.respond(200, HEADERS, json.dumps(time.process_time()).encode())
        elif request.path == "/list":
            exchange.respond(200, HEADERS, [OBJECT] * 10_000)
        else:
            exchange.respond(200, HEADERS, OBJECT)
        return None

    async def emit(self, exchange: Exchange, rate: int, count: int) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number in range(count):
            event = OBJECT[:-20] + b"%019d\n" % number
            for stream in self.watches:
                stream.write(event)
            await asyncio.sleep(max(0.0, start + (number + 1) / rate - loop.time()))
        backlog = max((stream.backlog for stream in self.watches), default=0)
        exchange.respond(200, HEADERS, b"%d" % backlog)


async def serve(directory: str | None) -> None:
    tls = None
    if directory:
        tls = TLSSettings(f"{directory}/tls.crt", f"{directory}/tls.key")
    listener = await Listener(BenchApplication(), WireSettings(), tls=tls).start("127.0.0.1", 0)
    print(listener.port, flush=True)
    await asyncio.get_running_loop().create_future()


@contextlib.contextmanager
def server(is_plain: bool) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as directory:
        if not is_plain:
            make_certificate(directory)
        command = [sys.executable, __file__, "--serve", "" if is_plain else directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                yield int(process.stdout.readline())
            finally:
                process.kill()


def make_certificate(directory: str) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", f"{directory}/tls.key", "-out", f"{directory}/tls.crt"),
            *("-days", "2", "-subj", "/CN=localhost"),
        ],
        check=True,
        capture_output=True,
    )


# -- the client ----------------------------------------------------------------------------------


class BenchClient(asyncio.Protocol):
    """A small HTTP/2 client with windows so large that it never has to update them."""

    def __init__(self) -> None:
        self.encoder = hpack.Encoder()
        self.next_id = 1
        self.buffer = b""
        self.bodies: dict[int, list[bytes]] = {}
        self.waiters: dict[int, asyncio.Future[bytes]] = {}
        self.received = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        hello = frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**31 - 1})
        transport.write(frames.PREFACE + hello + frames.window_update(0, 2**31 - 65536))

    def request(self, path: str) -> asyncio.Future[bytes]:
        block = self.encoder.encode(
            [
                (":authority", "127.0.0.1:6443"),
                (":method", "GET"),
                (":path", path),
                (":scheme", "https"),
                ("accept", "application/json"),
                ("authorization", "Bearer abcdefghijklmnopqrstuvwxyz0123456789"),
                ("accept-encoding", "gzip"),
                ("user-agent", "bench/1.0"),
            ]
        )
        stream_id, self.next_id = self.next_id, self.next_id + 2
        self.transport.write(frames.frame(frames.HEADERS, 5, stream_id, block))
        waiter = self.waiters[stream_id] = asyncio.get_running_loop().create_future()
        return waiter

    def data_received(self, data: bytes) -> None:
        data = self.buffer + data
        position = 0
        while len(data) - position >= 9:
            word, flags, stream_id = frames.HEADER.unpack_from(data, position)
            end = position + 9 + (word >> 8)
            if end > len(data):
                break
            kind = word & 0xFF
            if kind == frames.DATA:
                self.received += word >> 8
                if not flags & frames.END_STREAM:
                    self.bodies.setdefault(stream_id, []).append(b"")
            if kind == frames.GOAWAY:
                raise ConnectionError(data[position:end])
            if kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM:
                self.bodies.pop(stream_id, None)
                self.waiters.pop(stream_id).set_result(data[position + 9 : end])
            position = end
        self.buffer = data[position:]


async def connect(port: int, is_plain: bool) -> BenchClient:
    context = None
    if not is_plain:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(BenchClient, "127.0.0.1", port, ssl=context)
    return client


class Meter:
    """Server CPU and wall time around a piece of work."""

    def __init__(self, client: BenchClient) -> None:
        self.client = client

    async def __aenter__(self) -> Self:
        self.cpu = float(await self.client.request("/cpu"))
        self.wall = time.perf_counter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.cpu = float(await self.client.request("/cpu")) - self.cpu

    def print(self, what: str, count: int) -> None:
        each = self.cpu / count * 1e6
        print(f"{what:52} {each:9.2f} µs CPU {count / self.wall:12,.0f}/s", flush=True)


async def get(port: int, is_plain: bool, seconds: float) -> None:
    for connections, in_flight, paths in (
        (1, 1, 1),
        (1, 16, 1),
        (1, 16, 1000),
        (16, 1, 1),
        (16, 1, 1000),
        (1, 64, 1),
        (1, 64, 1000),
    ):
        clients = [await connect(port, is_plain) for _ in range(connections)]
        done = 0
        end = time.perf_counter() + seconds

        async def worker(client: BenchClient, number: int, paths: int, end: float) -> int:
            count = 0
            while time.perf_counter() < end:
                name = (number * 7919 + count) % paths
                await client.request(f"/api/v1/namespaces/default/configmaps/object-{name}")
                count += 1
            return count

        async with Meter(clients[0]) as meter:
            work = [
                worker(client, number, paths, end)
                for client in clients
                for number in range(in_flight)
            ]
            done = sum(await asyncio.gather(*work))
        names = "one object" if paths == 1 else f"{paths} objects"
        meter.print(f"get, {connections} connections × {in_flight} requests, {names}", done)
        for client in clients:
            client.transport.close()


async def watch(port: int, is_plain: bool, seconds: float) -> None:
    clients = [await connect(port, is_plain) for _ in range(10)]
    for client in clients:
        for _ in range(100):
            client.request("/watch")
    control = await connect(port, is_plain)
    while len(await control.request("/list")) == 0:
        pass
    for rate in (20, 100, 200):
        count = int(rate * seconds)
        before = sum(client.received for client in clients)
        async with Meter(control) as meter:
            backlog = int(await control.request(f"/emit?{rate},{count}"))
        meter.print(f"watch, 1000 watchers × {rate}/s (backlog {backlog})", count * 1000)
        assert sum(client.received for client in clients) > before


async def list_all(port: int, is_plain: bool, seconds: float) -> None:
    client = await connect(port, is_plain)
    end = time.perf_counter() + seconds
    done = 0
    async with Meter(client) as meter:
        while time.perf_counter() < end:
            await client.request("/list")
            done += 1
    meter.print("list of 10,000 objects of 1.5 KB", done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="*", default=["get", "watch", "list"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve))
        return
    works = {"get": get, "watch": watch, "list": list_all}
    for name in options.work:
        with server(options.plain) as port:
            uvloop.run(works[name](port, options.plain, options.seconds))


if __name__ == "__main__":
    main()
