"""The HTTP client against our own listener, over TLS, with HTTP/2 and HTTP/1.1."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.connection import ClientConnection
from pykcp.clients.http.interface import OutgoingRequest, Server
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.http.trust import Trust
from pykcp.wire.settings import ClientSettings

pytestmark = pytest.mark.timeout(60)

Connect = Callable[..., HttpClient]


class Http1Only(Trust):
    """Speaks HTTP/1.1 to servers that could do better."""

    def context(self, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        return super().context(("http/1.1",))


@pytest.fixture
async def connect(certificates: Any) -> AsyncIterator[Connect]:
    """`connect(listener, http1=True, …)`: a client of a listener."""
    clients = []
    authority = str(certificates.directory / "ca.crt")

    def make(
        listener: Any, http1: bool = False, trust: Trust | None = None, **settings: Any
    ) -> HttpClient:
        kind = Http1Only if http1 else Trust
        server = Server("https", "127.0.0.1", listener.port, trust or kind.of_files(authority))
        client = HttpClient(server, ClientSettings(**settings))
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
    await asyncio.sleep(0)


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it did not happen")


both = pytest.mark.parametrize("http1", [False, True], ids=["h2", "http1"])


@both
async def test_get(serve: Any, connect: Connect, http1: bool):
    client = connect(await serve(), http1)
    response = await client.request("GET", "/hello")
    assert response.status == 200
    assert response.header("content-type") == "text/plain"
    assert await response.read(100) == b"hello\n"
    peer = await (await client.request("GET", "/peer")).read(100)
    assert peer.decode().split()[0] == ("HTTP/1.1" if http1 else "HTTP/2.0")


@both
async def test_head_and_no_content(serve: Any, connect: Connect, http1: bool):
    """Answers without a body leave the connection in order."""
    client = connect(await serve(), http1)
    for method, path in (("HEAD", "/hello"), ("GET", "/no-content"), ("HEAD", "/hello")):
        response = await client.request(method, path)
        assert response.status in (200, 204)
        assert await response.read(100) == b""
    count = await (await client.request("GET", "/peer")).read(100)
    assert count.split()[2] == b"1"
    assert len(client._connections) == 1


@both
async def test_large_bodies_both_ways(serve: Any, connect: Connect, http1: bool):
    """Ten megabytes in pieces, answered while they are sent."""
    client = connect(await serve(), http1)

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(160):
            yield bytes([number]) * 65536

    request = OutgoingRequest("POST", "/stream_echo", body=None)
    session = await client.session()
    response = HttpResponse()
    response.stream = session.start(request, response)
    sending = asyncio.ensure_future(response.send(pieces()))
    received = b"".join([chunk async for chunk in response.chunks()])
    await sending
    assert received == b"".join([piece async for piece in pieces()])


async def test_one_connection_for_many(serve: Any, connect: Connect):
    client = connect(await serve())
    answers = await asyncio.gather(*(client.request("GET", "/slow") for _ in range(50)))
    assert [await answer.read(10) for answer in answers] == [b"slow\n"] * 50
    assert len(client._connections) == 1


async def test_another_connection_when_streams_are_used_up(
    serve: Any, connect: Connect, hello: Any
):
    """And the first one again when there is room."""
    client = connect(await serve(max_concurrent_streams=2))
    (await client.request("GET", "/hello")).close()
    waiting = [asyncio.ensure_future(client.request("GET", "/gated")) for _ in range(5)]
    await hello.wait_for_requests(6)
    assert len(client._connections) == 3
    hello.gate.set()
    for task in waiting:
        assert await (await task).read(10) == b"gated\n"


async def test_goaway(serve: Any, connect: Connect, hello: Any):
    """A connection that the server takes away is replaced; what is under way is finished."""
    client = connect(await serve())
    held = asyncio.ensure_future(client.request("GET", "/gated"))
    await hello.wait_for_requests(1)
    assert await (await client.request("GET", "/closes")).read(10) == b"bye\n"
    (first,) = client._connections
    await until(lambda: first.session is None or not first.session.has_room)
    peer = await (await client.request("GET", "/peer")).read(100)
    assert peer.split()[2] == b"1"
    hello.gate.set()
    assert await (await held).read(10) == b"gated\n"
    await until(lambda: first not in client._connections)


@both
async def test_a_reader_that_does_not_read(serve: Any, connect: Connect, hello: Any, http1: bool):
    """The server is held back; no more than a window is kept here."""
    client = connect(await serve(socket_buffer=16384), http1, first_window=100_000)
    response = await client.request("GET", "/floods")
    stream = await _stalled(hello)
    held = sum(map(len, response._pieces))
    assert 0 < held <= 100_000 + (65536 if http1 else 0)
    assert stream.backlog > 0
    response.close()
    await hello.wait_for("gone")


async def _stalled(hello: Any) -> Any:
    """The stream of an answer, when the server has waited for its client for a while."""
    await hello.wait_for_streams(1)
    stream = hello.streams[0]
    seen = 0

    def is_still() -> bool:
        nonlocal seen
        before, seen = seen, stream.backlog
        return before == seen > 0

    for _ in range(3):  # not only between two of its turns
        await until(is_still)
    return stream


@both
async def test_break_off(serve: Any, connect: Connect, hello: Any, http1: bool):
    """An answer that is broken off is not taken for complete."""
    client = connect(await serve(), http1)
    response = await client.request("GET", "/late_boom")
    with pytest.raises(SendFailed):
        await response.read(1000)


async def test_cancelled_requests_reach_the_server(serve: Any, connect: Connect, hello: Any):
    client = connect(await serve())
    task = asyncio.ensure_future(client.request("GET", "/waits"))
    await hello.wait_for("started")
    task.cancel()
    await hello.wait_for("cancelled")
    assert (await client.request("GET", "/hello")).status == 200


@both
async def test_early_answer(serve: Any, connect: Connect, http1: bool):
    """The server answers without reading the body, of which the rest is not sent."""
    client = connect(await serve(), http1)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    response = await client.request("POST", "/stream_ignored", (), endless())
    assert response.status == 403
    assert (await client.request("GET", "/hello")).status == 200


async def test_certificates(serve: Any, connect: Connect, certificates: Any):
    """Ours is shown; theirs is verified: its issuer, its name."""
    listener = await serve()
    files = certificates.directory
    shown = Trust.of_files(
        str(files / "ca.crt"), str(files / "client.crt"), str(files / "client.key")
    )
    text = await (await connect(listener, trust=shown).request("GET", "/peer")).read(100)
    assert text.endswith(b"True")
    with pytest.raises(SendFailed, match="certificate signed by unknown authority"):
        await connect(listener, trust=Trust.of_files()).request("GET", "/hello")
    named = Server("https", "127.0.0.1", listener.port, shown, server_name="other.example")
    with pytest.raises(SendFailed, match="failed to verify certificate"):
        await HttpClient(named).request("GET", "/hello")
    anybody = await connect(listener, trust=Trust.unverified()).request("GET", "/hello")
    assert anybody.status == 200


async def test_pinned_addresses(serve: Any, certificates: Any):
    """The name is not looked up: only the addresses given are connected to."""
    listener = await serve()
    trust = Trust.of_files(str(certificates.directory / "ca.crt"))
    server = Server("https", "nowhere.invalid", listener.port, trust, "localhost", ("127.0.0.1",))
    async with HttpClient(server) as client:
        assert (await client.request("GET", "/hello")).status == 200


async def test_nobody_there(connect: Connect, serve: Any):
    listener = await serve()
    client = connect(listener)
    await listener.close()
    with pytest.raises(SendFailed, match="connect: connection refused"):
        await client.request("GET", "/hello")


@pytest.mark.parametrize("is_there", [True, False], ids=["not trusted", "nobody there"])
async def test_failed_connections_need_no_garbage_collector(
    connect: Connect, serve: Any, is_there: bool
):
    listener = await serve()
    client = connect(listener, trust=Trust.of_files())
    if not is_there:
        await listener.close()
    known = {id(o) for o in gc.get_objects() if isinstance(o, ClientConnection)}
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(SendFailed):
                await client.request("GET", "/hello")
        await asyncio.sleep(0)
        left = [o for o in gc.get_objects() if isinstance(o, ClientConnection)]
        assert {id(o) for o in left} <= known
    finally:
        gc.enable()


async def test_dialling_is_shared(serve: Any, connect: Connect):
    """Also its failure."""
    listener = await serve()
    client = connect(listener)
    await listener.close()
    results = await asyncio.gather(
        *(client.request("GET", "/hello") for _ in range(20)), return_exceptions=True
    )
    assert all(isinstance(result, SendFailed) for result in results)


async def test_idle_connections_close(serve: Any, connect: Connect):
    client = connect(await serve(), idle_timeout=0.01)
    assert (await client.request("GET", "/hello")).status == 200
    await asyncio.sleep(0.02)
    client._check()
    await until(lambda: not client._connections)


@both
@pytest.mark.parametrize("target", ["/a b", "/a\r\nX-Remote-User: admin", "/\u00e9"])
async def test_what_is_no_path_is_not_sent(serve: Any, connect: Connect, http1: bool, target: str):
    client = connect(await serve(), http1)
    with pytest.raises(ValueError, match="cannot be sent"):
        await client.request("GET", target)


@both
async def test_what_is_no_header_is_not_sent(serve: Any, connect: Connect, http1: bool):
    client = connect(await serve(), http1)
    with pytest.raises(ValueError, match="cannot be sent"):
        await client.request("GET", "/hello", (("x", "a\r\nx-remote-user: admin"),))
