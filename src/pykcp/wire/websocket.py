"""WebSocket (RFC 6455) on an HTTP/1.1 connection, framed by wsproto.

Which subprotocol is spoken is the application's choice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from wsproto.connection import Connection as Framing
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

from pykcp.wire.exchange import Header
from pykcp.wire.serving import ConnectionHub
from pykcp.wire.switched import SwitchedDriver

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection
    from pykcp.wire.http1.exchange import Http1Exchange

_log = logging.getLogger(__name__)

_TURN_SECONDS = 0.001
"""Seconds of frames per turn; other connections wait in the meantime."""
_MESSAGE_OVERHEAD = 64
"""Octets that a message costs whatever its length."""
_CLOSE_GRACE = 5.0
"""Seconds that a client has to answer our close."""


class WebSocketDriver(SwitchedDriver):
    """Drives the connection and is, at the same time, the `WebSocket` that the application has."""

    def __init__(
        self, connection: Connection, hub: ConnectionHub, exchange: Http1Exchange, subprotocol: str
    ) -> None:
        super().__init__(connection, hub, exchange)
        self.subprotocol = subprotocol
        self._framing = Framing(ConnectionType.SERVER)
        self._partial: list[Any] = []  # all bytes or all str
        self._partial_size = 0
        self._inbox: deque[bytes | str] = deque()
        self._inbox_size = 0
        self._reader: asyncio.Future[None] | None = None
        self._close_by: float | None = None
        self._is_behind = False

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self._is_over:
            return
        self._framing.receive_data(data)
        self._handle_events()

    def _handle_events(self) -> None:
        """Work on frames in order, but only for so long in one turn."""
        self._is_behind = False
        end = perf_counter() + _TURN_SECONDS
        for event in self._framing.events():
            if isinstance(event, BytesMessage | TextMessage):
                self._on_message(event)
            elif isinstance(event, Ping):
                self._send(self._framing.send(event.response()))
            elif isinstance(event, CloseConnection):
                self._on_close(event)
            if (perf_counter() > end or self._is_full) and not self._is_over:
                self._is_behind = True  # the framing keeps what it has not looked at
                break

    def _on_message(self, event: BytesMessage | TextMessage) -> None:
        data = event.data if isinstance(event.data, str) else bytes(event.data)
        self._partial.append(data)
        self._partial_size += len(data)
        if self._partial_size > self.hub.settings.max_websocket_message:
            self._close(CloseReason.MESSAGE_TOO_BIG)
            self._is_over = self._has_refused = True
        elif event.message_finished:
            pieces, self._partial, self._partial_size = self._partial, [], 0
            self._deliver(pieces[0] if len(pieces) == 1 else data[:0].join(pieces))

    def _deliver(self, message: bytes | str) -> None:
        if not self.closed:
            self._inbox.append(message)
            self._inbox_size += len(message) + _MESSAGE_OVERHEAD
            self._set_reading()
            _wake(self._reader)

    def _on_close(self, event: CloseConnection) -> None:
        # wsproto reports frames that break the rules as a close too, with the code to answer.
        if self._framing.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self._send(self._framing.send(event.response()))
        self._is_over = True
        self.finish()

    @property
    def is_behind(self) -> bool:
        return self._is_behind and not self._is_full

    @property
    def _is_full(self) -> bool:
        """The application has not read enough of what the client sent."""
        return self._inbox_size > self.hub.settings.max_websocket_message

    def catch_up(self) -> None:
        self._handle_events()

    def check(self, now: float) -> None:
        if self._close_by is not None and now > self._close_by:
            self._is_over = True
            self.connection.flush_soon()
        super().check(now)

    # -- what the application calls ------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send one binary message."""
        if not self.closed:
            self._send(self._framing.send(BytesMessage(data)), is_urgent=False)

    def write_text(self, text: str) -> None:
        """Send one text message."""
        if not self.closed:
            self._send(self._framing.send(TextMessage(text)), is_urgent=False)

    async def messages(self) -> AsyncIterator[bytes | str]:
        """What the client sends, until it closes."""
        while True:
            while self._inbox:
                message = self._inbox.popleft()
                self._inbox_size -= len(message) + _MESSAGE_OVERHEAD
                self._set_reading()
                yield message
            if self.closed:
                return
            self._reader = self.hub.loop.create_future()
            await self._reader

    def end(self, trailers: Sequence[Header] = ()) -> None:
        """Close with the code for "done"."""
        self._close(CloseReason.NORMAL_CLOSURE)

    def finish(self) -> None:
        super().finish()
        _wake(self._reader)

    # -- inside --------------------------------------------------------------------------------

    def _close(self, reason: CloseReason) -> None:
        if self.closed:
            return
        try:
            self._send(self._framing.send(CloseConnection(reason)))
        except LocalProtocolError:
            self._is_over = True  # the closing frames have crossed
        self._close_by = self.hub.loop.time() + _CLOSE_GRACE
        self.finish()
        self.connection.flush_soon()

    def _set_reading(self) -> None:
        self.connection.set_reading(not self._is_full)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
