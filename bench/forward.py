"""What forwarding costs: the proxy's CPU per small GET, per megabyte and per watch event, over TLS.

    python bench/forward.py [--seconds 3] [get] [list] [watch]

The server behind the proxy is that of `bench/wire.py`, the proxy is a process of its own that
forwards everything without authentication, and the client is this process. The server's own
CPU for the same requests, sent to it directly, is printed beside the proxy's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from wire import OBJECT, BenchClient, connect, make_certificate

from pykcp.clients.direct import Direct
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward, passed_headers
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.wire.exchange import Exchange, IncomingRequest
from pykcp.wire.listener import Listener
from pykcp.wire.settings import TLSSettings, WireSettings

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 1 << 20


class BenchProxy:
    """Forwards everything to one server."""

    def __init__(self, url: str, authority: str) -> None:
        trust = Trust.of_files(authority)
        self._forwarder = Forwarder(Direct(), trust, server_name="localhost")
        self._url = url

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return True

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        target = f"{request.path}?{request.query}" if request.query else request.path
        onward = Onward(self._url + target, passed_headers(request.headers), Tenant(""))
        if self._forwarder.start(exchange, onward, lambda: self._forward(exchange, onward)):
            return None
        return self._forward(exchange, onward)

    async def _forward(self, exchange: Exchange, onward: Onward) -> None:
        try:
            await self._forwarder.forward(exchange, onward)
        except SendFailed as error:
            exchange.respond(502, (), str(error).encode())


async def serve(directory: str, port: int) -> None:
    tls = TLSSettings(f"{directory}/tls.crt", f"{directory}/tls.key")
    proxy = BenchProxy(f"https://127.0.0.1:{port}", f"{directory}/tls.crt")
    listener = await Listener(proxy, WireSettings(), tls=tls).start("127.0.0.1", 0)
    print(listener.port, flush=True)
    await asyncio.get_running_loop().create_future()


class Process(NamedTuple):
    pid: int
    port: int

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[Process]:
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        try:
            yield Process(started.pid, int(started.stdout.readline()))
        finally:
            started.kill()


@contextlib.contextmanager
def processes() -> Iterator[tuple[Process, Process]]:
    """The server, and the proxy before it."""
    folder = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as directory:
        make_certificate(directory)
        with (
            process(str(folder / "wire.py"), "--serve", directory) as behind,
            process(__file__, "--serve", directory, "--port", str(behind.port)) as proxy,
        ):
            yield behind, proxy


def show(what: str, unit: str, direct: float, through: float, behind: float) -> None:
    print(
        f"{what:40} proxy {through:8.1f} µs per {unit}; server {direct:8.1f} directly, "
        f"{behind:8.1f} behind it",
        flush=True,
    )


async def requests(clients: list[BenchClient], each: int, path: str, seconds: float) -> int:
    end = time.perf_counter() + seconds

    async def worker(client: BenchClient) -> int:
        count = 0
        while time.perf_counter() < end:
            await client.request(path)
            count += 1
        return count

    return sum(await asyncio.gather(*(worker(c) for c in clients for _ in range(each))))


async def compare(
    what: str, unit: str, connections: int, each: int, path: str, per: float, seconds: float
) -> None:
    """`per`: units in one answer."""
    with processes() as (behind, proxy):
        clients = [await connect(behind.port, is_plain=False) for _ in range(connections)]
        await requests(clients, each, path, 0.3)
        before = behind.cpu()
        count = await requests(clients, each, path, seconds)
        direct = (behind.cpu() - before) / count / per * 1e6
        clients = [await connect(proxy.port, is_plain=False) for _ in range(connections)]
        await requests(clients, each, path, 0.3)
        before, before_proxy = behind.cpu(), proxy.cpu()
        count = await requests(clients, each, path, seconds)
        through = (proxy.cpu() - before_proxy) / count / per * 1e6
        show(what, unit, direct, through, (behind.cpu() - before) / count / per * 1e6)


async def get(seconds: float) -> None:
    path = "/api/v1/namespaces/default/configmaps/object"
    for connections, each in ((1, 1), (1, 16), (16, 1), (1, 64)):
        what = f"get, {connections} connections × {each} requests"
        await compare(what, "GET", connections, each, path, 1, seconds)


async def list_all(seconds: float) -> None:
    size = len(OBJECT) * 10_000 / _MIB
    await compare(f"list of {size:.0f} MiB", "MiB", 1, 1, "/list", size, seconds)


async def watch(seconds: float) -> None:
    with processes() as (behind, proxy):
        clients = [await connect(proxy.port, is_plain=False) for _ in range(10)]
        for client in clients:
            for _ in range(20):
                client.request("/watch")
        control = await connect(behind.port, is_plain=False)
        await clients[0].request("/list")
        rate, before, before_proxy = 100, behind.cpu(), proxy.cpu()
        count = int(rate * seconds)
        await control.request(f"/emit?{rate},{count}")
        events = count * 200
        through = (proxy.cpu() - before_proxy) / events * 1e6
        served = (behind.cpu() - before) / events * 1e6
        print(
            f"watch, 200 watchers × {rate}/s: proxy {through:.1f} µs per event; server {served:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", nargs="*", default=["get", "list", "watch"])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve, options.port))
        return
    for name in options.work:
        uvloop.run({"get": get, "list": list_all, "watch": watch}[name](options.seconds))


if __name__ == "__main__":
    main()
