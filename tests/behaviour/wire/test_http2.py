"""HTTP/2 over TLS with the `h2` library as the client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykcp.wire.http2 import frames


async def test_get(serve: Any, connect: Any):
    """The plainest exchange."""
    client = await connect.h2(await serve())
    assert await client.request("GET", "/") == (200, b"hello\n")
    headers = client.headers[1]
    assert headers["content-length"] == "6"
    assert headers["content-type"] == "text/plain"
    assert headers["date"].endswith("GMT")


async def test_without_tls(serve: Any, connect: Any):
    """By prior knowledge."""
    client = await connect.h2(await serve(plain=True))
    assert await client.request("GET", "/peer") == (200, b"HTTP/2.0 127.0.0.1 1 False")


async def test_head_loses_its_body(serve: Any, connect: Any):
    """But says how long it would be; a streamed answer to HEAD stays empty."""
    listener = await serve()
    client = await connect.h2(listener)
    assert await client.request("HEAD", "/") == (200, b"")
    assert client.headers[1]["content-length"] == "6"
    assert await client.request("GET", "/no-content") == (204, b"")
    assert "content-length" not in client.headers[3]


async def test_streamed_answer_to_head(serve: Any, connect: Any, hello: Any):
    """What is written to it goes nowhere."""
    client = await connect.h2(await serve())
    stream_id = client.start("HEAD", "/watch")
    await hello.wait_for_streams(1)
    hello.streams[0].write(b"never seen")
    hello.streams[0].end()
    assert await client.finish(stream_id) == (200, b"")


async def test_query_headers_and_body(serve: Any, connect: Any, hello: Any):
    """What the application sees of a request."""
    client = await connect.h2(await serve())
    headers = [("accept", "a"), ("accept", "b"), ("x-empty", "")]
    assert await client.request("POST", "/echo?a=%20b&c", headers, b"body") == (200, b"body")
    (request,) = hello.requests
    assert (request.method, request.path, request.query) == ("POST", "/echo", "a=%20b&c")
    assert request.header("accept") == "a"
    assert request.header_all("accept") == ["a", "b"]
    assert request.header("x-empty") == ""
    assert request.header("host") == "h"
    assert request.header("none") is None
    assert not request.is_streaming
    assert [chunk async for chunk in request.chunks()] == [b"body"]


async def test_many_at_once(serve: Any, connect: Any):
    """Slow and quick requests side by side; the slow ones do not hold up the quick ones."""
    client = await connect.h2(await serve())
    slow = [client.start("GET", "/slow") for _ in range(30)]
    assert await client.request("GET", "/") == (200, b"hello\n")
    assert [await client.finish(stream_id) for stream_id in slow] == [(200, b"slow\n")] * 30


async def test_burst_beyond_a_turn(serve: Any, connect: Any, hello: Any):
    """More requests in one write than are worked on in one turn: all are answered."""
    client = await connect.raw(await serve())
    count = 900
    for number in range(count):
        client.request(2 * number + 1)
    ended = 0
    while ended < count:
        kind, flags, _, _ = await client.next_frame()
        ended += kind == frames.DATA and flags & 1
    assert len(hello.requests) == count


async def test_large_answer_in_parts(serve: Any, connect: Any):
    """Far more than the windows; no part is lost or joined wrongly."""
    client = await connect.h2(await serve())
    status, body = await client.request("GET", "/parts?1000,1777")
    assert (status, len(body)) == (200, 1_777_000)
    assert client.headers[1]["content-length"] == "1777000"


async def test_large_answer_does_not_hold_up_others(serve: Any, connect: Any):
    """A small answer overtakes a large one on the same connection."""
    client = await connect.raw(
        await serve(), SETTINGS_INITIAL_WINDOW_SIZE=2**31 - 1, SETTINGS_MAX_FRAME_SIZE=16384
    )
    client.send(frames.window_update(0, 2**31 - 65536))
    client.request(1, "/parts?4000,5000")
    client.request(3, "/")
    received = 0
    while True:
        kind, flags, stream_id, payload = await client.next_frame()
        if (kind, flags & 1, stream_id) == (frames.DATA, 1, 3):
            break
        received += len(payload)
    assert received < 10_000_000
    while not (kind == frames.DATA and flags & 1 and stream_id == 1):
        kind, flags, stream_id, _ = await client.next_frame()


async def test_large_body(serve: Any, connect: Any):
    """Up to the limit it arrives whole."""
    client = await connect.h2(await serve())
    body = bytes(range(256)) * 8000
    assert await client.request("POST", "/echo", body=body) == (200, body)


@pytest.mark.parametrize("is_announced", [True, False])
async def test_body_over_the_limit(serve: Any, connect: Any, hello: Any, is_announced: bool):
    """The application is told and answers 413; the client is told to stop, others go on."""
    client = await connect.h2(await serve(max_body=100_000))
    body = b"x" * 300_000
    headers = [("content-length", str(len(body)))] if is_announced else []
    stream_id = client.start("POST", "/echo", headers, ends=False)
    await client.send_body(stream_id, body)
    assert await client.finish(stream_id) == (413, b"too large\n")
    assert hello.requests[0].truncated
    assert hello.requests[0].body == b""
    assert await client.request("POST", "/echo", body=b"small") == (200, b"small")


async def test_streamed_body(serve: Any, connect: Any):
    """The application reads as it arrives, without limit."""
    client = await connect.h2(await serve(max_body=1000))
    assert await client.request("POST", "/stream", body=b"x" * 500_000) == (200, b"500000")


async def test_both_directions_at_once(serve: Any, connect: Any):
    """An answer that follows its request piece by piece."""
    client = await connect.h2(await serve())
    stream_id = client.start("POST", "/stream-echo", ends=False)
    for number in range(3):
        client.h2.send_data(stream_id, b"%d" % number)
        client.flush()
        while len(client.bodies[stream_id]) <= number:
            await client.pump()
    client.h2.end_stream(stream_id)
    client.flush()
    assert await client.finish(stream_id) == (200, b"012")


async def test_unread_body_holds_one_window(serve: Any, connect: Any, hello: Any):
    """A body that nobody reads stops at the stream's window; other streams go on."""
    client = await connect.h2(await serve(stream_window=100_000, max_unknown_body=100_000))
    assert await client.request("GET", "/") == (200, b"hello\n")
    stream_id = client.start("POST", "/stream-unread", ends=False)
    await hello.wait_for("started")
    while room := min(client.h2.local_flow_control_window(stream_id), 16384):
        client.h2.send_data(stream_id, b"x" * room)
    client.flush()
    assert await client.request("GET", "/") == (200, b"hello\n")
    assert client.h2.local_flow_control_window(stream_id) == 0
    assert hello.requests[1].reader.size == 100_000


async def test_answer_without_reading_the_body(serve: Any, connect: Any):
    """The client hears the answer and that the rest is not wanted."""
    client = await connect.h2(await serve())
    stream_id = client.start("POST", "/stream-ignored", ends=False)
    assert await client.finish(stream_id) == (403, b"no\n")
    while stream_id not in client.resets:
        await client.pump()
    assert client.resets[stream_id] == frames.NO_ERROR


@pytest.mark.parametrize("path", ["/echo", "/stream"])
async def test_expect_continue(serve: Any, connect: Any, path: str):
    """A client that waits for permission gets it when the body is wanted."""
    client = await connect.raw(await serve())
    client.request(1, path, ("expect", "100-continue"), method="POST", ends=False)
    _, flags, _, block = await client.next_of(frames.HEADERS)
    assert client.decoder.decode(block) == [(":status", "100")]
    assert not flags & frames.END_STREAM
    client.send(frames.frame(frames.DATA, 1, 1, b"body"))
    assert (await client.answer(1))[0] == 200


async def test_expect_continue_of_too_much(serve: Any, connect: Any):
    """A body that is announced as too large is refused before it is sent."""
    client = await connect.raw(await serve(max_body=10))
    fields = [("expect", "100-continue"), ("content-length", "11")]
    client.request(1, "/echo", *fields, method="POST", ends=False)
    assert await client.answer(1) == (413, b"too large\n")


@pytest.mark.parametrize("path", ["/boom", "/async-boom", "/forgets", "/bad-header"])
async def test_handler_fails(serve: Any, connect: Any, caplog: Any, path: str):
    """A plain 500 and a line in the log; the connection goes on."""
    client = await connect.h2(await serve())
    assert await client.request("GET", path) == (500, b"Internal Server Error\n")
    assert path in caplog.text
    assert await client.request("GET", "/") == (200, b"hello\n")


async def test_handler_fails_after_it_began(serve: Any, connect: Any, caplog: Any):
    """The stream is broken off: the client cannot take it for complete."""
    client = await connect.h2(await serve())
    with pytest.raises(ConnectionResetError, match="2"):
        await client.request("GET", "/late-boom")
    assert "ValueError: boom" in caplog.text


async def test_watch(serve: Any, connect: Any, hello: Any):
    """A stream without a task: written from outside, ended from outside."""
    client = await connect.h2(await serve())
    stream_id = client.start("GET", "/watch")
    await hello.wait_for_streams(1)
    (stream,) = hello.streams
    for number in range(3):
        stream.write(b"event %d\n" % number)
        while not client.bodies[stream_id].endswith(b"%d\n" % number):
            await client.pump()
    assert stream.backlog == 0
    assert not stream.closed
    stream.end()
    stream.write(b"too late")
    stream.end()
    assert (await client.finish(stream_id))[1] == b"event 0\nevent 1\nevent 2\n"
    assert stream.closed
    assert hello.finished == ["closed"]
    stream.on_close(lambda: hello.note("at once"))
    assert hello.finished == ["closed", "at once"]
    stream.abort()


async def test_one_write_per_turn(serve: Any, connect: Any, hello: Any, monkeypatch: Any):
    """However many streams are written to in a turn, the socket sees one write."""
    listener = await serve()
    client = await connect.h2(listener)
    streams = [client.start("GET", "/watch") for _ in range(40)]
    await hello.wait_for_streams(40)
    (connection,) = listener._hub.connections
    writes = []
    monkeypatch.setattr(connection, "_tls", None)
    monkeypatch.setattr(connection, "transport", type("T", (), {"write": writes.append})())
    for stream in hello.streams:
        stream.write(b"x" * 1500)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [len(data) for data in writes] == [40 * 1509]
    monkeypatch.undo()
    assert len(streams) == 40


async def test_events_beyond_a_turn(serve: Any, connect: Any, hello: Any):
    """Events that do not fit into one turn follow in the next ones; other clients have theirs."""
    listener = await serve(turn_size=10_000)
    clients = [await connect.h2(listener) for _ in range(3)]
    streams = [client.start("GET", "/watch") for client in clients]
    await hello.wait_for_streams(3)
    for size in (25_000, 50_000):
        for stream in hello.streams:
            stream.write(b"x" * 25_000)
        for client, stream_id in zip(clients, streams, strict=True):
            while len(client.bodies[stream_id]) < size:
                await client.pump()


async def test_watch_aborted(serve: Any, connect: Any, hello: Any):
    """An aborted stream is an error to the client."""
    client = await connect.h2(await serve())
    stream_id = client.start("GET", "/watch")
    await hello.wait_for_streams(1)
    hello.streams[0].abort()
    hello.streams[0].abort()
    with pytest.raises(ConnectionResetError):
        await client.finish(stream_id)
    assert hello.finished == ["closed"]
    with pytest.raises(ConnectionError):
        await hello.streams[0].drain()


async def test_backlog_of_a_slow_reader(serve: Any, connect: Any, hello: Any):
    """What the client does not take is visible, `drain` waits for it, others are not held up."""
    client = await connect.raw(await serve(), SETTINGS_INITIAL_WINDOW_SIZE=1000)
    client.send(frames.window_update(0, 1_000_000))
    client.request(1, "/watch")
    await hello.wait_for_streams(1)
    (stream,) = hello.streams
    stream.write(b"x" * 100_000)
    client.request(3)
    assert await client.answer(3) == (200, b"hello\n")
    assert stream.backlog == 99_000
    drained = asyncio.ensure_future(stream.drain())
    also = asyncio.ensure_future(stream.drain())
    await asyncio.sleep(0)
    also.cancel()
    client.send(frames.window_update(1, 60_000))
    client.request(5)
    assert await client.answer(5) == (200, b"hello\n")
    assert not drained.done()
    client.send(frames.window_update(1, 10_000))
    await asyncio.wait_for(drained, 5)
    assert also.cancelled()
    assert stream.backlog == 29_000
    client.send(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    await hello.wait_for("closed")
    assert stream.backlog == 0


async def test_requests_among_window_updates(serve: Any, connect: Any, hello: Any):
    """A client with many watches is read less often, but everything that it sends is."""
    client = await connect.raw(await serve())
    client.request(1, "/watch")
    await hello.wait_for_streams(1)
    for number in range(3, 43, 2):
        for _ in range(10):
            client.send(frames.window_update(0, 4096) + frames.window_update(1, 4096))
            await asyncio.sleep(0)
        client.request(number)
        assert await client.answer(number) == (200, b"hello\n")
    client.send(frames.window_update(0, 4096))
    client.send(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    await hello.wait_for("closed")


async def test_client_breaks_off(serve: Any, connect: Any, hello: Any):
    """The handler's task is cancelled, the connection goes on."""
    client = await connect.h2(await serve())
    stream_id = client.start("GET", "/waits")
    await hello.wait_for("started")
    client.h2.reset_stream(stream_id, 8)
    client.flush()
    await hello.wait_for("cancelled")
    assert await client.request("GET", "/") == (200, b"hello\n")


async def test_client_breaks_off_its_body(serve: Any, connect: Any, hello: Any):
    """Whoever reads the body hears of it."""
    client = await connect.h2(await serve())
    stream_id = client.start("POST", "/stream", ends=False)
    client.h2.send_data(stream_id, b"x")
    client.flush()
    await hello.wait_for_requests(1)
    client.h2.reset_stream(stream_id, 8)
    client.flush()
    await hello.wait_for("broken off")


async def test_client_disappears(serve: Any, connect: Any, hello: Any):
    """Everything that was in progress for it ends."""
    listener = await serve()
    client = await connect.h2(listener)
    client.start("GET", "/waits")
    client.start("GET", "/watch")
    await hello.wait_for("started")
    await hello.wait_for_streams(1)
    client.writer.transport.abort()
    await hello.wait_for("cancelled", "closed")
    assert hello.streams[0].closed
    assert listener.connection_count == 0


async def test_connection_close_means_goaway(serve: Any, connect: Any):
    """As in Go: the answer comes, then the connection winds down."""
    client = await connect.raw(await serve())
    client.request(1, "/closes")
    assert await client.answer(1) == (200, b"bye\n")
    _, _, _, payload = await client.next_of(frames.GOAWAY)
    assert frames.TWO_U32.unpack_from(payload) == (2**31 - 1, 0)
    kind, _, _, payload = await client.next_frame()
    client.send(frames.frame(kind, frames.ACK, 0, payload))
    _, _, _, payload = await client.next_frame()
    assert frames.TWO_U32.unpack_from(payload) == (1, 0)
    assert await client.read_to_end() == b""


async def test_memo_lives_as_long_as_the_connection(serve: Any, connect: Any):
    """What is remembered for a peer stays with its connection."""
    listener = await serve()
    for _ in range(2):
        client = await connect.h2(listener)
        assert (await client.request("GET", "/peer"))[1].endswith(b" 1 False")
        assert (await client.request("GET", "/peer"))[1].endswith(b" 2 False")


async def test_answering_twice_is_a_bug(serve: Any, connect: Any):
    """The second answer is refused to the handler, not sent to the client."""

    class Twice:
        def wants_streaming(self, request: Any) -> bool:
            return False

        def identify(self, exchange: Any) -> bool:
            return True

        def handle(self, exchange: Any) -> None:
            exchange.respond(200, (), b"once")
            assert exchange.responded
            assert not exchange.wants_websocket()
            for again in (
                lambda: exchange.respond(200, (), b"twice"),
                lambda: exchange.start(200, ()),
                exchange.websocket,
            ):
                with pytest.raises(RuntimeError):
                    again()

    client = await connect.h2(await serve(Twice()))
    assert await client.request("GET", "/") == (200, b"once")
