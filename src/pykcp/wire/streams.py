"""What every kind of streamed answer has in common: its end, and waiting for a slow client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pykcp.wire.request import ClientGone

_log = logging.getLogger(__name__)


class AnswerStream:
    """Base of the streams of both protocols and of WebSockets."""

    __slots__ = ("_callbacks", "_on_relief", "_waiters", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._on_relief: Callable[[], None] | None = None

    def is_relieved(self) -> bool:
        """Whether the backlog is below the low-water mark; if not, `relieve` will be called."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until the backlog is below the low-water mark."""
        while not self.closed and not self.is_relieved():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                del waiter  # a cancellation would hold this frame, and this frame that
        if self.closed:
            raise ClientGone("stream is closed")

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call once when the backlog is below the low-water mark or the stream is over."""
        if self.closed or self.is_relieved():
            callback()
        else:
            self._on_relief = callback

    def relieve(self) -> None:
        if self._on_relief is not None:
            callback, self._on_relief = self._on_relief, None
            callback()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call once when the stream is over; at once if it is over already."""
        if self.closed:
            callback()
        else:
            self._callbacks.append(callback)

    def finish(self) -> None:
        """The stream has ended, on either side."""
        if self.closed:
            return
        self.closed = True
        self.relieve()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # the other callbacks must still be called
                _log.exception("end-of-stream callback failed")
