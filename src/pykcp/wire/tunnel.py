"""A tunnel for an upgraded protocol: bytes are passed through in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcp.wire.exchange import BodySink, Header
from pykcp.wire.request import ClientGone
from pykcp.wire.serving import ConnectionHub
from pykcp.wire.switched import SwitchedDriver

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection
    from pykcp.wire.http1.exchange import Http1Exchange


class TunnelDriver(SwitchedDriver):
    """Drives the connection; the application writes to it as to any stream."""

    def __init__(
        self,
        connection: Connection,
        hub: ConnectionHub,
        exchange: Http1Exchange,
        sink: BodySink,
    ) -> None:
        super().__init__(connection, hub, exchange)
        self._sink = sink
        self._unread = 0
        """Octets that the sink has and has not consumed."""

    def receive(self, data: bytes) -> None:
        if self._is_over or self.closed:
            return
        self._unread += len(data)
        self._sink.write(data)
        self._set_reading()

    def consumed(self, size: int) -> None:
        self._unread -= size
        self._set_reading()

    def _set_reading(self) -> None:
        self.connection.set_reading(self._unread <= self.hub.settings.stream_window)

    def write(self, data: bytes) -> None:
        if not self.closed and data:
            self._send(data, is_urgent=False)

    def end(self, trailers: Sequence[Header] = ()) -> None:
        """Close when everything has gone out."""
        if not self.closed:
            self._is_over = True
            self.finish()
            self.connection.flush_soon()

    def connection_lost(self) -> bool:
        is_news = not self.closed
        super().connection_lost()
        if is_news:
            self._sink.fail(ClientGone("the client closed the connection"))
        return False
