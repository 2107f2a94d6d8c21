"""Requests and the peer that sends them, the same for both protocols."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pykcp.wire.exchange import BodySink, Header
from pykcp.wire.heads import Head


class ConnectionPeer:
    """The other end of a connection."""

    __slots__ = ("address", "certificate", "intermediates", "memo", "owner", "port", "protocol")

    def __init__(self, address: str, port: int) -> None:
        self.protocol = ""
        self.address = address
        self.port = port
        self.owner = address
        self.certificate: bytes | None = None
        self.intermediates: tuple[bytes, ...] = ()
        """DER of what the client sent along with its certificate."""
        self.memo: dict[str, Any] = {}


class ClientGone(ConnectionError):
    """The client broke the request off."""


class Request:
    """One request."""

    __slots__ = (
        "_head",
        "body",
        "headers",
        "is_streaming",
        "method",
        "path",
        "peer",
        "query",
        "reader",
        "truncated",
    )

    def __init__(self, head: Head, peer: ConnectionPeer) -> None:
        self._head = head
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers: Sequence[Header] = head.headers
        self.peer = peer
        self.body = b""
        self.truncated = False
        self.is_streaming = False
        self.reader: BodyReader | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""
        return self._head.first(name)

    def header_all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, if `is_streaming`."""
        if self.reader is None:
            return _all_at_once(self.body)
        return self.reader.chunks()

    def pipe(self, sink: BodySink) -> BodyReader:
        """Hand the body to a sink as it arrives, if `is_streaming`."""
        assert self.reader is not None
        self.reader.pipe(sink)
        return self.reader


async def _all_at_once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body


ASK_ABOVE = 16 * 1024
"""Octets of a body after which it matters who sends it."""
_SMALL_PIECE = 1024


class BodyPieces:
    """A body while it is being collected; small pieces do not cost more than they hold."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self.size = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if len(data) >= _SMALL_PIECE:
            self._pieces.append(data)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))

    def take(self) -> bytes:
        """The whole; nothing is kept."""
        pieces, self._pieces, self.size = self._pieces, [], 0
        return b"".join(pieces)


class BodyReader:
    """Chunks of a request body between the connection and its reader."""

    __slots__ = (
        "_consumed",
        "_error",
        "_is_ended",
        "_pieces",
        "_sink",
        "_start",
        "_waiter",
        "size",
    )

    def __init__(self, consumed: Callable[[int], None], start: Callable[[], None]) -> None:
        self._consumed = consumed
        self._start: Callable[[], None] | None = start
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._sink: BodySink | None = None
        self._is_ended = False
        self._error: Exception | None = None
        self.size = 0
        """Octets that wait to be read."""

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self._sink is not None:
            self._sink.write(data)
            return
        self._pieces.append(data)
        self._wake()

    def end(self) -> None:
        self._is_ended = True
        if self._sink is not None:
            self._sink.end()
        self._wake()

    def fail(self, error: Exception) -> None:
        if not self._is_ended and self._error is None:
            self._error = error
            if self._sink is not None:
                self._sink.fail(error)
            self._wake()

    def pipe(self, sink: BodySink) -> None:
        """Hand everything to a sink from now on; it says what is `consumed`."""
        self._begin()
        self._sink = sink
        pieces, self._pieces = self._pieces, deque()
        for piece in pieces:
            sink.write(piece)
        if self._error is not None:
            sink.fail(self._error)
        elif self._is_ended:
            sink.end()

    def consumed(self, size: int) -> None:
        """A sink is done with so many octets."""
        self.size -= size
        self._consumed(size)

    def _begin(self) -> None:
        if self._start is not None:
            self._start()
            self._start = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        self._begin()
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self.consumed(len(piece))
                yield piece
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
