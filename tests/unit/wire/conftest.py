"""A client without a socket, to drive the HTTP/2 state machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hpack
import pytest

from pykcp.wire.http2 import frames
from pykcp.wire.http2.huffman import Huffman
from pykcp.wire.http2.machine import Http2
from pykcp.wire.settings import WireSettings

NAMES = {
    value: name
    for name, value in vars(frames).items()
    if name
    in (
        *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING"),
        *("GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
    )
}


class Wire:
    """The machine and what a client would say to it."""

    def __init__(self, **settings: Any) -> None:
        self.settings = WireSettings(**settings)
        self.now = 100.0
        self.machine = Http2(self.settings, Huffman(), self.now)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.machine.room = 1 << 30

    def open(self, **client_settings: int) -> Wire:
        """Exchange the greetings."""
        values = {getattr(frames, name): value for name, value in client_settings.items()}
        self.feed(frames.PREFACE + frames.settings(values))
        self.sent()
        return self

    def feed(self, data: bytes) -> list[str]:
        """Send octets; the events as one line of text each."""
        events = self.machine.receive(data, self.now)
        while self.machine.is_behind:
            events += self.machine.receive(b"", self.now)
        return [describe(event) for event in events]

    def block(self, *fields: tuple[str, str], method: str = "GET", path: str = "/") -> bytes:
        pseudo = [(":method", method), (":scheme", "https"), (":path", path)]
        block: bytes = self.encoder.encode([*pseudo, *fields])
        return block

    def headers(
        self, stream_id: int, *fields: tuple[str, str], flags: int = 5, method: str = "GET"
    ) -> bytes:
        block = self.block(*fields, method=method)
        return frames.frame(frames.HEADERS, flags, stream_id, block)

    def request(self, stream_id: int = 1) -> Any:
        """A GET; the state of its stream."""
        self.feed(self.headers(stream_id))
        return self.machine.streams[stream_id]

    def sent(self) -> list[str]:
        """What the machine wants to send, frame by frame."""
        data = b"".join(self.machine.out)
        self.machine.out.clear()
        lines = []
        while data:
            word, flags, stream_id = frames.HEADER.unpack_from(data)
            length, kind = word >> 8, word & 0xFF
            lines.append(self._line(kind, flags, stream_id, data[9 : 9 + length]))
            data = data[9 + length :]
        return lines

    def _line(self, kind: int, flags: int, stream_id: int, payload: bytes) -> str:
        name = NAMES[kind]
        end = " END" if kind in (frames.DATA, frames.HEADERS) and flags & 1 else ""
        if kind == frames.DATA:
            return f"DATA {stream_id} {len(payload)}{end}"
        if kind == frames.HEADERS and flags & 4:
            fields = self.decoder.decode(payload)
            return f"HEADERS {stream_id} {' '.join(value for _, value in fields)}{end}"
        if kind in (frames.RST_STREAM, frames.WINDOW_UPDATE):
            return f"{name} {stream_id} {frames.U32.unpack(payload)[0]}"
        if kind == frames.GOAWAY:
            last, code = frames.TWO_U32.unpack_from(payload)
            return f"GOAWAY {last} {code}"
        if kind in (frames.SETTINGS, frames.PING) and flags & 1:
            return f"{name} ACK"
        return name if kind != frames.CONTINUATION else f"{name} {stream_id} {len(payload)}"


def describe(event: Any) -> str:
    words = [type(event).__name__]
    if hasattr(event, "stream"):
        words.append(str(event.stream.id))
    if hasattr(event, "head"):
        words.append(f"{event.head.method} {event.head.path}" if event.head else "oversize")
        words.append("complete" if event.is_complete else "open")
    if hasattr(event, "data"):
        words.append(f"{len(event.data)}{' last' if event.is_last else ''}")
    if hasattr(event, "code"):
        words.append(str(event.code))
    return " ".join(words)


@pytest.fixture
def make_wire() -> Callable[..., Wire]:
    return Wire


@pytest.fixture
def wire() -> Wire:
    return Wire().open()
