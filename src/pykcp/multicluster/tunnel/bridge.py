"""Passes octets between a socket of this process and the other end of a tunnel, both ways."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol, cast

BACKLOG = 64 * 1024
"""Octets that may wait for one side before nothing more is taken from the other."""


class FarEnd(Protocol):
    """The other end of a tunnel."""

    @property
    def backlog(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def consumed(self, size: int) -> None:
        """Octets that came from it were passed on."""


class SocketBridge(asyncio.Protocol):
    """The near side. Call `take` with what comes from the far end, `relieved` when it has taken
    what was written, and `close` when it is gone.
    """

    def __init__(self, far: FarEnd) -> None:
        self._far = far
        self._transport: asyncio.Transport | None = None
        self._is_full = self._is_reading_paused = self._is_over = False
        self._untaken = 0
        self._early: list[bytes] = []
        """What came before the socket was ready."""

    async def open(self, near: socket.socket) -> None:
        near.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self, sock=near)

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so an isinstance would not hold.
        self._transport = cast("asyncio.Transport", transport)
        early, self._early = self._early, []
        for data in early:
            self.take(data)
        if self._is_over:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._far.write(data)
        if self._far.backlog > BACKLOG and self._transport is not None:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._consume()

    def connection_lost(self, _: Exception | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._far.end()

    # --- the far end

    def take(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
            return
        if self._is_over:
            return
        self._transport.write(data)
        self._untaken += len(data)
        if not self._is_full:
            self._consume()

    def _consume(self) -> None:
        size, self._untaken = self._untaken, 0
        if size and not self._is_over:
            self._far.consumed(size)

    def relieved(self) -> None:
        if self._is_reading_paused and self._transport is not None and not self._is_over:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        self._is_over = True
        if self._transport is not None:
            self._transport.close()
