"""A connection that has left HTTP/1.1 for another protocol: what all of those have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykcp.wire.rate import Progress
from pykcp.wire.serving import ConnectionHub
from pykcp.wire.streams import AnswerStream

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection
    from pykcp.wire.http1.exchange import Http1Exchange


class SwitchedDriver(AnswerStream):
    """Drives the connection and is, at the same time, the stream that the application has."""

    protocol = "HTTP/1.1"
    is_quiet = False
    has_news = True

    def __init__(self, connection: Connection, hub: ConnectionHub, exchange: Http1Exchange) -> None:
        super().__init__()
        self.connection = connection
        self.hub = hub
        self.out: deque[bytes | memoryview] = deque()
        self._out_size = 0
        self._exchange = exchange
        self._is_over = False
        self._has_refused = False
        self._sent = 0
        self._progress = Progress()

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Octets of the client."""
        raise NotImplementedError

    @property
    def is_behind(self) -> bool:
        return False

    def catch_up(self) -> None:
        """Nothing is left over by `receive`."""

    @property
    def unsent(self) -> int:
        return self._out_size

    def drop_stalled(self) -> bool:
        return False  # what does not move is in the socket, and the connection sees it

    def shed(self, _size: int) -> None:
        self.abort()

    def take_over(self, parts: Iterable[bytes | memoryview], size: int) -> None:
        """What HTTP/1.1 had still to send goes first, and stays on the hub's account."""
        self.out.extend(parts)
        self._out_size += size

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        """What is to be written in this turn."""
        if not may_send_bodies:
            return []
        out: list[bytes | memoryview] = []
        room = self.hub.settings.turn_size
        while self.out and room > 0:
            part = self.out.popleft()
            out.append(part)
            room -= len(part)
        size = sum(map(len, out))
        self._out_size -= size
        self._sent += size
        self.hub.unsent.add(-size)
        if self.is_relieved():
            self.relieve()
        return out

    @property
    def has_more(self) -> bool:
        return bool(self.out)

    @property
    def is_finished(self) -> bool:
        return self._is_over and not self.out

    @property
    def has_unread_input(self) -> bool:
        return self._has_refused

    @property
    def idle_since(self) -> float | None:
        return None

    def wind_down(self) -> None:
        """It ends when the application ends it."""

    def connection_lost(self) -> bool:
        self._is_over = True
        self.hub.unsent.add(-self._out_size)
        self._out_size = 0
        self.out.clear()
        self._exchange.lost()
        return False

    def check(self, now: float) -> None:
        settings = self.hub.settings
        if self._progress.is_too_slow(
            now, self._sent, self._out_size, settings.write_stall_timeout, settings.min_read_rate
        ):
            self.connection.abort()

    # -- what the application calls ------------------------------------------------------------

    @property
    def backlog(self) -> int:
        return self._out_size

    def is_relieved(self) -> bool:
        return self._out_size <= self.hub.settings.low_water

    def abort(self) -> None:
        """Break the connection off."""
        if not self.closed:
            self.finish()
            self.connection.abort()

    def _send(self, octets: bytes, is_urgent: bool = True) -> None:
        self.out.append(octets)
        self._out_size += len(octets)
        self.hub.unsent.add(len(octets))
        if is_urgent:
            self.connection.flush_soon()
        else:
            self.connection.flush_later()
