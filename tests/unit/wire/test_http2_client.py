"""The client's side of the HTTP/2 state machine: frames of a server in, events and frames out."""

from __future__ import annotations

from typing import Any

import hpack
import pytest

from pykcp.wire.http2 import frames
from pykcp.wire.http2.client import Http2Client
from pykcp.wire.http2.events import (
    BodyReceived,
    ConnectionFailed,
    ResponseReceived,
    StreamLost,
)
from pykcp.wire.http2.frames import frame, goaway, reset, settings, window_update
from pykcp.wire.http2.hpack import HeaderEncoder
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.settings import ClientSettings

OPEN, END, LAST = frames.END_HEADERS, frames.END_HEADERS | frames.END_STREAM, frames.END_STREAM


class Client:
    """The machine and what a server would say to it."""

    def __init__(self, **limits: Any) -> None:
        self.now = 100.0
        self.machine = Http2Client(ClientSettings(**limits), Huffman(), self.now)
        self.machine.room = 1 << 30
        self.encoder = hpack.Encoder()
        self._ours = HeaderEncoder()

    def greet(self, **values: int) -> Client:
        self.feed(settings({getattr(frames, f"SETTINGS_{n}"): v for n, v in values.items()}))
        self.machine.out.clear()
        return self

    def open(self, method: str = "GET", ends: bool = True) -> Any:
        block = b"".join(
            self._ours.field(f) for f in ((":method", method), (":scheme", "https"), (":path", "/"))
        )
        return self.machine.open(block, ends, method == "HEAD")

    def head(self, stream: int, *fields: tuple[str, str], flags: int = OPEN, status: str = "200"):
        block = self.encoder.encode([(":status", status), *fields])
        return frame(frames.HEADERS, flags, stream, block)

    def feed(self, data: bytes) -> list[str]:
        events = self.machine.receive(data, self.now)
        while self.machine.is_behind:
            events += self.machine.receive(b"", self.now)
        return [describe(event) for event in events]

    def sent(self) -> list[tuple[int, int]]:
        """Kinds and streams of the frames that the machine wants to send."""
        data, found = b"".join(self.machine.out), []
        self.machine.out.clear()
        while data:
            word, _, stream = frames.HEADER.unpack_from(data)
            found.append((word & 0xFF, stream))
            data = data[9 + (word >> 8) :]
        return found


def describe(event: Any) -> str:
    if isinstance(event, ResponseReceived):
        return f"head {event.stream.id} {event.head.status}{' end' if event.is_complete else ''}"
    if isinstance(event, BodyReceived):
        return f"body {event.stream.id} {len(event.data)}{' end' if event.is_last else ''}"
    if isinstance(event, StreamLost):
        return f"lost {event.stream.id} {event.code}"
    if isinstance(event, ConnectionFailed):
        return f"failed {event.code}"
    return type(event).__name__


def data(stream: int, octets: bytes = b"", flags: int = 0) -> bytes:
    return frame(frames.DATA, flags, stream, octets)


def test_greeting():
    """The preface, then settings that switch pushes off."""
    octets = b"".join(Client().machine.out)
    assert octets.startswith(frames.PREFACE)
    assert frames.SETTING.pack(frames.SETTINGS_ENABLE_PUSH, 0) in octets


def test_requests_and_answers():
    client = Client().greet()
    first, second = client.open(), client.open("POST", ends=False)
    assert (first.id, second.id) == (1, 3)
    assert client.sent() == [(frames.HEADERS, 1), (frames.HEADERS, 3)]
    client.machine.send(second, b"abc")
    client.machine.end(second)
    assert client.sent() == [(frames.DATA, 3), (frames.DATA, 3)]
    octets = client.head(3) + data(3, b"12") + client.head(1, flags=END) + data(3, b"3", LAST)
    assert client.feed(octets) == ["head 3 200", "body 3 2", "head 1 200 end", "body 3 1 end"]
    assert not client.machine.streams


def test_octet_by_octet():
    """However the octets are cut, the events are the same."""
    client = Client().greet()
    client.open()
    octets = client.head(1, ("a", "b")) + data(1, b"abc") + data(1, b"", LAST)
    events = [event for octet in octets for event in client.feed(bytes([octet]))]
    assert events == ["head 1 200", "body 1 3", "body 1 0 end"]


def test_trailers():
    client = Client().greet()
    stream = client.open()
    trailers = frame(frames.HEADERS, END, 1, client.encoder.encode([("x-sum", "1")]))
    assert client.feed(client.head(1) + data(1, b"a") + trailers)[-1] == "body 1 0 end"
    assert stream.received_trailers == [("x-sum", "1")]


def test_interim_answers_are_dropped():
    client = Client().greet()
    client.open()
    octets = client.head(1, status="100") + client.head(1, ("link", "x"), status="103")
    assert client.feed(octets + client.head(1, flags=END)) == ["head 1 200 end"]


@pytest.mark.parametrize(("method", "status"), [("HEAD", "200"), ("GET", "304"), ("GET", "204")])
def test_answers_without_a_body_may_announce_one(method: str, status: str):
    client = Client().greet()
    client.open(method)
    head = client.head(1, ("content-length", "5"), flags=END, status=status)
    assert client.feed(head) == [f"head 1 {status} end"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda c: data(1, b"abc"), id="body before the head"),
        pytest.param(lambda c: data(1, b"", LAST), id="end without a head"),
        pytest.param(lambda c: c.head(1, status="99"), id="two digits"),
        pytest.param(lambda c: c.head(1, status="0200"), id="four digits"),
        pytest.param(lambda c: c.head(1, status="101"), id="upgrade"),
        pytest.param(lambda c: c.head(1, status="100", flags=END), id="interim that ends"),
        pytest.param(lambda c: c.head(1, ("connection", "close")), id="header of HTTP/1.1"),
        pytest.param(lambda c: c.head(1, ("transfer-encoding", "chunked")), id="smuggling"),
        pytest.param(lambda c: c.head(1, (":path", "/")), id="pseudo-header of requests"),
        pytest.param(lambda c: c.head(1, ("a", "b\r\nc: d")), id="control characters"),
        pytest.param(lambda c: c.head(1, ("Upper", "b")), id="upper case"),
        pytest.param(
            lambda c: c.head(1, ("content-length", "1"), ("content-length", "2")), id="two lengths"
        ),
        pytest.param(lambda c: c.head(1, ("content-length", "3"), flags=END), id="no body"),
        pytest.param(
            lambda c: c.head(1, ("content-length", "3")) + data(1, b"abcd"), id="too long"
        ),
        pytest.param(
            lambda c: c.head(1, ("content-length", "3")) + data(1, b"ab", LAST), id="too short"
        ),
        pytest.param(lambda c: c.head(1) + c.head(1), id="trailers that do not end"),
        pytest.param(
            lambda c: c.head(1) + frame(1, END, 1, c.encoder.encode([(":status", "200")])),
            id="pseudo-header in trailers",
        ),
        pytest.param(lambda c: c.head(1) + data(1, b"x" * 101), id="window exceeded"),
    ],
)
def test_bad_answers_cost_their_stream_only(answer: Any):
    client = Client(first_window=100).greet()
    client.open(), client.open()
    events = client.feed(answer(client))
    assert events[-1].startswith("lost 1 ")
    assert (frames.RST_STREAM, 1) in client.sent()
    assert client.feed(client.head(3, flags=END)) == ["head 3 200 end"]


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2\x88"), id="push"),
        pytest.param(frame(frames.HEADERS, 5, 2, b"\x88"), id="stream of the server"),
        pytest.param(frame(frames.HEADERS, 5, 7, b"\x88"), id="stream that is not open"),
        pytest.param(data(9, b"x"), id="data of a stream that is not open"),
        pytest.param(frame(frames.HEADERS, 5, 1, b"\xff\xff\xff\xff\x7f"), id="bad compression"),
        pytest.param(settings({frames.SETTINGS_ENABLE_PUSH: 1}), id="pushes"),
        pytest.param(settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**31}), id="window"),
        pytest.param(window_update(0, 2**31 - 1), id="window of the connection"),
        pytest.param(frame(frames.DATA, 0, 1, b"x" * 65537), id="large frame"),
        pytest.param(frame(frames.HEADERS, 0, 1, b"") + data(1), id="interrupted block"),
        pytest.param(
            frame(frames.HEADERS, 0, 1, b"") + frame(9, 0, 1, b"") * 100, id="continuations"
        ),
        pytest.param(frame(frames.PING, 0, 0, b"12345678") * 20_000, id="pings"),
        pytest.param(frame(frames.PING, 1, 0, b"12345678") * 20_000, id="answers to pings"),
        pytest.param(settings({}) * 20_000, id="settings"),
        pytest.param(reset(1, 8) * 20_000, id="resets"),
        pytest.param(frame(frames.HEADERS, 4, 1, b"\x08\x03100") * 2_000, id="interim answers"),
        pytest.param(frame(99, 0, 0) * 20_000, id="unknown frames"),
        pytest.param(goaway(1, 0) * 20_000, id="farewells"),
    ],
)
def test_hostile_servers_lose_the_connection(octets: bytes):
    client = Client().greet()
    client.open()
    events = client.feed(octets)
    assert events[-1].startswith("failed ")
    assert client.machine.is_failed
    assert not client.machine.can_open


def test_empty_data_cannot_go_on_for_ever():
    client = Client().greet()
    client.open()
    assert client.feed(client.head(1) + data(1) * 20_000)[-1].startswith("failed ")


def test_large_heads():
    """A little too large costs the stream, much too large the connection."""
    client = Client(max_header_list_size=2000).greet()
    client.open(), client.open()
    assert client.feed(client.head(1, *[("a", "b" * 100)] * 20))[-1].startswith("lost 1")
    assert client.feed(client.head(3, *[("a", "b" * 100)] * 200))[-1].startswith("failed")


def test_windows_follow_the_reader():
    """Nothing is given back before it is consumed; the connection's window is."""
    client = Client(first_window=1000, connection_window=70_000).greet()
    stream = client.open()
    client.feed(client.head(1) + data(1, b"x" * 1000))
    assert client.sent()[1:] == []
    client.machine.consume(stream, 1000)
    assert client.sent() == [(frames.WINDOW_UPDATE, 1)]


def test_bodies_wait_for_the_servers_windows():
    client = Client().greet(INITIAL_WINDOW_SIZE=10)
    stream = client.open("POST", ends=False)
    client.sent()
    client.machine.send(stream, b"x" * 25)
    client.machine.pump()
    assert (stream.pending_size, client.sent()) == (15, [(frames.DATA, 1)])
    client.feed(window_update(1, 15))
    client.machine.pump()
    assert stream.pending_size == 0


def test_goaway():
    """Streams that the server will not answer are lost as refused; no more are opened."""
    client = Client().greet()
    client.open(), client.open()
    assert client.machine.can_open
    assert client.feed(goaway(1, 0)) == [f"lost 3 {frames.REFUSED_STREAM}"]
    assert not client.machine.can_open
    assert client.feed(client.head(1, flags=END)) == ["head 1 200 end"]
    assert client.machine.is_finished


def test_an_announced_goaway_costs_nothing():
    client = Client().greet()
    client.open()
    assert client.feed(goaway(2**31 - 1, 0)) == []
    assert not client.machine.can_open
    assert not client.machine.is_finished


def test_limit_of_streams():
    client = Client(max_streams=500)
    assert client.machine.max_streams == 100  # until the server has spoken
    client.greet()
    assert client.machine.max_streams == 500
    client.greet(MAX_CONCURRENT_STREAMS=1)
    client.open()
    assert not client.machine.can_open
    client.feed(client.head(1, flags=END))
    assert client.machine.can_open


def test_cancelled_streams_may_still_be_answered():
    """What the server sent before it heard of it is thrown away, but counts for the table."""
    client = Client().greet()
    client.machine.cancel(client.open())
    client.open()
    events = client.feed(client.head(1, ("x", "y")) + data(1, b"abc") + client.head(3, ("x", "y")))
    assert events == ["head 3 200"]


def test_an_early_answer_ends_the_request():
    client = Client().greet()
    client.open("POST", ends=False)
    client.sent()
    assert client.feed(client.head(1, flags=END, status="403")) == ["head 1 403 end"]
    assert client.sent() == [(frames.RST_STREAM, 1)]
    assert not client.machine.streams
