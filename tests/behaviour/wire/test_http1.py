"""HTTP/1.1, octet by octet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

GET = b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: h\r\n"


async def answer(client: Any) -> tuple[int, dict[str, str], bytes]:
    """The next answer: status, headers, body."""
    head = (await client.read_until(b"\r\n\r\n")).decode()
    status_line, *lines = head.rstrip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    status = int(status_line.split()[1])
    if headers.get("transfer-encoding") == "chunked":
        return status, headers, await chunked(client)
    return status, headers, await client.read(int(headers.get("content-length", 0)))


async def chunked(client: Any) -> bytes:
    body = b""
    while size := int(await client.read_until(b"\r\n"), 16):
        body += await client.read(size)
        assert await client.read(2) == b"\r\n"
    assert await client.read(2) == b"\r\n"
    return body


async def test_keep_alive(serve: Any, connect: Any, hello: Any):
    """Several exchanges on one connection."""
    client = await connect.http1(await serve())
    for _ in range(3):
        client.send(GET % b"/peer?a=b")
        status, headers, _ = await answer(client)
        assert status == 200
        assert headers["content-type"] == "text/plain"
        assert "connection" not in headers
        assert headers["date"].endswith("GMT")
    assert [request.peer.memo["count"] for request in hello.requests] == [3, 3, 3]
    assert hello.requests[0].query == "a=b"
    assert hello.requests[0].peer.protocol == "HTTP/1.1"


@pytest.mark.parametrize(
    ("request_octets", "connection"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "close"),
        (b"GET / HTTP/1.0\r\n\r\n", "close"),
        (b"GET /closes HTTP/1.1\r\nHost: h\r\n\r\n", "close"),
    ],
)
async def test_close(serve: Any, connect: Any, request_octets: bytes, connection: str):
    """Whoever asks for the end, it comes after the answer."""
    client = await connect.http1(await serve())
    client.send(request_octets)
    status, headers, _ = await answer(client)
    assert (status, headers["connection"]) == (200, connection)
    assert await client.read_to_end() == b""


async def test_http10_may_keep_alive(serve: Any, connect: Any):
    """If it says so."""
    client = await connect.http1(await serve())
    for _ in range(2):
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await answer(client))[1]["connection"] == "keep-alive"


async def test_http10_stream_ends_with_the_connection(serve: Any, connect: Any, hello: Any):
    """There are no chunks in HTTP/1.0."""
    client = await connect.http1(await serve())
    client.send(b"GET /watch HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    await hello.wait_for_streams(1)
    hello.streams[0].write(b"event")
    hello.streams[0].end()
    head = await client.read_until(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert await client.read_to_end() == b"event"


async def test_pipelining_keeps_the_order(serve: Any, connect: Any):
    """Answers come in the order of the requests, slow ones included."""
    client = await connect.http1(await serve())
    paths = [b"/slow", b"/", b"/none", b"/async-boom", b"/slow", b"/"]
    client.send(b"".join(GET % path for path in paths))
    answers = [await answer(client) for _ in paths]
    assert [(status, body) for status, _, body in answers] == [
        (200, b"slow\n"),
        (200, b"hello\n"),
        (404, b"not found\n"),
        (500, b"Internal Server Error\n"),
        (200, b"slow\n"),
        (200, b"hello\n"),
    ]


@pytest.mark.parametrize("method", [b"get", b"Get", b"WATCH", b"x"])
async def test_odd_methods_octet_by_octet(serve: Any, connect: Any, hello: Any, method: bytes):
    """The application sees them, however they arrive and whatever comes before and behind them."""
    client = await connect.http1(await serve())
    for octets in (GET % b"/", (GET % b"/").replace(b"GET", method, 1), GET % b"/"):
        for octet in octets:
            client.send(bytes([octet]))
            await asyncio.sleep(0)
        assert (await answer(client))[2] == b"hello\n"
    assert [request.method.encode() for request in hello.requests] == [b"GET", method, b"GET"]


async def test_many_pipelined_requests(serve: Any, connect: Any, hello: Any):
    """More than a turn's worth: all are answered, and memory for large answers is bounded."""
    client = await connect.http1(await serve())
    client.send((GET % b"/") * 500 + (GET % b"/parts?10,100000") * 5)
    for _ in range(500):
        assert (await answer(client))[0] == 200
    for _ in range(5):
        assert len((await answer(client))[2]) == 1_000_000
    assert len(hello.requests) == 505


async def test_head_and_no_content(serve: Any, connect: Any, hello: Any):
    """HEAD has the length and not the body; 204 has neither."""
    client = await connect.http1(await serve())
    client.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + GET % b"/no-content" + GET % b"/")
    head = await client.read_until(b"\r\n\r\n")
    assert b"content-length: 6\r\n" in head
    head = await client.read_until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"content-length" not in head
    assert (await answer(client))[2] == b"hello\n"
    client.send(b"HEAD /watch HTTP/1.1\r\nHost: h\r\n\r\n" + GET % b"/")
    await hello.wait_for_streams(1)
    hello.streams[0].write(b"unseen")
    hello.streams[0].end()
    await client.read_until(b"\r\n\r\n")
    assert (await answer(client))[2] == b"hello\n"


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_body(serve: Any, connect: Any, is_chunked: bool):
    """Announced or in chunks, with trailers."""
    client = await connect.http1(await serve())
    if is_chunked:
        head, body = b"Transfer-Encoding: chunked", b"3\r\nbod\r\n1;x=y\r\ny\r\n0\r\nX: y\r\n\r\n"
    else:
        head, body = b"Content-Length: 4", b"body"
    for _ in range(2):
        client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\n" + head + b"\r\n\r\n" + body)
        assert (await answer(client))[2] == b"body"


@pytest.mark.parametrize("head", [b"Content-Length: 300000", b"Transfer-Encoding: chunked"])
async def test_body_over_the_limit(serve: Any, connect: Any, hello: Any, head: bytes):
    """413 reaches the client although it is still sending; then the connection ends."""
    client = await connect.http1(await serve(max_body=100_000))
    client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\n" + head + b"\r\n\r\n")
    chunk = b"x" * 10_000 if b"Length" in head else b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    for _ in range(30):
        client.send(chunk)
    client.send(b"" if b"Length" in head else b"0\r\n\r\n")
    status, headers, body = await answer(client)
    assert (status, headers["connection"], body) == (413, "close", b"too large\n")
    assert hello.requests[0].truncated
    assert await client.read_to_end() == b""


@pytest.mark.parametrize("path", [b"/echo", b"/stream"])
async def test_expect_continue(serve: Any, connect: Any, path: bytes):
    """A client that waits for permission gets it when the body is wanted."""
    client = await connect.http1(await serve())
    head = b" HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    client.send(b"POST " + path + head)
    assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"body")
    assert (await answer(client))[0] == 200


async def test_expect_continue_of_too_much(serve: Any, connect: Any):
    """No permission for a body that is too large."""
    client = await connect.http1(await serve(max_body=10))
    client.send(
        b"POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"
    )
    assert (await answer(client))[0] == 413


async def test_streamed_body(serve: Any, connect: Any):
    """Read as it arrives, both ways at once."""
    client = await connect.http1(await serve(max_body=10))
    client.send(b"POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n")
    client.send(b"x" * 2_000_000)
    assert (await answer(client))[2] == b"2000000"
    client.send(b"POST /stream-echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
    head = await client.read_until(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    for number in range(3):
        client.send(b"1\r\n%d\r\n" % number)
        assert await client.read_until(b"\r\n") == b"1\r\n"
        assert await client.read_until(b"\r\n") == b"%d\r\n" % number
    client.send(b"0\r\n\r\n")
    assert await client.read_until(b"\r\n\r\n") == b"0\r\n\r\n"
    client.send(GET % b"/")
    assert (await answer(client))[2] == b"hello\n"


async def test_answer_without_reading_the_body(serve: Any, connect: Any):
    """The answer reaches a client that is still sending; then the connection ends."""
    client = await connect.http1(await serve())
    client.send(b"POST /stream-ignored HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n")
    client.send(b"x" * 1_000_000)
    status, headers, body = await answer(client)
    assert (status, headers["connection"], body) == (403, "close", b"no\n")
    assert await client.read_to_end() == b""


async def test_watch(serve: Any, connect: Any, hello: Any):
    """Chunks as they are written; the connection is good for more afterwards."""
    client = await connect.http1(await serve())
    client.send(GET % b"/watch")
    await hello.wait_for_streams(1)
    (stream,) = hello.streams
    assert b"transfer-encoding: chunked" in await client.read_until(b"\r\n\r\n")
    for number in range(3):
        stream.write(b"event %d" % number)
        assert await client.read(7 + 5) == b"7\r\nevent %d\r\n" % number
    stream.write(b"")
    stream.end()
    assert await client.read(5) == b"0\r\n\r\n"
    assert hello.finished == ["closed"]
    client.send(GET % b"/")
    assert (await answer(client))[0] == 200


async def test_watch_aborted(serve: Any, connect: Any, hello: Any):
    """The connection ends without the last chunk."""
    client = await connect.http1(await serve())
    client.send(GET % b"/watch")
    await hello.wait_for_streams(1)
    hello.streams[0].write(b"event")
    await client.read_until(b"event\r\n")
    hello.streams[0].abort()
    assert await client.read_to_end() == b""


async def test_announced_length_is_kept(serve: Any, connect: Any, caplog: Any):
    """A stream with a content-length is sent as it is; one that breaks it is broken off."""

    class Announcing:
        def wants_streaming(self, request: Any) -> bool:
            return False

        def identify(self, exchange: Any) -> bool:
            return True

        def handle(self, exchange: Any) -> None:
            stream = exchange.start(200, (("content-length", "5"),))
            stream.write(exchange.request.query.encode())
            stream.end()

    listener = await serve(Announcing())
    client = await connect.http1(listener)
    client.send(GET % b"/?12345" + GET % b"/?54321")
    assert [(await answer(client))[2] for _ in range(2)] == [b"12345", b"54321"]
    for query, word in ((b"1234", "shorter"), (b"123456", "longer")):
        client = await connect.http1(listener)
        client.send(GET % (b"/?" + query))
        assert not (await client.read_to_end()).endswith(b"12345")
        assert word in caplog.text


async def test_handler_fails_after_it_began(serve: Any, connect: Any, caplog: Any):
    """The client sees the connection break, not an end."""
    client = await connect.http1(await serve())
    client.send(GET % b"/late-boom")
    assert not (await client.read_to_end()).endswith(b"0\r\n\r\n")
    assert "ValueError: boom" in caplog.text


async def test_slow_reader(serve: Any, connect: Any, hello: Any):
    """The handler waits in `drain`; the backlog stays near the buffers' size."""
    client = await connect.http1(await serve())
    client.send(GET % b"/floods")
    await client.read_until(b"\r\n\r\n")
    for _ in range(100):
        await client.read(100_000)
        assert hello.streams[0].backlog < 200_000
    client.writer.transport.abort()
    await hello.wait_for("gone")


async def test_client_disappears(serve: Any, connect: Any, hello: Any):
    """The handler's task is cancelled."""
    client = await connect.http1(await serve())
    client.send(GET % b"/waits")
    await hello.wait_for("started")
    client.writer.transport.abort()
    await hello.wait_for("cancelled")


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"GET /\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nBad Header: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (
            POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 70_000, 431),
        (b"GET /" + b"y" * 70_000, 431),
    ],
)
async def test_bad_requests(serve: Any, connect: Any, hello: Any, octets: bytes, status: int):
    """Answered without the application, after what came before, and closed."""
    client = await connect.http1(await serve(max_header_list_size=65_536))
    client.send(GET % b"/slow" + octets)
    assert (await answer(client))[2] == b"slow\n"
    found, headers, _ = await answer(client)
    assert (found, headers["connection"]) == (status, "close")
    assert await client.read_to_end() == b""
    assert [request.path for request in hello.requests] == ["/slow"]


async def test_no_http_at_all(serve: Any, connect: Any):
    """What does not begin like HTTP is not answered in HTTP."""
    client = await connect.http1(await serve())
    client.send(b"EHLO example.com\r\n")
    assert await client.read_to_end() == b""


async def test_smuggled_request_is_not_seen(serve: Any, connect: Any, hello: Any):
    """Two lengths: neither the request nor what hides behind it reaches the application."""
    client = await connect.http1(await serve())
    client.send(
        b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /watch HTTP/1.1\r\nHost: h\r\n\r\n"
    )
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 400 ")
    assert hello.requests == []


async def test_upgrade_that_nobody_wants(serve: Any, connect: Any):
    """The request is answered as if it had not asked, and so is what follows it."""
    client = await connect.http1(await serve(plain=True))
    upgrade = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    client.send(upgrade + upgrade + GET % b"/slow")
    client.send(GET % b"/")
    bodies = [(await answer(client))[2] for _ in range(4)]
    assert bodies == [b"hello\n", b"hello\n", b"slow\n", b"hello\n"]


async def test_octet_by_octet(serve: Any, connect: Any):
    """Requests may arrive in any pieces, also before the protocol is known."""
    client = await connect.http1(await serve(plain=True))
    for octet in b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody":
        client.send(bytes([octet]))
        await client.writer.drain()
    assert (await answer(client))[2] == b"body"
