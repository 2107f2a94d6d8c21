"""The HTTP/2 state machine, sending: windows, turns and ends."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.wire.http2 import frames
from pykcp.wire.http2.frames import frame, settings, window_update

OK = b"\x88"


def test_small_answer_goes_at_once(wire: Any):
    """Headers and body, and the stream is over."""
    stream = wire.request()
    assert wire.machine.send_answer(stream, OK, b"hello")
    assert wire.sent() == ["HEADERS 1 200", "DATA 1 5 END"]
    assert stream.is_closed
    assert not wire.machine.streams


def test_empty_answer_is_one_frame(wire: Any):
    """No body, no DATA."""
    assert wire.machine.send_answer(wire.request(), OK, b"")
    assert wire.sent() == ["HEADERS 1 200 END"]


def test_answer_before_the_body_has_ended(wire: Any):
    """A complete answer tells the client to stop sending; what is on its way is ignored."""
    wire.feed(wire.headers(1, flags=4))
    wire.machine.send_answer(wire.machine.streams[1], OK, b"no")
    assert wire.sent() == ["HEADERS 1 200", "DATA 1 2 END", "RST_STREAM 1 0"]
    late = frame(frames.DATA, 0, 1, b"x") + frame(frames.HEADERS, 5, 1, wire.block())
    assert wire.feed(late) == []
    assert wire.sent() == []


def test_large_body_is_cut_to_frames(make_wire: Any):
    """Pieces are joined and cut at the client's frame size, whatever their own."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=1 << 20)
    wire.feed(window_update(0, 1 << 20))
    stream = wire.request()
    wire.machine.send_headers(stream, OK)
    parts = [bytes([number]) * 7000 for number in range(5)]
    assert not wire.machine.send_parts(stream, parts, 35000, ends=True)
    wire.machine.pump()
    out = b"".join(wire.machine.out)
    assert wire.sent() == ["HEADERS 1 200", "DATA 1 16384", "DATA 1 16384", "DATA 1 2232 END"]
    bodies = out[10:]
    assert bodies[9:16393] + bodies[16402:32786] + bodies[32795:] == b"".join(parts)
    assert [type(event).__name__ for event in wire.machine.take_events()] == ["StreamEnded"]
    assert wire.machine.pending_total == 0


def test_larger_frames_if_the_client_takes_them(make_wire: Any):
    """Up to a bound, since a frame cannot be interrupted."""
    wire = make_wire().open(SETTINGS_MAX_FRAME_SIZE=1 << 20, SETTINGS_INITIAL_WINDOW_SIZE=1 << 20)
    wire.feed(window_update(0, 1 << 20))
    stream = wire.request()
    wire.machine.send_parts(stream, [b"x" * 100_000], 100_000, ends=True)
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 65536", "DATA 1 34464 END"]


def test_one_piece_for_many_streams(make_wire: Any):
    """Streams that have room get it at once, on others it waits; those that are over are left out."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=10)
    machine = wire.machine
    first, narrow, waiting, over = (wire.request(number) for number in (1, 3, 5, 7))
    machine.send(narrow, b"x" * 5)
    machine.send(waiting, b"x" * 12)
    machine.reset(over, frames.CANCEL)
    wire.sent()
    assert machine.send_to_all([first, narrow, waiting, over], b"y" * 8) == 20
    assert wire.sent() == ["DATA 1 8"]
    assert [first.pending_size, narrow.pending_size, waiting.pending_size] == [0, 8, 20]
    assert (first.window, machine.pending_total) == (2, 28)
    machine.pump()
    assert wire.sent() == ["DATA 5 10", "DATA 3 5"]
    assert machine.window == 65535 - 5 - 8 - 10 - 5


def test_one_piece_for_more_streams_than_there_is_room(wire: Any):
    """The connection's window holds for all of them together."""
    machine = wire.machine
    streams = [wire.request(number) for number in (1, 3, 5)]
    machine.window = 20
    assert machine.send_to_all(streams, b"y" * 8) == 8
    assert (wire.sent(), machine.window) == (["DATA 1 8", "DATA 3 8"], 4)
    machine.room = 0
    assert machine.send_to_all(streams, b"y" * 8) == 16
    assert wire.sent() == []


def test_stream_window_holds_back(make_wire: Any):
    """What the client does not take waits on the stream and is counted there."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=10)
    stream = wire.request()
    wire.machine.send(stream, b"x" * 8)
    wire.machine.send(stream, b"y" * 8)
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 8", "DATA 1 2"]
    assert (stream.pending_size, wire.machine.pending_total) == (6, 6)
    wire.machine.pump()
    assert wire.sent() == []
    wire.feed(window_update(1, 4))
    wire.machine.pump()
    wire.feed(window_update(1, 100))
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 4", "DATA 1 2"]
    assert stream.pending_size == 0


def test_pieces_keep_their_order(make_wire: Any):
    """A small piece does not overtake a large one that waits."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=10)
    stream = wire.request()
    wire.machine.send(stream, b"a" * 20)
    wire.machine.send(stream, b"b")
    wire.machine.pump()
    wire.feed(window_update(1, 11))
    wire.machine.pump()
    out = b"".join(wire.machine.out)
    assert out.count(b"a") == 20
    assert out.endswith(b"ab")


def test_connection_window_is_shared_in_turn(make_wire: Any):
    """Two long answers advance frame by frame, side by side."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=1 << 20)
    streams = [wire.request(1), wire.request(3)]
    for stream in streams:
        wire.machine.send_parts(stream, [b"x" * 50_000], 50_000, ends=True)
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 16384", "DATA 3 16384", "DATA 1 16384", "DATA 3 16383"]
    assert wire.machine.window == 0
    assert len(wire.machine.ready) == 2
    wire.feed(window_update(0, 1 << 20))
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 16384", "DATA 3 16384", "DATA 1 848 END", "DATA 3 849 END"]


def test_room_limits_a_turn(make_wire: Any):
    """No more than the turn's room goes out, give or take a frame; watches wait as well."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=1 << 20)
    wire.feed(window_update(0, 1 << 20))
    stream, watch = wire.request(1), wire.request(3)
    wire.machine.room = 20_000
    wire.machine.send_parts(stream, [b"x" * 100_000], 100_000)
    wire.machine.pump()
    wire.machine.send(watch, b"event")
    assert wire.sent() == ["DATA 1 16384", "DATA 1 16384"]
    assert watch.pending_size == 5
    wire.machine.room = 1
    wire.machine.pump()
    wire.machine.room = 1
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 16384", "DATA 3 5"]


def test_ends(make_wire: Any):
    """An end waits for what is pending; without any it is an empty frame."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=4)
    first, second = wire.request(1), wire.request(3)
    assert wire.machine.end(first)
    wire.machine.send(second, b"123456")
    assert not wire.machine.end(second)
    wire.machine.pump()
    wire.feed(window_update(3, 10))
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 0 END", "DATA 3 4", "DATA 3 2 END"]
    assert wire.machine.end(first)
    assert wire.machine.send_parts(first, [b"x"], 1)
    assert wire.sent() == []


def test_relief(make_wire: Any):
    """Who waits for a backlog to shrink is told once."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=10)
    stream = wire.request()
    wire.machine.send(stream, b"x" * 100)
    stream.relief_at = 50
    for expected in ([], ["Relieved"], [], []):
        wire.feed(window_update(1, 25))
        wire.machine.pump()
        assert [type(event).__name__ for event in wire.machine.take_events()] == expected
        wire.machine.pump()


def test_reset(make_wire: Any):
    """Nothing of a stream that is broken off remains."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=0)
    stream = wire.request()
    wire.machine.send(stream, b"x" * 100)
    wire.machine.reset(stream, frames.INTERNAL_ERROR)
    wire.machine.reset(stream, frames.INTERNAL_ERROR)
    wire.machine.send(stream, b"more")
    assert wire.sent() == ["RST_STREAM 1 2"]
    assert wire.machine.pending_total == 0
    assert not wire.machine.ready
    assert stream.pending_size == 0


def test_window_taken_back(wire: Any):
    """A client that shrinks its windows below zero stops what was ready."""
    stream = wire.request()
    wire.machine.room = 0
    wire.machine.send(stream, b"x")
    wire.feed(settings({frames.SETTINGS_INITIAL_WINDOW_SIZE: 0}))
    assert not wire.machine.ready
    wire.machine.room = 100
    wire.machine.pump()
    assert wire.sent() == ["SETTINGS ACK"]
    wire.feed(window_update(1, 1))
    wire.machine.pump()
    assert wire.sent() == ["DATA 1 1"]


def test_long_header_block(wire: Any):
    """An answer's headers may need several frames."""
    stream = wire.request()
    wire.machine.send_headers(stream, b"\x00\x01x\x7f\xd0\xac\x02" + b"v" * 38_607, ends=True)
    out = b"".join(wire.machine.out)
    sizes = []
    while out:
        length = frames.HEADER.unpack_from(out)[0] >> 8
        sizes.append((out[3], out[4], length))
        out = out[9 + length :]
    assert sizes == [(1, 1, 16384), (9, 0, 16384), (9, 4, 5846)]


def test_shrunk_header_table_is_acknowledged(make_wire: Any):
    """A client that takes the table away hears that we do not use it, once."""
    wire = make_wire().open(SETTINGS_HEADER_TABLE_SIZE=0)
    wire.decoder.max_allowed_table_size = 0
    for stream_id in (1, 3):
        wire.machine.send_headers(wire.request(stream_id), OK, ends=True)
    out = b"".join(wire.machine.out)
    assert out.count(b"\x20\x88") == 1
    assert wire.sent() == ["HEADERS 1 200 END", "HEADERS 3 200 END"]


def test_graceful_end(wire: Any):
    """Announce, hear that it was heard, name the last stream, finish it."""
    stream = wire.request(1)
    wire.machine.announce_drain()
    wire.machine.announce_drain()
    assert wire.sent() == [f"GOAWAY {2**31 - 1} 0", "PING"]
    late = wire.request(3)
    wire.feed(frame(frames.PING, 1, 0, b"another."))
    assert wire.sent() == []
    wire.feed(frame(frames.PING, 1, 0, b"goodbye!"))
    assert wire.sent() == ["GOAWAY 3 0"]
    too_late = wire.headers(5, flags=4) + frame(frames.DATA, 1, 5, b"x") + window_update(5, 9)
    assert wire.feed(too_late + frame(frames.RST_STREAM, 0, 5, b"\0\0\0\x08")) == []
    for each in (stream, late):
        assert not wire.machine.is_finished
        wire.machine.send_headers(each, OK, ends=True)
    assert wire.machine.is_finished


@pytest.mark.parametrize("is_pending", [True, False])
def test_failure_loses_every_stream(make_wire: Any, is_pending: bool):
    """All owners hear of it, and memory is given back."""
    wire = make_wire().open(SETTINGS_INITIAL_WINDOW_SIZE=0)
    for stream_id in (1, 3):
        stream = wire.request(stream_id)
        if is_pending:
            wire.machine.send(stream, b"x" * 10)
    events = wire.feed(frame(frames.PUSH_PROMISE, 0, 0))
    assert events == ["StreamLost 1 1", "StreamLost 3 1", "ConnectionFailed 1"]
    assert wire.machine.pending_total == 0
    assert wire.machine.is_finished
