"""The HTTP/2 state machine against clients that mean ill."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.wire.http2 import frames
from pykcp.wire.http2.frames import frame, settings, window_update

CALM = f"ConnectionFailed {frames.ENHANCE_YOUR_CALM}"


def feed_until_failure(wire: Any, octets: Any, limit: int) -> int:
    """How many it takes until the machine has had enough."""
    for number in range(limit):
        events = wire.feed(octets(number) if callable(octets) else octets)
        wire.machine.out.clear()
        if CALM in events:
            return number
    raise AssertionError(f"{limit} were swallowed")


def test_too_many_streams(make_wire: Any):
    """The surplus is refused in a way that may be tried again; an end makes room."""
    wire = make_wire(max_concurrent_streams=2).open()
    wire.request(1)
    wire.request(3)
    assert wire.feed(wire.headers(5)) == []
    assert wire.sent() == [f"RST_STREAM 5 {frames.REFUSED_STREAM}"]
    wire.machine.end(wire.machine.streams[1])
    assert wire.feed(wire.headers(7)) == ["RequestReceived 7 GET / complete"]


def test_orphans_count_as_streams(make_wire: Any):
    """Work that goes on for a stream that was broken off takes its place."""
    wire = make_wire(max_concurrent_streams=2).open()
    wire.request(1)
    wire.machine.orphans = 1
    wire.feed(wire.headers(3))
    assert wire.sent() == [f"RST_STREAM 3 {frames.REFUSED_STREAM}"]


def test_rapid_reset(make_wire: Any):
    """Open and break off, over and over: a burst passes, a flood does not."""
    wire = make_wire(reset_burst=100, reset_rate=10).open()

    def open_and_reset(number: int) -> bytes:
        stream_id = 2 * number + 1
        return wire.headers(stream_id) + frame(frames.RST_STREAM, 0, stream_id, b"\0\0\0\x08")

    assert feed_until_failure(wire, open_and_reset, 1000) == 100


def test_slow_resets_are_fine(make_wire: Any):
    """A client that ends its watches now and then is not a flood."""
    wire = make_wire(reset_burst=10, reset_rate=10).open()
    for number in range(300):
        wire.now += 0.1
        stream_id = 2 * number + 1
        octets = wire.headers(stream_id) + frame(frames.RST_STREAM, 0, stream_id, b"\0\0\0\x08")
        assert wire.feed(octets)[-1] == f"StreamLost {stream_id} 8"


def test_refusals_count_as_resets(make_wire: Any):
    """A client that ignores the limit on streams is cut off in the end."""
    wire = make_wire(max_concurrent_streams=1, reset_burst=50).open()
    wire.request(1)
    feed_until_failure(wire, lambda number: wire.headers(2 * number + 3), 60)


@pytest.mark.parametrize(
    "octets",
    [
        frame(frames.PING, 0, 0, b"12345678"),
        settings({}),
        settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 1000}),
        frame(frames.PRIORITY, 0, 1, b"\0\0\0\x03\x10"),
        frame(frames.DATA, 0, 1, b""),
        frame(0xBB, 0, 0, b""),
        window_update(0, 1),
        window_update(1, 1),
        window_update(3, 1),
    ],
    ids=[
        *("PING", "SETTINGS", "windows", "PRIORITY", "empty DATA", "unknown"),
        *("tiny windows", "tiny stream windows", "windows of a closed stream"),
    ],
)
def test_floods_of_idle_frames(make_wire: Any, octets: bytes):
    """Frames that bring nothing forward are allowed by the hundred, not by the thousand."""
    wire = make_wire(idle_frame_burst=500, idle_frame_rate=1).open()
    wire.feed(wire.headers(1, flags=4) + wire.headers(3))
    wire.machine.end(wire.machine.streams[3])
    assert 200 <= feed_until_failure(wire, octets, 600) <= 500


def test_each_stream_may_have_one_small_piece(make_wire: Any):
    """Streamed bodies often end with a small piece: only the second one of a stream counts."""
    wire = make_wire(idle_frame_burst=10, idle_frame_rate=1).open()
    for number in range(100):
        stream = 2 * number + 1
        wire.feed(wire.headers(stream, flags=4) + frame(frames.DATA, 0, stream, b"]}"))
        wire.feed(frame(frames.DATA, frames.END_STREAM, stream, b""))
        wire.machine.end(wire.machine.streams[stream])
    wire.feed(wire.headers(201, flags=4))
    assert feed_until_failure(wire, frame(frames.DATA, 0, 201, b"x"), 20) <= 11


def test_changing_windows_of_many_streams_costs_more(make_wire: Any):
    """One small frame that makes us visit a thousand streams is not a small frame."""
    wire = make_wire(idle_frame_burst=500, idle_frame_rate=1).open()
    for number in range(800):
        wire.request(2 * number + 1)
    flip = [settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: size}) for size in (1, 2)]
    assert feed_until_failure(wire, lambda number: flip[number % 2], 100) < 20


def test_stream_faults_count(make_wire: Any):
    """Endless malformed requests end the connection."""
    wire = make_wire(idle_frame_burst=100, idle_frame_rate=1).open()
    feed_until_failure(wire, lambda n: wire.headers(2 * n + 1, ("Upper", "x")), 110)


def test_continuation_flood(make_wire: Any):
    """Neither many empty pieces nor a few large ones are collected for ever."""
    wire = make_wire(max_continuations=20).open()
    wire.feed(frame(frames.HEADERS, 0, 1, wire.block()))
    assert feed_until_failure(wire, frame(frames.CONTINUATION, 0, 1), 100) == 20
    wire = make_wire(max_header_list_size=50_000).open()
    wire.feed(frame(frames.HEADERS, 0, 1, wire.block()))
    piece = frame(frames.CONTINUATION, 0, 1, b"x" * 16_000)
    assert feed_until_failure(wire, piece, 100) == 3


def test_header_list_too_large(make_wire: Any):
    """Somewhat too large is answered; the connection and its table go on."""
    wire = make_wire(max_header_list_size=2000).open()
    events = wire.feed(wire.headers(1, ("x", "y" * 2000)))
    assert events == ["RequestReceived 1 oversize complete"]
    assert wire.feed(wire.headers(3, ("a", "b"))) == ["RequestReceived 3 GET / complete"]


def test_header_bomb(make_wire: Any):
    """A block that unfolds without measure is not unfolded to its end."""
    wire = make_wire(max_header_list_size=20_000).open()
    bomb = wire.block(("x", "y" * 3900)) + b"\xbe" * 10_000
    assert wire.feed(frame(frames.HEADERS, 5, 1, bomb)) == [CALM]


def test_time_since_an_unfinished_frame(wire: Any):
    """The wait is counted from the frame's beginning, and anew for each frame."""
    octets = wire.headers(1)
    wire.feed(octets[:5])
    assert wire.machine.waiting_since == 100.0
    wire.now = 120.0
    wire.feed(octets[5:7])
    assert wire.machine.waiting_since == 100.0
    wire.now = 130.0
    wire.feed(octets[7:] + octets[:3])
    assert wire.machine.waiting_since == 130.0
