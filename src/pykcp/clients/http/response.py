"""An answer for callers that await: its head, then its body in pieces."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from pykcp.aio.pacing import ReadingPace
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.interface import OutgoingStream
from pykcp.wire.exchange import Header

_PACED = 32 * 1024
"""Bytes between two looks at the clock, in an answer that may not take more than its share."""


class TooLong(SendFailed):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} bytes")


class HttpResponse:
    """Read it to its end or `close` it; what is not read holds at most one window of memory."""

    def __init__(self, pacer: ReadingPace | None = None) -> None:
        """`pacer`: for an answer that may not take more than a share of the event loop."""
        self._pacer = pacer
        self.status = 0
        self.headers: Sequence[Header] = ()
        self.trailers: Sequence[Header] = ()
        """Known when the body has been read."""
        self.stream: OutgoingStream | None = None
        self.is_complete = False
        """The whole answer has come."""
        self._pieces: deque[bytes] = deque()
        self._error: SendFailed | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._sender: asyncio.Future[None] | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""
        return next((value for key, value in self.headers if key == name), None)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises SendFailed if it breaks off."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                if self._pacer is not None and len(piece) > _PACED:
                    self._pieces.appendleft(piece[_PACED:])
                    piece = piece[:_PACED]
                yield piece
                if self._pacer is not None and self._pacer.is_due():
                    await self._pacer.rest()
                if self.stream is not None:
                    self.stream.consumed(len(piece))
            if self._error is not None:
                raise self._error
            if self.is_complete:
                return
            await self._wait()
            if self._pacer is not None:
                self._pacer.begin()

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises SendFailed, also if it is longer."""
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            if len(body) > limit:
                self.close()
                raise TooLong(limit)
        return bytes(body)

    def close(self) -> None:
        """The rest is not wanted."""
        if not self.is_complete and self._error is None:
            self._error = SendFailed("the answer was closed")
            if self.stream is not None:
                self.stream.cancel()
            self._wake()

    async def wait_for_head(self) -> None:
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def send(self, chunks: AsyncIterator[bytes]) -> None:
        """Send a request's body as it comes, no faster than the server takes it."""
        stream = self.stream
        assert stream is not None
        async for chunk in chunks:
            stream.write(chunk)
            while stream.backlog > len(chunk) and not self.is_complete and self._error is None:
                self._sender = asyncio.get_running_loop().create_future()
                await self._sender
            if self.is_complete or self._error is not None:
                return
        stream.end()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        for waiter in (self._waiter, self._sender):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    # -- told by the session -------------------------------------------------------------------

    def head_received(self, status: int, headers: Sequence[Header]) -> None:
        self.status, self.headers = status, headers
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._wake()

    def ended(self, trailers: Sequence[Header]) -> None:
        self.trailers, self.is_complete = trailers, True
        self._wake()

    def failed(self, error: SendFailed) -> None:
        self._error = error
        self._wake()

    def relieved(self) -> None:
        self._wake()
