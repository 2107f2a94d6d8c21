"""Ends: graceful and not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykcp.wire.http2 import frames


async def test_drain_tells_twice_and_finishes_what_began(serve: Any, connect: Any, hello: Any):
    """GOAWAY that announces, GOAWAY that names the last stream, answers, close."""
    listener = await serve()
    client = await connect.raw(listener)
    client.request(1, "/watch")
    await hello.wait_for_streams(1)
    drained = asyncio.ensure_future(listener.drain(10))
    _, _, _, payload = await client.next_of(frames.GOAWAY)
    assert frames.TWO_U32.unpack_from(payload) == (2**31 - 1, 0)
    client.request(3, "/watch")  # on its way when the announcement came
    await hello.wait_for_streams(2)
    kind, _, _, payload = await client.next_of(frames.PING)
    client.send(frames.frame(kind, frames.ACK, 0, payload))
    _, _, _, payload = await client.next_of(frames.GOAWAY)
    assert frames.TWO_U32.unpack_from(payload) == (3, 0)
    client.request(5)  # too late
    for stream in hello.streams:
        stream.write(b"last")
        stream.end()
    for stream_id in (1, 3):
        assert await client.next_of(frames.DATA) == (frames.DATA, 0, stream_id, b"last")
        assert await client.next_of(frames.DATA) == (frames.DATA, 1, stream_id, b"")
    assert await client.read_to_end() == b""
    await drained
    assert len(hello.requests) == 2


async def test_drain_without_an_answer_to_the_ping(serve: Any, connect: Any, hello: Any):
    """A client that does not answer has a second, as in Go."""
    listener = await serve()
    client = await connect.raw(listener)
    client.request(1, "/watch")
    await hello.wait_for_streams(1)
    drained = asyncio.ensure_future(listener.drain(10))
    for last in (2**31 - 1, 1):
        _, _, _, payload = await client.next_of(frames.GOAWAY)
        assert frames.TWO_U32.unpack_from(payload)[0] == last
    hello.streams[0].end()
    await client.read_to_end()
    await drained


async def test_drain_closes_idle_connections_at_once(serve: Any, connect: Any):
    """HTTP/1.1 without a request, HTTP/2 as soon as it has heard, half-open ones too."""
    listener = await serve()
    first = await connect.http1(listener)
    first.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    await first.read_until(b"hello\n")
    second = await connect.raw(listener)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    third = await connect.raw(listener)  # the server has seen those before it
    drained = asyncio.ensure_future(listener.drain(10))
    assert await first.read_to_end() == b""
    assert await reader.read() == b""
    for client in (second, third):
        _, _, _, payload = await client.next_of(frames.PING)
        client.send(frames.frame(frames.PING, frames.ACK, 0, payload))
        assert await client.goaway_code() == 0
    await drained
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", listener.port)
    writer.close()


async def test_drain_of_http1_in_progress(serve: Any, connect: Any, hello: Any):
    """The answer is completed and says that it is the last; a stream has the time it is given."""
    listener = await serve()
    client = await connect.http1(listener)
    client.send(b"GET /gated HTTP/1.1\r\nHost: h\r\n\r\n")
    watcher = await connect.http1(listener)
    watcher.send(b"GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")
    await hello.wait_for_requests(2)
    drained = asyncio.ensure_future(listener.drain(10))
    await asyncio.sleep(0)
    hello.gate.set()
    answer = await client.read_to_end()
    assert b"connection: close\r\n" in answer
    assert answer.endswith(b"gated\n")
    hello.streams[0].write(b"last")
    hello.streams[0].end()
    assert (await watcher.read_to_end()).endswith(b"4\r\nlast\r\n0\r\n\r\n")
    await drained


async def test_drain_that_takes_too_long(serve: Any, connect: Any, hello: Any):
    """What has not ended by then is broken off, its handlers cancelled."""
    listener = await serve()
    client = await connect.h2(listener)
    client.start("GET", "/waits")
    client.start("GET", "/watch")
    await hello.wait_for("started")
    await hello.wait_for_streams(1)
    await listener.drain(0.01)
    assert sorted(hello.finished) == ["cancelled", "closed", "started"]
    assert listener.connection_count == 0
    await client.read_to_end()


async def test_close_waits_for_handlers(serve: Any, connect: Any, hello: Any):
    """When it returns no task is left."""
    listener = await serve()
    client = await connect.http1(listener)
    client.send(b"GET /waits HTTP/1.1\r\nHost: h\r\n\r\n")
    await hello.wait_for("started")
    await listener.close()
    assert hello.finished == ["started", "cancelled"]
    assert len(asyncio.all_tasks()) == 1
    await listener.close()


async def test_before_the_start(hello: Any):
    """A listener that never started can be ended too."""
    from pykcp.wire.listener import Listener

    listener = Listener(hello)
    await listener.drain(1)
    await listener.close()
    assert listener.connection_count == 0
