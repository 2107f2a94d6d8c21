"""Clients that are slow, stalled, greedy or hostile, and what is left for the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from pykcp.wire.http2 import frames

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


async def assert_alive(listener: Any, connect: Any) -> None:
    """Another client is served as ever."""
    client = await connect.h2(listener)
    assert await client.request("GET", "/") == (200, b"hello\n")


# -- slow ------------------------------------------------------------------------------------------


async def test_no_handshake(serve: Any, connect: Any):
    """A connection on which nothing is said is closed."""
    listener = await serve(handshake_timeout=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"\x16")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await assert_alive(listener, connect)


async def test_no_first_octets_without_tls(serve: Any, connect: Any):
    """Nor is it waited for ever to learn which protocol is meant."""
    client = await connect.http1(await serve(plain=True, handshake_timeout=0.1))
    client.send(b"PR")
    assert await client.read_to_end() == b""


@pytest.mark.parametrize("octets", [b"", b"GET / HTTP/1.1\r\nHost: h\r\nX: "])
async def test_slow_head(serve: Any, connect: Any, octets: bytes):
    """A head that does not come to its end is answered with 408, silence with silence."""
    client = await connect.http1(await serve(header_timeout=0.1))
    client.send(octets)
    answer = await client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 408 " if octets else b"")
    assert bool(answer) == bool(octets)


async def test_slow_body(serve: Any, connect: Any, hello: Any):
    """A body that does not come to its end is 408 in both protocols and never handed over."""
    listener = await serve(body_timeout=0.1)
    client = await connect.http1(listener)
    client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabc")
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 408 ")
    other = await connect.raw(listener)
    other.request(1, "/echo", method="POST", ends=False)
    other.send(frames.frame(frames.DATA, 0, 1, b"abc"))
    assert (await other.answer(1))[0] == 408
    other.request(3)
    assert await other.answer(3) == (200, b"hello\n")
    assert [request.path for request in hello.requests] == ["/"]
    assert listener._hub.buffered == 0


async def test_slow_frame(serve: Any, connect: Any):
    """A frame, a header block or a greeting that does not come to its end."""
    listener = await serve(header_timeout=0.1)
    half_frame = await connect.raw(listener)
    half_frame.send(frames.HEADER.pack(100 << 8, 0, 1) + b"x")
    half_block = await connect.raw(listener)
    half_block.send(frames.frame(frames.HEADERS, 1, 1, b"\x82"))
    half_greeting = await connect.h2(listener)
    for client in (half_frame, half_block):
        assert await client.goaway_code() == frames.ENHANCE_YOUR_CALM
    await half_greeting.request("GET", "/")
    silent = await connect._open(type(half_frame), listener, "h2", None)
    assert await silent.goaway_code() == frames.ENHANCE_YOUR_CALM


async def test_idle_connections_are_closed(serve: Any, connect: Any):
    """With a GOAWAY, or just so."""
    listener = await serve(idle_timeout=0.1)
    first = await connect.http1(listener)
    first.send(GET)
    second = await connect.raw(listener)
    second.request(1)
    assert (await first.read_to_end()).endswith(b"hello\n")
    assert await second.goaway_code() == frames.NO_ERROR


async def test_connections_in_use_are_not_idle(serve: Any, connect: Any, hello: Any):
    """A quiet watch, a slow handler and a WebSocket are work."""
    listener = await serve(idle_timeout=0.05, header_timeout=0.05)
    first = await connect.http1(listener)
    first.send(b"GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")
    second = await connect.raw(listener)
    second.request(1, "/watch")
    await hello.wait_for_streams(2)
    await asyncio.sleep(0.2)
    for stream in hello.streams:
        assert not stream.closed
        stream.write(b"still here")
        stream.end()
    assert await second.answer(1) == (200, b"still here")
    await first.read_until(b"0\r\n\r\n")


async def test_too_many_connections(serve: Any, connect: Any, hello: Any):
    """The longest idle one makes room; those in use are spared."""
    listener = await serve(max_connections=3)
    busy = await connect.raw(listener)
    busy.request(1, "/watch")
    await hello.wait_for_streams(1)
    idle = [await connect.raw(listener) for _ in range(2)]
    await assert_alive(listener, connect)
    assert await idle[0].read_to_end() == b""
    assert listener.connection_count == 3
    hello.streams[0].end()
    assert await busy.answer(1) == (200, b"")


async def test_all_connections_in_use(serve: Any, connect: Any, hello: Any):
    """Then the oldest has to go: a listener that is full of watches can still be reached."""
    listener = await serve(max_connections=1)
    busy = await connect.raw(listener)
    busy.request(1, "/watch")
    await hello.wait_for_streams(1)
    await assert_alive(listener, connect)
    await busy.read_to_end()
    await hello.wait_for("closed")


# -- stalled ---------------------------------------------------------------------------------------


async def test_stalled_window(serve: Any, connect: Any, hello: Any):
    """A stream whose client takes nothing is broken off in the end; others are not."""
    listener = await serve(write_stall_timeout=0.1)
    client = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=10)
    client.request(1, "/parts?10,1000")
    client.request(3, "/watch")
    await hello.wait_for_streams(1)
    _, _, stream_id, payload = await client.next_of(frames.RST_STREAM)
    assert (stream_id, frames.U32.unpack(payload)[0]) == (1, frames.CANCEL)
    hello.streams[0].end()
    _, flags, stream_id, _ = await client.next_of(frames.DATA)
    assert (flags, stream_id) == (1, 3)


async def test_stalled_windows_hold_bounded_memory(serve: Any, connect: Any, hello: Any):
    """Large answers that are not taken pile up to a limit; then requests are refused."""
    listener = await serve(max_buffered_per_connection=5_000_000)
    client = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=0)
    for number in range(50):
        client.request(2 * number + 1, "/parts?10,100000")
    refused = 0
    while refused < 44:
        _, _, _, payload = await client.next_of(frames.RST_STREAM)
        assert frames.U32.unpack(payload)[0] == frames.REFUSED_STREAM
        refused += 1
    assert len(hello.requests) == 6
    await assert_alive(listener, connect)


@pytest.mark.parametrize("protocol", ["http1", "h2"])
async def test_client_that_does_not_read(serve: Any, connect: Any, hello: Any, protocol: str):
    """Its connection is aborted; what was kept for it stays near the buffers' size."""
    listener = await serve(write_stall_timeout=0.2)
    if protocol == "http1":
        client = await connect.http1(listener)
        client.send(b"GET /floods HTTP/1.1\r\nHost: h\r\n\r\n")
    else:
        client = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=2**31 - 1)
        client.send(frames.window_update(0, 2**31 - 65536))
        client.request(1, "/floods")
    await hello.wait_for_requests(1)
    client.writer.transport.pause_reading()
    await assert_alive(listener, connect)
    (connection, *_) = listener._hub.connections
    await hello.wait_for("gone")
    assert connection.transport.get_write_buffer_size() < 2_000_000


async def test_asking_without_reading(serve: Any, connect: Any, hello: Any):
    """A client that does not read its answers is, in the end, not listened to."""
    listener = await serve()
    client = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=2**31 - 1)
    client.send(frames.window_update(0, 2**31 - 65536))
    client.writer.transport.pause_reading()
    (connection,) = listener._hub.connections
    ping = frames.frame(frames.PING, 0, 0, b"12345678")
    sent = 0

    async def ask(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            client.request(2 * sent + 1, "/parts?1,15000")
            sent += 1
        client.send(ping)
        await asyncio.sleep(0)

    async with asyncio.timeout(10):
        while not connection.is_paused:
            await ask(10)
    handled = len(hello.requests)
    for _ in range(100):
        await ask(50)
    assert len(hello.requests) < handled + 500 < sent
    assert connection.transport.get_write_buffer_size() < 2_000_000
    assert connection.driver.machine.pending_total < 20_000_000
    await assert_alive(listener, connect)
    client.writer.transport.abort()


# -- greedy and hostile ----------------------------------------------------------------------------


async def test_rapid_reset(serve: Any, connect: Any, hello: Any):
    """Requests that are broken off at once cost a handler nothing, and then the connection."""
    listener = await serve(reset_burst=200)
    client = await connect.raw(listener)
    for number in range(300):
        client.request(2 * number + 1, "/waits")
        client.send(frames.frame(frames.RST_STREAM, 0, 2 * number + 1, b"\0\0\0\x08"))
    assert await client.goaway_code() == frames.ENHANCE_YOUR_CALM
    await asyncio.sleep(0)
    assert len(listener._hub.tasks) == 0
    await assert_alive(listener, connect)


async def test_cancelled_handlers_still_count(serve: Any, connect: Any, hello: Any):
    """A handler that goes on after its stream was broken off keeps its place."""
    release = asyncio.Event()

    class Stubborn:
        def wants_streaming(self, request: Any) -> bool:
            return False

        def identify(self, exchange: Any) -> bool:
            return True

        async def handle(self, exchange: Any) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await release.wait()

    client = await connect.raw(await serve(Stubborn(), max_concurrent_streams=3))
    for stream_id in (1, 3, 5):
        client.request(stream_id)
        client.send(frames.frame(frames.PING, 0, 0, b"12345678"))
        await client.next_of(frames.PING)
        client.send(frames.frame(frames.RST_STREAM, 0, stream_id, b"\0\0\0\x08"))
    client.request(7)
    with pytest.raises(ConnectionResetError, match=str(frames.REFUSED_STREAM)):
        await client.answer(7)
    release.set()


@pytest.mark.parametrize(
    "flood",
    [
        frames.frame(frames.PING, 0, 0, b"12345678"),
        frames.settings({}),
        frames.frame(frames.PRIORITY, 0, 1, b"\0\0\0\x03\x10"),
    ],
    ids=["PING", "SETTINGS", "PRIORITY"],
)
async def test_floods(serve: Any, connect: Any, flood: bytes):
    """Too many frames to no purpose end the connection."""
    listener = await serve(idle_frame_burst=1000, idle_frame_rate=1)
    client = await connect.raw(listener)
    client.send(flood * 1100)
    assert await client.goaway_code() == frames.ENHANCE_YOUR_CALM
    await assert_alive(listener, connect)


async def test_continuation_flood(serve: Any, connect: Any):
    """A header block without end."""
    listener = await serve()
    client = await connect.raw(listener)
    client.send(frames.frame(frames.HEADERS, 1, 1, b"\x82"))
    client.send(frames.frame(frames.CONTINUATION, 0, 1, b"") * 200)
    assert await client.goaway_code() == frames.ENHANCE_YOUR_CALM
    await assert_alive(listener, connect)


async def test_header_bomb(serve: Any, connect: Any):
    """A kilobyte that unfolds to megabytes."""
    listener = await serve()
    client = await connect.raw(listener)
    client.request(1, "/", ("x", "y" * 3900))
    await client.answer(1)
    client.send(frames.frame(frames.HEADERS, 5, 3, b"\x82\x87\x84" + b"\xbe" * 10_000))
    assert await client.goaway_code() == frames.ENHANCE_YOUR_CALM


async def test_header_list_somewhat_too_large(serve: Any, connect: Any):
    """Is answered with 431 and the connection goes on."""
    client = await connect.raw(await serve(max_header_list_size=2000))
    client.request(1, "/", ("x", "y" * 2000))
    assert (await client.answer(1))[0] == 431
    client.request(3)
    assert await client.answer(3) == (200, b"hello\n")


async def test_oversize_frame(serve: Any, connect: Any):
    """Is not waited for."""
    client = await connect.raw(await serve())
    client.send(frames.HEADER.pack(16385 << 8, 0, 1))
    assert await client.goaway_code() == frames.FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    "limits", [{"max_buffered_per_connection": 500_000}, {"max_buffered_bodies": 500_000}]
)
async def test_unfinished_bodies_hold_bounded_memory(
    serve: Any, connect: Any, hello: Any, limits: dict[str, int]
):
    """Bodies that are begun and not ended are refused beyond a limit, and may be tried again."""
    listener = await serve(**limits)
    client = await connect.raw(listener)
    for stream_id in range(1, 21, 2):
        client.request(stream_id, "/echo", method="POST", ends=False)
        for _ in range(6):
            client.send(frames.frame(frames.DATA, 0, stream_id, b"x" * 10_000))
    for _ in range(2):
        _, _, _, payload = await client.next_of(frames.RST_STREAM)
        assert frames.U32.unpack(payload)[0] == frames.REFUSED_STREAM
    assert listener._hub.buffered == 480_000
    client.send(frames.frame(frames.DATA, 1, 1, b"end"))
    status, body = await client.answer(1)
    assert (status, len(body)) == (200, 60_003)
    assert listener._hub.buffered == 420_000
    client.writer.transport.abort()
    while listener.connection_count:  # noqa: ASYNC110  # there is no event for this
        await asyncio.sleep(0)
    assert listener._hub.buffered == 0


async def test_unread_bodies_hold_bounded_memory(serve: Any, connect: Any, hello: Any):
    """Bodies that are streamed to somebody who does not read count as well."""
    listener = await serve(max_buffered_per_connection=200_000)
    client = await connect.raw(listener)
    for stream_id in (1, 3):
        client.request(stream_id, "/stream-unread", method="POST", ends=False)
        for _ in range(12):
            client.send(frames.frame(frames.DATA, 0, stream_id, b"x" * 10_000))
    _, _, stream_id, payload = await client.next_of(frames.RST_STREAM)
    assert (stream_id, frames.U32.unpack(payload)[0]) == (3, frames.REFUSED_STREAM)
    await hello.wait_for("cancelled")
    assert listener._hub.buffered == 120_000
    client.send(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    client.request(5)
    assert await client.answer(5) == (200, b"hello\n")
    assert listener._hub.buffered == 0


async def test_octets_behind_an_undecided_upgrade(serve: Any, connect: Any, hello: Any):
    """Are kept up to a limit; the connection goes on afterwards."""
    listener = await serve(plain=True)
    client = await connect.http1(listener)
    client.send(b"GET /gated HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
    await hello.wait_for_requests(1)
    (connection,) = listener._hub.connections
    client.send(GET * 20_000)
    async with asyncio.timeout(10):
        while connection._wants_reading:  # noqa: ASYNC110  # there is no event for this
            await asyncio.sleep(0)
    assert len(connection.driver._held) < 100_000
    hello.gate.set()
    assert (await client.read_until(b"gated\n")).startswith(b"HTTP/1.1 200 ")
    for _ in range(20_000):
        await client.read_until(b"hello\n")


async def test_unfinished_bodies_over_http1(serve: Any, connect: Any):
    """The same limit, told by 503."""
    listener = await serve(max_buffered_bodies=100_000)
    client = await connect.http1(listener)
    client.send(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n")
    client.send(b"x" * 150_000)
    assert (await client.read_to_end()).startswith(b"HTTP/1.1 503 ")
    assert listener._hub.buffered == 0


async def test_one_greedy_client_and_a_quick_one(serve: Any, connect: Any, hello: Any):
    """While one client sends thousands of requests at a go, another has its turn in between."""
    listener = await serve(max_concurrent_streams=100_000)
    greedy = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=2**31 - 1)
    quick = await connect.h2(listener)
    await quick.request("GET", "/")
    for number in range(5000):
        greedy.request(2 * number + 1)
    assert (await quick.request("GET", "/peer"))[0] == 200
    await hello.wait_for_requests(5002)
    position = [request.path for request in hello.requests].index("/peer")
    assert position < 2500
    greedy.writer.transport.abort()


# -- what each may have ----------------------------------------------------------------------------


async def test_trickling_reader(serve: Any, connect: Any, hello: Any):
    """Taking an octet now and then does not keep an answer alive; other streams go on."""
    listener = await serve(write_stall_timeout=0.2, min_read_rate=1000.0)
    client = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=10)
    client.request(1, "/parts?10,1000")
    client.request(3, "/watch")

    async def trickle() -> None:
        while True:
            client.send(frames.window_update(1, 1))
            await asyncio.sleep(0.01)

    trickling = asyncio.ensure_future(trickle())
    _, _, stream_id, payload = await client.next_of(frames.RST_STREAM)
    trickling.cancel()
    assert (stream_id, frames.U32.unpack(payload)[0]) == (1, frames.CANCEL)
    assert listener.unsent == 0
    hello.streams[0].end()
    assert (await client.next_of(frames.DATA))[1:3] == (1, 3)


async def test_too_much_waits_for_all(serve: Any, connect: Any, hello: Any):
    """Those for whom most waits lose it; a small answer that waits is kept."""
    listener = await serve(max_unsent=1_000_000)
    greedy = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=0)
    modest = await connect.raw(listener, SETTINGS_INITIAL_WINDOW_SIZE=0)
    modest.request(1, "/parts?1,1000")
    await hello.wait_for_requests(1)
    greedy.request(1, "/parts?3,100000")
    greedy.request(3, "/parts?8,100000")
    _, _, stream_id, payload = await greedy.next_of(frames.RST_STREAM)
    assert (stream_id, frames.U32.unpack(payload)[0]) == (3, frames.CANCEL)
    assert listener.unsent == 301_000
    assert listener.shed_count == 1
    modest.send(frames.window_update(1, 5000))
    assert await modest.answer(1) == (200, b"x" * 1000)


async def test_connections_of_one_address(serve: Any, connect: Any):
    """Further ones are closed at once, until one of the first is gone."""
    listener = await serve(max_connections_per_address=2)
    first = await connect.h2(listener)
    assert await first.request("GET", "/") == (200, b"hello\n")
    second = await connect.h2(listener)
    assert await second.request("GET", "/") == (200, b"hello\n")
    with pytest.raises(OSError):
        await connect.h2(listener)
    assert listener.refused == 1
    await second.close()
    await until(lambda: listener.connection_count == 1)
    await assert_alive(listener, connect)


async def test_handshakes_of_one_address(serve: Any, connect: Any):
    """Connections that say nothing keep further ones waiting, but only until their time is up."""
    listener = await serve(max_handshakes_per_address=2, handshake_timeout=0.5)
    silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
    await until(lambda: listener.connection_count == 2)
    await assert_alive(listener, connect)
    for reader, writer in silent:
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    assert listener.refused == 0


_UNREAD = 32 << 20
"""Octets, far more than the system takes for a connection that nobody reads."""


async def test_a_handshake_that_may_not_begin_in_time(serve: Any, connect: Any):
    """Who waits is closed like who is slow; nothing is read of it, and its place is free again."""
    listener = await serve(
        max_handshakes_per_address=1, max_connections_per_address=3, handshake_timeout=0.5
    )
    streams = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(3)]
    for _, writer in streams[1:]:
        writer.write(_UNREAD * b"x")
    with pytest.raises(OSError):
        await connect.h2(listener)
    assert listener.refused == 1
    for _ in range(2000):  # as often as reading all of it would take, many times over
        await asyncio.sleep(0)
    for _, writer in streams[1:]:  # the rest is in buffers of the system
        assert writer.transport.get_write_buffer_size() > _UNREAD / 2
    for reader, writer in streams:
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 5)
        writer.close()
    await until(lambda: listener.connection_count == 0)
    await assert_alive(listener, connect)


async def test_handshakes_of_all_addresses(serve: Any, connect: Any):
    """Where there is no room at all, a connection is closed at once."""
    listener = await serve(max_handshakes=2, handshake_timeout=0.5)
    silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
    with pytest.raises(OSError):
        await connect.h2(listener)
    assert listener.refused == 1
    for reader, writer in silent:
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    await assert_alive(listener, connect)


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop go round until something has happened."""
    for _ in range(100_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


class Stranger:
    """An application that knows those who say so, after a while."""

    def __init__(self, hello: Any) -> None:
        self.hello = hello
        self.asked = 0

    def wants_streaming(self, request: Any) -> bool:
        return False

    async def identify(self, exchange: Any) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        return exchange.request.header("known") == "yes"

    def handle(self, exchange: Any) -> Any:
        return self.hello.handle(exchange)


@pytest.mark.parametrize("known", ["yes", "no"])
async def test_bodies_of_strangers(serve: Any, connect: Any, hello: Any, known: str):
    """Only the beginning is read; who has signed in may send it all."""
    application = Stranger(hello)
    listener = await serve(application)
    client = await connect.h2(listener)
    body = b"x" * 1_000_000
    status, answer = await client.request("POST", "/echo", [("known", known)], body)
    assert status == (200 if known == "yes" else 413)
    assert len(answer) == (1_000_000 if known == "yes" else len(b"too large\n"))
    other = await connect.http1(listener)
    head = f"POST /echo HTTP/1.1\r\nHost: h\r\nknown: {known}\r\nContent-Length: 1000000\r\n\r\n"
    other.send(head.encode() + body)
    answer = await other.read_until(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200" if known == "yes" else b"HTTP/1.1 413")
    assert application.asked == 2
    assert listener.buffered == listener._hub.buffered_unknown == 0
    if known == "no":
        assert all(request.truncated for request in hello.requests)


async def test_small_bodies_are_not_asked_about(serve: Any, connect: Any, hello: Any):
    """Who sends little is asked for their name when the request is served."""
    application = Stranger(hello)
    client = await connect.h2(await serve(application))
    assert await client.request("POST", "/echo", body=b"x" * 10_000) == (200, b"x" * 10_000)
    assert application.asked == 0


async def test_bodies_of_all_strangers_together(serve: Any, connect: Any, hello: Any):
    """There is room for so many; those who have signed in do not notice."""
    application = Stranger(hello)
    application.identify = lambda exchange: hello.gate.wait()  # type: ignore[assignment]
    listener = await serve(application, max_buffered_unknown=100_000)
    client = await connect.raw(listener)
    for stream in (1, 3):
        client.request(stream, "/echo", method="POST", ends=False)
        for _ in range(4):
            client.send(frames.frame(frames.DATA, 0, stream, b"x" * 15_000))
    _, _, stream_id, payload = await client.next_of(frames.RST_STREAM)
    assert (stream_id, frames.U32.unpack(payload)[0]) == (3, frames.REFUSED_STREAM)
    assert listener.buffered == 60_000
    hello.gate.set()


@pytest.mark.parametrize("octets", [b"1\r\nx\r\n", b"x: y\r\n"])
async def test_floods_of_one_connection_leave_others_alone(
    serve: Any, connect: Any, hello: Any, octets: bytes
):
    """However much of it comes at once, others are served before all of it has been read."""
    listener = await serve(plain=True)
    flood = await connect.http1(listener)
    start = b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    flood.send(start + octets * 20_000)
    other = await connect.raw(listener)
    other.request(1)
    assert await other.answer(1) == (200, b"hello\n")
    (connection, *_) = listener._hub.connections
    assert len(connection._raw) <= 512 * 1024


async def test_websocket_flood(serve: Any, connect: Any, hello: Any):
    """Messages without content cost something all the same: reading stops."""
    listener = await serve(max_websocket_message=10_000, plain=True)
    hello.websocket = lambda exchange: exchange.websocket() and None
    client = await connect.http1(listener)
    client.send(
        b"GET /websocket HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    )
    await client.read_until(b"\r\n\r\n")
    client.send(b"\x82\x80\0\0\0\0" * 100_000)
    (connection,) = listener._hub.connections
    await until(lambda: not connection._wants_reading)
    await assert_alive_plain(listener, connect)
    assert len(connection.driver._inbox) < 1000


async def assert_alive_plain(listener: Any, connect: Any) -> None:
    client = await connect.raw(listener)
    client.request(1)
    assert await client.answer(1) == (200, b"hello\n")
