"""What keeps one client's work and memory bounded: rates, turns, steps, accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import hpack
import pytest

from pykcp.wire.http2 import frames
from pykcp.wire.http2.frames import frame
from pykcp.wire.http2.hpack import Decoder, HpackError
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.lane import Handshakes, Lane
from pykcp.wire.rate import Progress
from pykcp.wire.request import BodyPieces
from pykcp.wire.serving import is_body_late
from pykcp.wire.settings import WireSettings
from pykcp.wire.unsent import Unsent

PING = frame(frames.PING, 0, 0, b"12345678")


@pytest.mark.parametrize(
    ("looks", "is_too_slow"),
    [
        ([(0, 0, 1000), (11, 0, 1000)], True),  # takes nothing
        ([(0, 0, 1000), (9, 0, 1000)], False),  # but not for long yet
        ([(0, 0, 1000), (11, 500, 500)], False),
        ([(0, 0, 10**6), (11, 500, 10**6)], False),  # at the rate
        ([(0, 0, 10**6), (11, 10, 10**6)], True),  # trickles
        ([(0, 0, 10**6), (5, 3, 1), (9, 6, 1), (11, 9, 1)], True),  # however often it moves
        ([(0, 0, 5), (11, 5, 10**6)], False),  # took all that was there
        ([(0, 0, 5), (5, 5, 0), (11, 5, 9), (20, 5, 9)], False),  # had nothing to take meanwhile
        ([(0, 0, 10**6), (11, 500, 10**6), (22, 510, 10**6)], True),  # slowed down
    ],
)
def test_progress(looks: list[tuple[float, int, int]], is_too_slow: bool):
    """Less than 40 octets a second for ten seconds is too slow."""
    progress = Progress()
    found = [progress.is_too_slow(100 + now, taken, left, 10, 40) for now, taken, left in looks]
    assert found == [False] * (len(looks) - 1) + [is_too_slow]


@pytest.mark.parametrize(
    ("seconds", "received", "is_late"),
    [(9, 0, False), (11, 0, True), (11, 11_000, True), (11, 12_000, False), (61, 10**6, True)],
)
def test_late_bodies(seconds: float, received: int, is_late: bool):
    """A body has ten seconds of grace, then a rate, and in any case a minute."""
    assert is_body_late(seconds, received, WireSettings()) is is_late


def test_frames_of_one_turn(make_wire: Any):
    """A thousand frames at once are worked on in several turns, in order."""
    wire = make_wire().open()
    machine = wire.machine
    assert machine.receive(PING * 1000, wire.now) == []
    assert machine.is_behind
    answered = [len(machine.out)]
    while machine.is_behind:
        machine.receive(b"", wire.now)
        answered.append(len(machine.out))
    assert answered[-1] == 1000
    assert max(b - a for a, b in zip([0, *answered], answered, strict=False)) <= 128
    assert machine.waiting_since is None


def test_long_blocks_are_decoded_in_steps(make_wire: Any):
    """Frames behind a long block wait; what it says is the same."""
    wire = make_wire().open()
    fields = [(f"x-{number}", "v" * 50) for number in range(2000)]
    block = wire.block(*fields)
    pieces = [block[at : at + 16384] for at in range(0, len(block), 16384)]
    octets = frame(frames.HEADERS, 1, 1, pieces[0])
    for piece in pieces[1:-1]:
        octets += frame(frames.CONTINUATION, 0, 1, piece)
    octets += frame(frames.CONTINUATION, 4, 1, pieces[-1]) + wire.headers(3)
    events = wire.machine.receive(octets, wire.now)
    assert events == []
    assert wire.machine.is_behind
    steps = 0
    while wire.machine.is_behind:
        events += wire.machine.receive(b"", wire.now)
        steps += 1
    assert steps >= len(block) // 4096
    assert [event.stream.id for event in events] == [1, 3]
    assert list(events[0].head.headers) == fields
    assert not wire.machine._heads.get(block)


def test_too_many_fields(make_wire: Any):
    """However small they are."""
    wire = make_wire(max_header_fields=1000).open()
    block = wire.block(*((f"x{number}", "") for number in range(1100)))
    assert wire.feed(frame(frames.HEADERS, 5, 1, block)) == ["RequestReceived 1 oversize complete"]


def run(steps: Generator[None, None, Any]) -> tuple[Any, int]:
    """What it gives in the end, and after how many steps."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize("name", ["x", "y" * 9000])
@pytest.mark.parametrize("size", [100, 5000, 60_000])
def test_steps_and_one_go_agree(name: str, size: int):
    """Long coded strings, and what is around them, enter the table once."""
    text = "".join(chr(33 + number * 7919 % 90) for number in range(size))
    fields = [("a", "b"), (name, text), ("c", "d"), ("a", "b")]
    block = hpack.Encoder().encode(fields, huffman=True)
    other = hpack.Decoder()
    other.max_header_list_size = 2**20
    expected = [(str(k), str(v)) for k, v in other.decode(block)]
    decoder = Decoder(Huffman(), 2**20)
    found, count = run(decoder.decode_in_steps(block))
    assert found == expected
    assert count >= len(block) // 4096
    table = [(k.decode(), v.decode()) for k, v in other.header_table.dynamic_entries]
    assert table == decoder._table[::-1]


def test_broken_long_string():
    """A coded string that ends badly is as bad as a short one."""
    coded = b"\x1c" * 5000 + b"\x00"
    block = (
        b"\x00\x01x\xff" + bytes((0x80 | (len(coded) - 127) & 127, (len(coded) - 127) >> 7)) + coded
    )
    with pytest.raises(HpackError):
        list(Decoder(Huffman(), 2**20).decode_in_steps(block))


def test_small_frames_of_a_body_are_counted(make_wire: Any):
    """A body that comes octet by octet is a flood."""
    wire = make_wire(idle_frame_burst=100, idle_frame_rate=1.0).open()
    wire.feed(wire.headers(1, flags=4, method="POST"))
    events = wire.feed(frame(frames.DATA, 0, 1, b"x") * 200)
    assert events[-1] == "ConnectionFailed 11"


def test_pieces_of_a_body():
    """A million octets one by one are one piece."""
    pieces = BodyPieces()
    for _ in range(10_000):
        pieces.add(b"ab")
    pieces.add(b"c" * 2000)
    pieces.add(b"d")
    assert len(pieces._pieces) == 3
    assert pieces.size == 22_001
    assert pieces.take() == b"ab" * 10_000 + b"c" * 2000 + b"d"
    assert pieces.size == 0


async def test_unsent_makes_room_and_wakes():
    """Above the limit somebody is asked to give up; below half of it others go on."""
    shed: list[int] = []
    unsent = Unsent(1000, asyncio.get_running_loop(), shed.append)
    unsent.add(900)
    waiting = asyncio.ensure_future(unsent.reserve(10))
    await asyncio.sleep(0)
    unsent.add(200)
    unsent.add(50)
    await asyncio.sleep(0)
    assert shed == [400]  # down to three quarters
    unsent.add(-600)
    await asyncio.sleep(0)
    assert not waiting.done()
    unsent.add(-100)
    await waiting
    assert unsent.total == 460


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop go round until something has happened."""
    for _ in range(100_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never happened")


class Work:
    def __init__(
        self, turns: int, done: list[str], name: str, fails: bool = False, owner: str = ""
    ) -> None:
        self.turns, self.done, self.name, self.fails = turns, done, name, fails
        self.owner = owner or name

    def take_turn(self) -> bool:
        if self.fails:
            raise ValueError("a bug")
        self.done.append(self.name)
        self.turns -= 1
        return self.turns > 0

    def abort(self) -> None:
        self.done.append(f"{self.name} aborted")


async def test_the_lane_takes_turns(caplog: pytest.LogCaptureFixture):
    """Nobody has a second turn before all have had one; a failure is one worker's own."""
    done: list[str] = []
    lane = Lane(asyncio.get_running_loop())
    lane.add(Work(3, done, "a"))
    lane.add(Work(1, done, "x", fails=True))
    lane.add(Work(2, done, "b"))
    await until(lambda: not len(lane))
    assert done == ["a", "x aborted", "b", "a", "b", "a"]
    assert "a bug" in caplog.text


async def test_the_lane_takes_turns_by_owner():
    """Somebody with a thousand busy connections does not delay somebody with one."""
    done: list[str] = []
    lane = Lane(asyncio.get_running_loop())
    for _ in range(1000):
        lane.add(Work(3, done, "flood", owner="attacker"))
    lane.add(Work(3, done, "other"))
    await until(lambda: not len(lane))
    assert len(done) == 3003
    assert done[:6] == ["flood", "other"] * 3


async def test_handshakes_take_turns_by_address():
    """One address with a hundred handshakes does not delay another's."""
    done: list[str] = []
    handshakes = Handshakes(Lane(asyncio.get_running_loop()))
    for number in range(100):
        handshakes.add("10.0.0.1", lambda number=number: done.append(f"flood {number}"))  # type: ignore[misc]
    handshakes.add("10.0.0.2", lambda: done.append("other"))
    await until(lambda: len(done) == 101)
    assert done.index("other") <= 1
