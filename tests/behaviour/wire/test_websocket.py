"""WebSockets with wsproto as the client."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: a, b\r\n\r\n"
)


class Sockets:
    """Accepts every WebSocket and hands it to the test; echoes if asked to."""

    def __init__(self) -> None:
        self.sockets: asyncio.Queue[Any] = asyncio.Queue()
        self.heard: list[Any] = []
        self.ended = asyncio.Event()
        self.is_busy = False

    def wants_streaming(self, request: Any) -> bool:
        return False

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Any) -> Any:
        if not exchange.wants_websocket():
            exchange.respond(400, (), b"not a WebSocket\n")
            return None
        return self.talk(exchange)

    async def talk(self, exchange: Any) -> None:
        await asyncio.sleep(0)
        socket = exchange.websocket("b", (("x-extra", "y"),))
        with pytest.raises(RuntimeError):
            exchange.websocket("b")
        self.sockets.put_nowait(socket)
        if self.is_busy:
            await asyncio.get_running_loop().create_future()
        async for message in socket.messages():
            self.heard.append(message)
            if message == "echo":
                socket.write_text("echoed")
                socket.write(b"echoed")
        self.ended.set()


class Client:
    """wsproto on a connection."""

    def __init__(self, octets: Any) -> None:
        self.octets = octets
        self.framing = Connection(ConnectionType.CLIENT)
        self.events: deque[Any] = deque()

    async def open(self, early: bytes = b"") -> str:
        self.octets.send(HANDSHAKE + early)
        head: bytes = await self.octets.read_until(b"\r\n\r\n")
        return head.decode()

    def send(self, event: Any) -> None:
        self.octets.send(self.framing.send(event))

    async def next(self) -> Any:
        while not self.events:
            async with asyncio.timeout(10):
                data = await self.octets.reader.read(65536)
            self.framing.receive_data(data or None)
            self.events.extend(self.framing.events())
        return self.events.popleft()


@pytest.fixture
async def sockets() -> Sockets:
    return Sockets()


@pytest.fixture
async def client(sockets: Sockets, serve: Any, connect: Any) -> Client:
    return Client(await connect.http1(await serve(sockets, max_websocket_message=100_000)))


async def test_talk(client: Client, sockets: Sockets):
    """Both directions, both kinds, pings, and a close by the client."""
    head = await client.open()
    assert head.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
    assert "sec-websocket-protocol: b\r\n" in head
    assert "x-extra: y\r\n" in head
    socket = await sockets.sockets.get()
    assert socket.subprotocol == "b"
    client.send(TextMessage("echo"))
    client.send(BytesMessage(b"octets"))
    assert (await client.next()).data == "echoed"
    assert (await client.next()).data == b"echoed"
    client.send(Ping(b"?"))
    assert await client.next() == Pong(b"?")
    assert socket.backlog == 0
    client.send(CloseConnection(1000, "done"))
    assert (await client.next()).code == 1000
    await asyncio.wait_for(sockets.ended.wait(), 5)
    assert sockets.heard == ["echo", b"octets"]
    assert socket.closed
    assert await client.octets.read_to_end() == b""


async def test_frames_right_behind_the_handshake(client: Client, sockets: Sockets):
    """A hasty client's first words are not lost."""
    await client.open(early=client.framing.send(TextMessage("echo")))
    assert (await client.next()).data == "echoed"


async def test_fragments(client: Client, sockets: Sockets):
    """A message may come in pieces."""
    await client.open()
    for piece, is_last in (("ec", False), ("h", False), ("o", True)):
        client.send(TextMessage(piece, message_finished=is_last))
    assert (await client.next()).data == "echoed"
    assert sockets.heard == ["echo"]


async def test_end_by_the_application(client: Client, sockets: Sockets):
    """A close frame; messages end; callbacks are called once."""
    await client.open()
    socket = await sockets.sockets.get()
    closed: list[int] = []
    socket.on_close(lambda: closed.append(1))
    socket.write(b"last")
    socket.end()
    socket.end()
    socket.write(b"too late")
    assert (await client.next()).data == b"last"
    assert (await client.next()).code == 1000
    client.send(CloseConnection(1000))
    assert await client.octets.read_to_end() == b""
    assert closed == [1]
    with pytest.raises(ConnectionError):
        await socket.drain()


async def test_abort(client: Client, sockets: Sockets):
    """No close frame: the client cannot take it for an end."""
    await client.open()
    socket = await sockets.sockets.get()
    socket.abort()
    assert await client.octets.read_to_end() == b""
    assert socket.closed


async def test_client_disappears(client: Client, sockets: Sockets):
    """The socket is closed and the handler cancelled."""
    await client.open()
    socket = await sockets.sockets.get()
    closed = asyncio.Event()
    socket.on_close(closed.set)
    client.octets.writer.transport.abort()
    await asyncio.wait_for(closed.wait(), 5)


async def test_message_too_large(client: Client, sockets: Sockets):
    """Is refused with its own code, before it is complete."""
    await client.open()
    client.send(BytesMessage(b"x" * 60_000, message_finished=False))
    client.send(BytesMessage(b"x" * 60_000, message_finished=False))
    assert (await client.next()).code == 1009
    assert await client.octets.read_to_end() == b""


async def test_bad_frames(client: Client, sockets: Sockets):
    """Are a protocol error."""
    await client.open()
    client.octets.send(b"\xff\xff\xff\xff")
    assert (await client.next()).code == 1002
    assert await client.octets.read_to_end() == b""


async def test_slow_reader(client: Client, sockets: Sockets):
    """The backlog is visible and `drain` waits for it."""
    await client.open()
    socket = await sockets.sockets.get()
    for _ in range(200):
        socket.write(b"x" * 100_000)
    drained = asyncio.ensure_future(socket.drain())
    await asyncio.sleep(0)
    assert socket.backlog > 10_000_000
    size = 0
    while size < 20_000_000:
        size += len((await client.next()).data)
    await asyncio.wait_for(drained, 5)
    assert socket.backlog == 0


async def test_messages_that_nobody_reads(client: Client, sockets: Sockets):
    """Are kept up to a limit; then the client has to wait."""
    sockets.is_busy = True
    await client.open()
    socket = await sockets.sockets.get()
    for _ in range(300):
        client.send(BytesMessage(b"x" * 50_000))
    async with asyncio.timeout(10):
        while socket._inbox_size <= 100_000:  # noqa: ASYNC110  # there is no event for this
            await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert socket._inbox_size < 200_000
    assert not socket.connection._is_reading
    client.octets.writer.transport.abort()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"GET", b"POST"),
        (b"WebSocket\r\n", b"other\r\n"),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"dG9vIHNob3J0"),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"!"),
        (b"Version: 13", b"Version: 8"),
        (b"keep-alive, Upgrade", b"keep-alive"),
    ],
)
async def test_no_websocket_request(client: Client, old: bytes, new: bytes):
    """Whatever is missing, it is an ordinary request."""
    client.octets.send(HANDSHAKE.replace(old, new, 1))
    head = await client.octets.read_until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")


async def test_refused_websocket(serve: Any, connect: Any):
    """The application may answer as to any request; the connection goes on."""
    client = await connect.http1(await serve())
    client.send(HANDSHAKE + b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await client.read_until(b"not found\n")).startswith(b"HTTP/1.1 404 ")
    assert (await client.read_until(b"hello\n")).startswith(b"HTTP/1.1 200 ")


async def test_clients_that_do_not_answer_the_close(
    sockets: Sockets, serve: Any, connect: Any, monkeypatch: Any
):
    """Are not waited for."""
    monkeypatch.setattr("pykcp.wire.websocket._CLOSE_GRACE", 0.05)
    client = Client(await connect.http1(await serve(sockets, idle_timeout=0.2)))
    await client.open()
    (await sockets.sockets.get()).end()
    assert (await client.octets.read_to_end()).startswith(b"\x88")
