"""The HTTP/2 state machine, receiving: frames in, events and frames out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pykcp.wire.http2 import frames
from pykcp.wire.http2.frames import frame, settings, window_update
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.machine import Http2
from pykcp.wire.settings import WireSettings

PING = frame(frames.PING, 0, 0, b"12345678")


def data(stream_id: int, octets: bytes = b"", flags: int = 0) -> bytes:
    return frame(frames.DATA, flags, stream_id, octets)


def test_greeting(make_wire: Any):
    """The server speaks first, and acknowledges what the client says of itself."""
    wire = make_wire()
    assert wire.sent() == ["SETTINGS", f"WINDOW_UPDATE 0 {(1 << 20) - 65535}"]
    assert wire.machine.waiting_since == 100.0
    assert wire.feed(frames.PREFACE + settings({})) == []
    assert wire.sent() == ["SETTINGS ACK"]
    assert wire.machine.waiting_since is None


def test_octet_by_octet(make_wire: Any):
    """However the octets are cut, the events are the same."""
    wire = make_wire()
    octets = frames.PREFACE + settings({}) + wire.headers(1) + wire.headers(3, flags=4)
    octets += data(3, b"abc") + data(3, b"", 1) + PING
    events = [event for octet in octets for event in wire.feed(bytes([octet]))]
    assert events == [
        "RequestReceived 1 GET / complete",
        "RequestReceived 3 GET / open",
        "BodyReceived 3 3",
        "BodyReceived 3 0 last",
    ]


def test_get(wire: Any):
    """A request without a body is complete at once."""
    assert wire.feed(wire.headers(1)) == ["RequestReceived 1 GET / complete"]


def test_equal_blocks_share_a_head(wire: Any):
    """While the table stands still, equal octets are the same request, decoded once."""
    wire.feed(wire.headers(1, ("a", "b")))
    first, second = (wire.machine.receive(wire.headers(n, ("a", "b")), 0)[0] for n in (3, 5))
    assert first.head is second.head
    wire.feed(wire.headers(7, ("c", "d")))
    third = wire.machine.receive(wire.headers(9, ("a", "b")), 0)[0]
    assert third.head is not first.head
    assert third.head.headers == first.head.headers


def test_remembered_heads_are_bounded(wire: Any):
    """Many different blocks that leave the table alone do not fill memory."""
    for number in range(200):
        block = b"\x82\x87\x04\x04/%03d" % number
        wire.feed(frame(frames.HEADERS, 5, 2 * number + 1, block))
    assert len(wire.machine._heads) <= 64


def test_post_with_trailers(wire: Any):
    """Trailers end a body; they are checked and dropped."""
    assert wire.feed(wire.headers(1, flags=4, method="POST")) == ["RequestReceived 1 POST / open"]
    assert wire.feed(data(1, b"abc")) == ["BodyReceived 1 3"]
    trailers = frame(frames.HEADERS, 5, 1, wire.encoder.encode([("x", "y")]))
    assert wire.feed(trailers) == ["BodyReceived 1 0 last"]


def test_padding_and_priority_are_taken_off(wire: Any):
    """Padding counts for flow control and for nothing else."""
    block = wire.block()
    payload = b"\x03" + b"\0\0\0\0\x10" + block + b"\0\0\0"
    assert wire.feed(frame(frames.HEADERS, 0x2C, 1, payload)) == ["RequestReceived 1 GET / open"]
    assert wire.feed(data(1, b"\x05abc\0\0\0\0\0", flags=9)) == ["BodyReceived 1 3 last"]


def test_header_block_in_pieces(wire: Any):
    """A block may be spread over CONTINUATION frames."""
    block = wire.block(("x", "y" * 40))
    assert wire.feed(frame(frames.HEADERS, 1, 1, block[:3])) == []
    assert wire.machine.waiting_since == wire.now
    assert wire.feed(frame(frames.CONTINUATION, 0, 1, block[3:10])) == []
    rest = frame(frames.CONTINUATION, 4, 1, block[10:])
    assert wire.feed(rest) == ["RequestReceived 1 GET / complete"]
    assert wire.machine.waiting_since is None


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (frame(frames.HEADERS, 5, 0, b"\x82"), frames.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 5, 2, b"\x82"), frames.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 5, 1, b"\x80"), frames.COMPRESSION_ERROR),
        (frame(frames.HEADERS, 0xD, 1, b""), frames.FRAME_SIZE_ERROR),
        (frame(frames.HEADERS, 0xD, 1, b"\x05\x82"), frames.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 0x25, 1, b"\0\0\0\x01\x10\x82"), frames.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 0x25, 1, b"\0\0"), frames.FRAME_SIZE_ERROR),
        (frame(frames.HEADERS, 1, 1, b"\x82") + PING, frames.PROTOCOL_ERROR),
        (frame(frames.CONTINUATION, 4, 1, b"\x82"), frames.PROTOCOL_ERROR),
        (
            frame(frames.HEADERS, 1, 1, b"\x82") + frame(frames.CONTINUATION, 4, 3, b"\x87"),
            frames.PROTOCOL_ERROR,
        ),
        (data(0, b"x"), frames.PROTOCOL_ERROR),
        (data(1, b"x"), frames.PROTOCOL_ERROR),
        (frame(frames.PRIORITY, 0, 0, b"\0\0\0\x01\x10"), frames.PROTOCOL_ERROR),
        (frame(frames.PRIORITY, 0, 3, b"\0\0\0\x03\x10"), frames.PROTOCOL_ERROR),
        (frame(frames.RST_STREAM, 0, 1, b"\0\0\0\0"), frames.PROTOCOL_ERROR),
        (frame(frames.RST_STREAM, 0, 0, b"\0\0\0\0"), frames.PROTOCOL_ERROR),
        (frame(frames.RST_STREAM, 0, 1, b"\0"), frames.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 0, 1), frames.PROTOCOL_ERROR),
        (frame(frames.SETTINGS, 0, 0, b"\0"), frames.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 1, 0, b"\0"), frames.FRAME_SIZE_ERROR),
        (settings({frames.SETTINGS_ENABLE_PUSH: 2}), frames.PROTOCOL_ERROR),
        (settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 2**31}), frames.FLOW_CONTROL_ERROR),
        (settings({frames.SETTINGS_MAX_FRAME_SIZE: 16383}), frames.PROTOCOL_ERROR),
        (settings({frames.SETTINGS_MAX_FRAME_SIZE: 2**24}), frames.PROTOCOL_ERROR),
        (frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\x02\x82"), frames.PROTOCOL_ERROR),
        (frame(frames.PING, 0, 1, b"12345678"), frames.PROTOCOL_ERROR),
        (frame(frames.PING, 0, 0, b"1234567"), frames.FRAME_SIZE_ERROR),
        (frame(frames.GOAWAY, 0, 1, b"\0" * 8), frames.PROTOCOL_ERROR),
        (frame(frames.GOAWAY, 0, 0, b"\0" * 7), frames.FRAME_SIZE_ERROR),
        (frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0"), frames.FRAME_SIZE_ERROR),
        (window_update(0, 0), frames.PROTOCOL_ERROR),
        (window_update(0, 2**31 - 1), frames.FLOW_CONTROL_ERROR),
        (window_update(1, 1), frames.PROTOCOL_ERROR),
        (frames.HEADER.pack(16385 << 8, 0, 1), frames.FRAME_SIZE_ERROR),
    ],
)
def test_faults_that_end_the_connection(wire: Any, octets: bytes, code: int):
    """The rules on the connection as a whole: GOAWAY with the right code, and deaf from then on."""
    assert wire.feed(octets)[-1] == f"ConnectionFailed {code}"
    assert wire.sent()[-1].startswith("GOAWAY")
    assert wire.machine.is_finished
    assert wire.feed(wire.headers(1)) == []
    assert wire.sent() == []


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (b"GET / HTTP/1.1\r\n", frames.PROTOCOL_ERROR),
        (frames.PREFACE + PING, frames.PROTOCOL_ERROR),
        (frames.PREFACE + frame(frames.SETTINGS, 1, 0), frames.PROTOCOL_ERROR),
    ],
)
def test_bad_beginnings(make_wire: Any, octets: bytes, code: int):
    """First the preface, then SETTINGS."""
    assert make_wire().feed(octets) == [f"ConnectionFailed {code}"]


POST = ("content-length", "3")


@pytest.mark.parametrize(
    ("frames_of", "code"),
    [
        (lambda w: w.headers(1, ("Upper", "x")), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, ("connection", "close")), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, POST), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, POST, flags=4) + data(1, b"abcd"), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, POST, flags=4) + data(1, b"ab", 1), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, flags=4) + w.headers(1, flags=4), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1, flags=4) + w.headers(1, flags=5), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1) + data(1, b"x"), frames.STREAM_CLOSED),
        (lambda w: w.headers(1) + w.headers(1), frames.STREAM_CLOSED),
        (lambda w: w.headers(1) + window_update(1, 0), frames.PROTOCOL_ERROR),
        (lambda w: w.headers(1) + window_update(1, 2**31 - 1), frames.FLOW_CONTROL_ERROR),
        (lambda w: w.headers(1) + frame(frames.PRIORITY, 0, 1, b"x"), frames.FRAME_SIZE_ERROR),
    ],
)
def test_faults_that_end_a_stream(wire: Any, frames_of: Any, code: int):
    """The rules on one stream: RST_STREAM, and the others go on."""
    wire.feed(frames_of(wire))
    assert f"RST_STREAM 1 {code}" in wire.sent()
    assert not wire.machine.streams
    assert wire.feed(wire.headers(3)) == ["RequestReceived 3 GET / complete"]


def test_invalid_field_from_the_table(wire: Any):
    """An invalid field is refused also when a later block only refers to it."""
    wire.feed(wire.headers(1, ("Upper", "x")))
    wire.feed(wire.headers(3, ("Upper", "x")))
    assert wire.sent() == ["RST_STREAM 1 1", "RST_STREAM 3 1"]
    assert wire.feed(wire.headers(5)) == ["RequestReceived 5 GET / complete"]


def test_closed_streams(wire: Any):
    """What comes after an end is told apart: closed, never opened, or broken off by us."""
    stream = wire.request(5)
    wire.machine.send_headers(stream, b"\x88", ends=True)
    wire.sent()
    wire.feed(data(5, b"late"))
    assert wire.sent() == [f"RST_STREAM 5 {frames.STREAM_CLOSED}"]
    assert wire.feed(data(5, b"later still")) == []  # now it knows
    assert wire.feed(window_update(5, 1000)) == []
    assert wire.feed(wire.headers(3)) == [f"ConnectionFailed {frames.PROTOCOL_ERROR}"]


@pytest.mark.parametrize(
    ("more", "has_news"),
    [
        (b"", False),
        (PING, True),
        (window_update(1, 4096)[:12], True),
        (window_update(1, 1), False),
    ],
)
def test_window_updates_are_told_from_the_rest(wire: Any, more: bytes, has_news: bool):
    """Nothing but window updates: the connection may wait for some more of them."""
    stream = wire.request(1)
    before = wire.machine.window, stream.window
    updates = 200 * (window_update(0, 5000) + window_update(1, 4096))
    assert wire.feed(updates + more) == []
    widened = wire.machine.window - before[0], stream.window - before[1]
    assert widened == (200 * 5000, 200 * 4096 + (len(more) == 13))
    assert wire.machine.has_news == has_news


def test_window_updates_before_a_request_and_behind_it(wire: Any):
    updates = window_update(0, 5000)
    octets = updates + wire.headers(1) + updates + window_update(1, 300) + PING
    assert wire.feed(octets) == ["RequestReceived 1 GET / complete"]
    assert wire.machine.window == frames.DEFAULT_WINDOW + 10_000
    assert wire.machine.streams[1].window == frames.DEFAULT_WINDOW + 300
    assert wire.sent() == ["PING ACK"]


def test_headers_on_a_closed_stream(wire: Any):
    """A second request on a used stream is an error of the connection."""
    wire.machine.send_headers(wire.request(1), b"\x88", ends=True)
    assert wire.feed(wire.headers(1)) == [f"ConnectionFailed {frames.STREAM_CLOSED}"]


def test_broken_off_by_the_client(wire: Any):
    """The stream is lost at once, even to an event that has not been looked at yet."""
    cancel = frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08")
    events = wire.machine.receive(wire.headers(1) + cancel, 0)
    assert not events[0].stream.is_local_open
    assert events[1].code == frames.CANCEL
    assert not wire.machine.streams


def test_body_windows(make_wire: Any):
    """The connection's window follows arrival, a stream's what has been consumed."""
    wire = make_wire(stream_window=1000, connection_window=65535).open()
    wire.feed(wire.headers(1, flags=4))
    stream = wire.machine.streams[1]
    assert wire.feed(data(1, b"x" * 900)) == ["BodyReceived 1 900"]
    assert wire.sent() == []
    wire.machine.consume(stream, 900)
    assert wire.sent() == ["WINDOW_UPDATE 1 900"]
    wire.feed(data(1, b"x" * 1000))
    wire.feed(data(1, b"x"))
    assert wire.sent() == [f"RST_STREAM 1 {frames.FLOW_CONTROL_ERROR}"]
    for stream_id in range(3, 70, 2):
        wire.feed(wire.headers(stream_id, flags=4) + data(stream_id, b"x" * 1000))
    assert wire.sent() == ["WINDOW_UPDATE 0 32901"]


def test_connection_window_is_enforced(make_wire: Any):
    """More than the connection's window at once ends the connection."""
    wire = make_wire(stream_window=100_000, connection_window=100_000).open()
    wire.machine._receive_window = 10
    wire.feed(wire.headers(1, flags=4))
    assert wire.feed(data(1, b"x" * 11))[-1] == f"ConnectionFailed {frames.FLOW_CONTROL_ERROR}"


def test_initial_window_changes_open_streams(wire: Any):
    """A new initial window applies to streams that are open already, downwards too."""
    stream = wire.request()
    wire.feed(settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 10}))
    assert stream.window == 10
    wire.feed(settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 0}))
    assert stream.window == 0
    wire.feed(window_update(1, 2**31 - 1))
    events = wire.feed(settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 1}))
    assert events[-1] == f"ConnectionFailed {frames.FLOW_CONTROL_ERROR}"


def test_ping_is_answered(wire: Any):
    """With its own octets."""
    wire.feed(PING)
    assert b"".join(wire.machine.out) == frame(frames.PING, 1, 0, b"12345678")


def test_unknown_frames_and_settings_are_ignored(wire: Any):
    """Extensions pass."""
    assert wire.feed(frame(0xFA, 0xFF, 7, b"?") + settings({0x99: 1})) == []
    assert wire.sent() == ["SETTINGS ACK"]


def test_client_says_goodbye(wire: Any):
    """We stop accepting too, and are finished when the open streams are."""
    stream = wire.request()
    wire.feed(frame(frames.GOAWAY, 0, 0, b"\0" * 8))
    assert wire.sent() == ["GOAWAY 1 0"]
    assert not wire.machine.is_finished
    wire.machine.send_headers(stream, b"\x88", ends=True)
    assert wire.machine.is_finished


@hypothesis_settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 12), st.integers(0, 255), st.integers(0, 9))
def test_no_octets_break_it(junk: bytes, kind: int, flags: int, stream_id: int):
    """Whatever comes, the machine answers with frames or a GOAWAY and never with an exception."""
    machine = Http2(WireSettings(), Huffman(), 0.0)
    machine.receive(frames.PREFACE + settings({}), 0.0)
    for octets in (frame(kind, flags, stream_id, junk), junk, frame(kind, flags, 1, junk[5:])):
        machine.receive(octets, 0.0)
    out = b"".join(machine.out)
    while out:
        out = out[9 + (frames.HEADER.unpack_from(out)[0] >> 8) :]
