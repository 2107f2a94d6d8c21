"""Forwarding between two listeners: a client, a proxy, and the server behind it."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from pykcp.aio.owner import spawn
from pykcp.clients.direct import Direct
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward, passed_headers
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import OutgoingRequest, Server
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.clients.relay import ForwardLimits
from pykcp.wire.exchange import Exchange, IncomingRequest

pytestmark = pytest.mark.timeout(60)

HELD = (256 + 64 + 64) * 1024
"""Octets that a proxy may hold each way: a window, and what may wait for the other side."""
TRAILERS = (("x-checksum", "abc"), ("x-shard", "one"))


class Http1Only(Trust):
    def context(self, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        return super().context(("http/1.1",))


class Proxy:
    """An application that forwards everything."""

    def __init__(self, port: int, trust: Trust, limits: ForwardLimits) -> None:
        self.connections = Direct()
        self._forwarder = Forwarder(self.connections, trust, limits)
        self._url = f"https://127.0.0.1:{port}"
        self.deferred = 0
        self.exchange: Any = None
        """The last one."""

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return True

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        self.exchange, request = exchange, exchange.request
        url = f"{self._url}{request.path}" + (f"?{request.query}" if request.query else "")
        onward = Onward(url, passed_headers(request.headers), Tenant(""))

        async def forward(failed: SendFailed | None = None) -> None:
            try:
                await self._forwarder.forward(exchange, onward, failed)
            except SendFailed as error:
                exchange.respond(502, (), str(error).encode())

        if self._forwarder.start(exchange, onward, forward):
            self.deferred += 1
            return None
        return forward()


Through = Callable[..., Any]


@pytest.fixture(params=["h2-h2", "h2-http1", "http1-h2", "http1-http1"])
async def through(
    request: Any, serve: Any, certificates: Any, hello: Any
) -> AsyncIterator[Through]:
    """`client, proxy = await through()`: each pair of protocols, before and behind the proxy."""
    near, far = request.param.split("-")
    authority = str(certificates.directory / "ca.crt")
    kinds = {"h2": Trust, "http1": Http1Only}
    clients: list[HttpClient] = []
    proxies: list[Proxy] = []

    async def make(
        application: Any = None, limits: ForwardLimits | None = None, **settings: Any
    ) -> tuple[HttpClient, Proxy]:
        hello.trailers = trailers
        behind = await serve(application, **settings)
        proxy = Proxy(behind.port, kinds[far].of_files(authority), limits or ForwardLimits())
        proxies.append(proxy)
        front = await serve(proxy, socket_buffer=16384)
        server = Server("https", "127.0.0.1", front.port, kinds[near].of_files(authority))
        client = HttpClient(server)
        clients.append(client)
        return client, proxy

    yield make
    for client in clients:
        client.close()
    for proxy in proxies:
        proxy.connections._pool.close()
    await asyncio.sleep(0)


def trailers(exchange: Exchange) -> None:
    stream = exchange.start(200, (("trailer", "x-checksum, x-shard"),))
    stream.write(b"body")
    stream.end(TRAILERS)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not happen")


def behind_protocol(hello: Any) -> str:
    protocol: str = hello.requests[-1].peer.protocol
    return protocol


async def test_get(through: Through):
    """The second one needs no task: the connection is there."""
    client, proxy = await through()
    for _ in range(3):
        response = await client.request("GET", "/hello")
        assert (response.status, await response.read(100)) == (200, b"hello\n")
        assert response.header("content-type") == "text/plain"
        assert response.header("content-length") == "6"
    assert proxy.deferred == 2


async def test_heads_of_many_answers(through: Through):
    """Most of them are passed on without being decoded; each has one of everything."""
    client, _ = await through()
    ids = set()
    for path, status, size in (
        ("/parts?1,5", 200, 5),
        ("/parts?1,5", 200, 5),
        ("/parts?1,6", 200, 6),
        ("/parts?1,5", 200, 5),
        ("/parts?4,50000", 200, 200_000),
        ("/parts?4,50000", 200, 200_000),
        ("/nothing", 404, 10),
        ("/nothing", 404, 10),
    ):
        response = await client.request("GET", path)
        body = await response.read(1 << 20)
        assert (response.status, len(body)) == (status, size)
        names = sorted(name for name, _ in response.headers)
        assert names == ["audit-id", "content-length", "content-type", "date"]
        assert response.header("content-length") == str(size)
        ids.add(response.header("audit-id"))
    assert len(ids) == 8


@pytest.mark.parametrize("through", ["h2-h2"], indirect=True)
async def test_forwarded_answers_need_no_garbage_collector(through: Through):
    """Collections took a tenth of a busy proxy's time."""
    client, proxy = await through()
    for path in ("/hello", "/hello", "/parts?4,50000", "/trailers"):  # all that is made once
        await (await client.request("GET", path)).read(1 << 20)
    proxy.exchange = None
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for path in ("/hello", "/parts?4,50000", "/trailers"):
            await (await client.request("GET", path)).read(1 << 20)
        proxy.exchange = None
        gc.collect()
        found = {type(one).__name__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert found.isdisjoint(("Relay", "Http2Call", "ClientStream", "Http2Exchange", "StreamState"))


async def test_statuses_and_empty_answers(through: Through):
    client, _ = await through()
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("HEAD", "/hello", 200),
        ("GET", "/no-content", 204),
        ("GET", "/boom", 500),
        ("GET", "/hello", 200),
    ):
        response = await client.request(method, path)
        assert response.status == status
        body = await response.read(100)
        assert bool(body) == (method != "HEAD" and status != 204)
    head = await client.request("HEAD", "/hello")
    assert head.header("content-length") in ("6", None)


async def test_ten_megabytes_both_ways(through: Through):
    client, _ = await through()

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(160):
            yield bytes([number]) * 65536

    session = await client.session()
    response = HttpResponse()
    request = OutgoingRequest("POST", "/stream_echo", body=None)
    response.stream = session.start(request, response)
    sending = asyncio.ensure_future(response.send(pieces()))
    received = hashlib.sha256()
    async for chunk in response.chunks():
        received.update(chunk)
    await sending
    expected = hashlib.sha256(b"".join([piece async for piece in pieces()]))
    assert received.digest() == expected.digest()


async def test_trailers(through: Through):
    client, _ = await through()
    response = await client.request("GET", "/trailers")
    assert await response.read(100) == b"body"
    assert tuple(response.trailers) == TRAILERS


async def test_slow_clients(through: Through, hello: Any):
    """The server is held back, and the proxy holds a few windows at most."""
    client, proxy = await through(socket_buffer=16384)
    response = await client.request("GET", "/floods")
    await hello.wait_for_streams(1)
    stream, seen = hello.streams[0], 0

    def is_still() -> bool:
        nonlocal seen
        before, seen = seen, stream.backlog
        return before == seen > 0

    for _ in range(3):
        await until(is_still)
    # Some or all of what the proxy holds may be in the transport, which has a limit of its own.
    assert proxy.exchange.unsent <= HELD
    response.close()
    await hello.wait_for("gone")


async def test_slow_servers(through: Through, hello: Any):
    """A server that does not read the body holds the client back."""
    client, proxy = await through()
    session = await client.session()
    response = HttpResponse()
    request = OutgoingRequest("POST", "/stream_unread", body=None)
    stream = response.stream = session.start(request, response)
    await hello.wait_for("started")
    still = 0
    for _ in range(2000):  # until the buffers of both sockets are full
        if stream.backlog == 0:
            stream.write(b"x" * 65536)
            still = 0
        else:
            still += 1
        if still > 20:
            break
        await asyncio.sleep(0.005)
    assert still > 20
    assert 0 < proxy.exchange.request.reader.size <= HELD
    response.close()
    if proxy.exchange.request.peer.protocol == behind_protocol(hello) == "HTTP/2.0":
        # HTTP/1.1 cannot tell that the client is gone while nothing is read from it.
        await hello.wait_for("cancelled")


async def test_a_server_that_dies_in_the_middle(through: Through):
    """The answer is broken off: it is not taken for complete."""
    client, _ = await through()
    response = await client.request("GET", "/late_boom")
    assert response.status == 200
    with pytest.raises(SendFailed):
        await response.read(1000)


async def test_no_server(through: Through, hello: Any, serve: Any):
    client, proxy = await through()
    proxy._url = "https://127.0.0.1:1"
    response = await client.request("GET", "/hello")
    assert response.status == 502
    assert b"connection refused" in await response.read(1000)


async def test_a_server_that_restarts(through: Through, serve: Any):
    """A connection that has gone meanwhile is replaced without an error."""
    client, proxy = await through()
    assert (await client.request("GET", "/hello")).status == 200
    (relayed,) = proxy.connections._pool._clients.values()
    for connection in [*relayed._connections]:
        connection.transport.abort()
    response = await client.request("GET", "/hello")
    assert response.status == 200


class Unanswered:
    """An application that receives requests, and answers only those for `/hello`."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.received = asyncio.Event()

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool:
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        if exchange.request.path == "/hello":
            exchange.respond(200, (), b"")
            return None
        self.methods.append(exchange.request.method)
        self.received.set()
        return self._wait()

    async def _wait(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize(("method", "times"), [("DELETE", 1), ("GET", 2)])
async def test_what_a_server_may_have_done_is_not_sent_again(
    through: Through, method: str, times: int
):
    """The connection is lost while a request is under way, each time that it is sent."""
    unanswered = Unanswered()
    client, proxy = await through(unanswered)
    assert (await client.request("GET", "/hello")).status == 200
    asking = spawn(client.request(method, "/anything"), "request")
    for _ in range(times):
        await unanswered.received.wait()
        unanswered.received.clear()
        (relayed,) = proxy.connections._pool._clients.values()
        for connection in [*relayed._connections]:
            connection.transport.abort()
    assert (await asking).status == 502
    assert unanswered.methods == [method] * times
    assert proxy.deferred


async def test_watches_stay(through: Through, hello: Any):
    client, _ = await through()
    response = await client.request("GET", "/watch")
    await hello.wait_for_streams(1)
    chunks = response.chunks()
    for number in range(5):
        hello.streams[0].write(b"event %d\n" % number)
        assert await anext(chunks) == b"event %d\n" % number
    response.close()
    await hello.wait_for("closed")


async def test_more_events_than_fit_a_window(through: Through, hello: Any):
    """The server hears that small events were taken, though not of each."""
    client, _ = await through()
    response = await client.request("GET", "/watch")
    await hello.wait_for_streams(1)
    (stream,) = hello.streams
    received, event = 0, b"x" * 999 + b"\n"
    chunks = response.chunks()
    for number in range(1, 601):
        stream.write(event)
        while received < number * len(event):
            received += len(await anext(chunks))
    assert stream.backlog == 0
    response.close()
    await hello.wait_for("closed")


async def test_clients_that_go(through: Through, hello: Any):
    """Also before the answer has begun, and when no task stands for the request."""
    client, _ = await through()
    await (await client.request("GET", "/hello")).read(100)
    waiting = asyncio.ensure_future(client.request("GET", "/waits"))
    await hello.wait_for("started")
    waiting.cancel()
    await hello.wait_for("cancelled")


async def test_time_to_the_first_byte(through: Through, hello: Any):
    client, _ = await through(limits=ForwardLimits(first_byte=0.05))
    response = await client.request("GET", "/waits")
    assert response.status == 502
    await hello.wait_for("cancelled")


async def test_answers_that_stop(through: Through, hello: Any):
    client, _ = await through(limits=ForwardLimits(idle=0.05))
    response = await client.request("GET", "/watch")
    with pytest.raises(SendFailed):
        await response.read(1000)
    await hello.wait_for("closed")


async def test_long_bodies(through: Through, hello: Any):
    client, _ = await through(limits=ForwardLimits(max_body=100_000))

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * 65536

    response = await client.request("POST", "/stream", (), pieces())
    assert response.status == 502
    assert b"request body too large" in await response.read(100)


class Switching:
    """A server of another protocol, which answers in capital letters."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.tunnel: Any = None

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Exchange) -> None:
        if exchange.request.path == "/refused":
            exchange.respond(403, (), b"no")
            return
        assert exchange.wanted_protocol == "SPDY/3.1"
        self.tunnel = exchange.tunnel((("x-stream-protocol-version", "v4"),), self)
        self.tunnel.write(b"hello ")

    def write(self, data: bytes) -> None:
        self.tunnel.write(data.upper())
        self.tunnel.consumed(len(data))
        if b"bye" in data:
            self.tunnel.end()

    def end(self) -> None:
        """Nothing ends before the connection."""

    def fail(self, _error: Exception) -> None:
        self.closed.set()


async def test_other_protocols(through: Through):
    """As exec and port-forward use them: octets both ways after the switch."""
    server = Switching()
    client, _ = await through(server)
    request = OutgoingRequest("GET", "/exec", upgrade="SPDY/3.1")
    session = await client.own_session()
    response = HttpResponse()
    stream = response.stream = session.start(request, response)
    await response.wait_for_head()
    assert response.status == 101
    assert response.header("x-stream-protocol-version") == "v4"
    stream.write(b"x" * 300_000)
    received = b""
    async for chunk in response.chunks():
        received += chunk
        if len(received) == 300_006:
            stream.write(b"bye")
    assert received == b"hello " + b"X" * 300_000 + b"BYE"


async def test_switching_can_be_refused_and_broken_off(through: Through):
    server = Switching()
    client, _ = await through(server)
    session = await client.own_session()
    response = HttpResponse()
    request = OutgoingRequest("GET", "/refused", upgrade="SPDY/3.1")
    response.stream = session.start(request, response)
    assert await response.read(10) == b"no"
    assert response.status == 403
    session, response = await client.own_session(), HttpResponse()
    response.stream = session.start(request._replace(target="/exec"), response)
    await response.wait_for_head()
    response.close()
    async with asyncio.timeout(10):
        await server.closed.wait()


async def test_websockets(through: Through, hello: Any):
    """The handshake is the server's to answer."""
    client, _ = await through()
    key = base64.b64encode(b"0123456789abcdef").decode()
    headers = (
        ("sec-websocket-key", key),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
    )

    async def socket(exchange: Exchange) -> None:
        made = exchange.websocket("v4.channel.k8s.io")
        async for message in made.messages():
            made.write(message if isinstance(message, bytes) else message.encode())

    hello.socket = socket
    session, response = await client.own_session(), HttpResponse()
    request = OutgoingRequest("GET", "/socket", headers, upgrade="websocket")
    stream = response.stream = session.start(request, response)
    await response.wait_for_head()
    magic = key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(magic).digest()).decode()
    assert response.status == 101
    assert response.header("sec-websocket-accept") == accept
    assert response.header("sec-websocket-protocol") == "v4.channel.k8s.io"
    stream.write(b"\x82\x84\0\0\0\0ping")
    assert await anext(response.chunks()) == b"\x82\x04ping"
    response.close()
