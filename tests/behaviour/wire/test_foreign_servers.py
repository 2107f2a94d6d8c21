"""The HTTP client against servers that we did not write, and against hostile ones."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import hpack
import pytest

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.wire.http2 import frames
from pykcp.wire.settings import ClientSettings

pytestmark = pytest.mark.timeout(60)

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SERVER_GREETING = frames.settings({})


def head(stream: int, *fields: tuple[str, str], flags: int = 4, status: str = "200") -> bytes:
    block: bytes = hpack.Encoder().encode([(":status", status), *fields])
    return frames.frame(frames.HEADERS, flags, stream, block)


@pytest.fixture
async def against(certificates: Any) -> AsyncIterator[Callable[..., Awaitable[HttpClient]]]:
    """`client = await against(behave)`: a client of a server that says what it likes."""
    servers: list[asyncio.Server] = []
    clients: list[HttpClient] = []
    files = certificates.directory
    answering: set[asyncio.Task[None] | None] = set()

    async def make(behave: Behave, protocol: str = "h2", **settings: Any) -> HttpClient:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files / "server.crt", files / "server.key")
        context.set_alpn_protocols([protocol])

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answering.add(asyncio.current_task())
            try:
                await behave(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                pass  # the client had enough
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        trust = Trust.of_files(str(files / "ca.crt"))
        client = HttpClient(Server("https", "127.0.0.1", port, trust), ClientSettings(**settings))
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
    for server in servers:
        server.close()
    await asyncio.gather(*(task for task in answering if task is not None))


async def request_came(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"SM\r\n\r\n")
    await reader.readexactly(9)


def says(*pieces: bytes) -> Behave:
    """Sends this when the client has greeted, then waits until the client goes."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_came(reader)
        writer.write(SERVER_GREETING)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        while await reader.read(65536):
            pass

    return behave


async def test_the_h2_library(against: Any):
    """Another implementation of the protocol answers, with compression and trailers."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(config)
        connection.initiate_connection()
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    connection.acknowledge_received_data(
                        event.flow_controlled_length, event.stream_id
                    )
                    connection.send_data(event.stream_id, event.data) if event.data else None
                elif isinstance(event, h2.events.RequestReceived):
                    path = dict(event.headers)[":path"]
                    answer = [(":status", "200"), ("x-path", path), ("x-long", "y" * 300)]
                    connection.send_headers(event.stream_id, answer)
                elif isinstance(event, h2.events.StreamEnded):
                    connection.send_headers(event.stream_id, [("x-sum", "1")], end_stream=True)
            writer.write(connection.data_to_send())

    client = await against(behave)
    for number in range(20):
        response = await client.request("POST", f"/{number}", (("x-a", "b"),), b"abc" * number)
        assert response.header("x-path") == f"/{number}"
        assert await response.read(1000) == b"abc" * number
        assert response.trailers == [("x-sum", "1")]
    assert len(client._connections) == 1


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="another protocol"),
        pytest.param(frames.frame(frames.PING, 0, 0, b"12345678") * 20_000, id="pings"),
        pytest.param(frames.settings({1: 0}) * 20_000, id="settings"),
        pytest.param(frames.frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x88"), id="push"),
        pytest.param(
            frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(9, 0, 1, b"x") * 1000,
            id="continuations",
        ),
        pytest.param(head(1, *[("a", "b" * 1000)] * 15) * 1, id="large head"),
        pytest.param(head(1, status="100") * 20_000, id="interim answers"),
        pytest.param(frames.goaway(0, 0xB, "enough"), id="goaway"),
        pytest.param(frames.reset(1, 2), id="reset"),
    ],
)
async def test_hostile_servers(against: Any, octets: bytes):
    """The request fails, in bounded time and memory."""
    client = await against(says(octets), max_header_list_size=8192)
    with pytest.raises(SendFailed):
        await client.request("GET", "/")


async def test_silent_servers(against: Any):
    """A PING that is not answered ends the connection, and not before its time."""
    client = await against(says(b"\0\0\0"), ping_after=0.2, ping_timeout=0.3)
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(30):
        with pytest.raises(SendFailed, match="EOF"):
            await client.request("GET", "/")
    assert asyncio.get_running_loop().time() - started >= 0.5


async def test_endless_bodies(against: Any):
    """No more than a window comes before it is read; readers say how much they want."""
    chunk = frames.frame(frames.DATA, 0, 1, b"x" * 16384)
    client = await against(says(head(1), *[chunk] * 1000), first_window=100_000)
    response = await client.request("GET", "/")
    with pytest.raises(SendFailed):  # the window was not respected
        await response.read(1 << 30)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "malformed"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "malformed",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", "malformed"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "malformed"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
            "malformed",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "unexpected EOF"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed"),
        (b"", "EOF"),
    ],
)
async def test_hostile_http1_servers(against: Any, octets: bytes, why: str):
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(octets)
        await writer.drain()

    client = await against(behave, "http/1.1", max_header_list_size=8192)
    with pytest.raises(SendFailed, match=why):
        await (await client.request("GET", "/")).read(1000)


async def test_answers_nobody_asked_for(against: Any):
    """A second answer on a connection is not taken for that to the next request."""

    was_read, was_dropped = asyncio.Event(), asyncio.Event()

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await was_read.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        await reader.read(1)
        was_dropped.set()

    client = await against(behave, "http/1.1")
    for _ in range(3):
        response = await client.request("GET", "/")
        assert await response.read(100) == b"ok"
        was_read.set()
        await was_dropped.wait()
        was_read.clear()
        was_dropped.clear()


@pytest.mark.client
@pytest.mark.skipif(shutil.which("nghttpd") is None, reason="nghttpd is not installed")
async def test_nghttpd(certificates: Any, tmp_path: Path):
    """Files of several sizes, many at a time, and one that grows by what is posted."""
    files = certificates.directory
    sizes = (0, 1, 16384, 16385, 1 << 20, 5 << 20)
    root = tmp_path / "root"
    root.mkdir()
    for size in sizes:
        (root / str(size)).write_bytes(b"x" * size)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = await asyncio.create_subprocess_exec(
        *("nghttpd", "--address=127.0.0.1", "-d", str(root), "--echo-upload", "--trailer=x-t: 1"),
        *(str(port), str(files / "server.key"), str(files / "server.crt")),
        stdout=asyncio.subprocess.DEVNULL,
    )
    client = HttpClient(Server("https", "127.0.0.1", port, Trust.of_files(str(files / "ca.crt"))))
    try:
        for _ in range(200):
            try:
                await client.session()
                break
            except SendFailed:
                await asyncio.sleep(0.05)
        answers = await asyncio.gather(*(client.request("GET", f"/{size}") for size in sizes * 5))
        bodies = await asyncio.gather(*(answer.read(10 << 20) for answer in answers))
        assert [len(body) for body in bodies] == [*sizes] * 5
        assert {answer.status for answer in answers} == {200}
        assert ("x-t", "1") in answers[4].trailers
        echoed = await client.request("POST", "/echo", (), b"y" * (1 << 20))
        assert await echoed.read(2 << 20) == b"y" * (1 << 20)
        missing = await client.request("GET", "/missing")
        assert missing.status == 404
    finally:
        client.close()
        program.kill()
        await program.wait()
