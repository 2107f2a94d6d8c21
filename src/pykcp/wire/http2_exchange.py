"""HTTP/2 for the application: the state machine's events become exchanges and streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcp.wire import frames
from pykcp.wire.exchange import Header, Stream, WebSocket
from pykcp.wire.http2 import (
    BodyReceived,
    ConnectionFailed,
    Event,
    Http2,
    RequestReceived,
    StreamLost,
)
from pykcp.wire.http2_sending import Relieved, StreamEnded, StreamState
from pykcp.wire.request import BodyReader, ClientGone, Request
from pykcp.wire.serving import FAILURE_TEXT, PLAIN_TEXT, Hub
from pykcp.wire.streams import AnswerStream

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection

_log = logging.getLogger(__name__)

_CLOSE: Header = ("connection", "close")
_PER_HOP = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)
_DRAIN_GRACE = 1.0
"""Seconds that a client has to hear of a drain before new streams are refused, as in Go."""


class Http2Stream(AnswerStream):
    """An answer that is written piece by piece."""

    __slots__ = ("_connection", "_machine", "_state", "is_mute")

    def __init__(self, connection: Connection, machine: Http2, state: StreamState) -> None:
        super().__init__()
        self._connection = connection
        self._machine = machine
        self._state = state
        self.is_mute = False
        """What is written is thrown away: HEAD, or the end has been declared."""

    @property
    def backlog(self) -> int:
        return self._state.pending_size

    def write(self, data: bytes) -> None:
        if self.closed or self.is_mute:
            return
        self._machine.send(self._state, data)
        if not self._connection.is_flush_due:
            self._connection.flush_soon()

    def is_relieved(self) -> bool:
        limit = self._connection.hub.settings.low_water
        if self._state.pending_size <= limit:
            return True
        self._state.relief_at = limit
        return False

    def end(self) -> None:
        if self.closed:
            return
        self.is_mute = True
        if self._machine.end(self._state):
            self.finish()
        self._connection.flush_soon()

    def abort(self) -> None:
        if self.closed:
            return
        self._machine.reset(self._state, frames.INTERNAL_ERROR)
        self.finish()
        self._connection.flush_soon()


class Http2Exchange:
    """One request and its answer on an HTTP/2 stream."""

    __slots__ = (
        "_driver",
        "_is_orphan",
        "_pieces",
        "_size",
        "buffered",
        "request",
        "responded",
        "state",
        "stream",
        "task",
    )

    def __init__(self, driver: Http2Driver, state: StreamState, request: Request) -> None:
        self._driver = driver
        self.state = state
        self.request = request
        self.responded = False
        self.stream: Http2Stream | None = None
        self.task: asyncio.Task[None] | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self.buffered = 0
        """How much of the body the driver has on its account."""
        self._is_orphan = False

    # -- the body ------------------------------------------------------------------------------

    def start_streaming(self) -> None:
        self.request.is_streaming = True
        self.request.reader = BodyReader(self._on_consumed, self.continue_body)

    def _on_consumed(self, size: int) -> None:
        self._driver.machine.consume(self.state, size)
        self._driver.connection.flush_soon()

    def continue_body(self) -> None:
        """Tell a client that waits with its body to send it."""
        if self.request._head.expects_continue and self.state.is_remote_open:
            block = self._driver.hub.encoder.status(100)
            self._driver.machine.send_headers(self.state, block)
            self._driver.connection.flush_soon()

    def receive(self, data: bytes, is_last: bool) -> None:
        reader = self.request.reader
        if reader is not None:
            if data:
                reader.feed(data)
            if is_last:
                reader.end()
        elif not self.request.truncated:
            self._collect(data, is_last)
        elif self.state.is_remote_open:
            self._driver.machine.consume(self.state, len(data))

    def _collect(self, data: bytes, is_last: bool) -> None:
        self._pieces.append(data)
        size = len(data)
        self._size += size
        if not is_last:
            self.buffered += size
            if not self._driver.buffer(self, size):
                return
        if self._size > self._driver.hub.settings.max_body:
            self.request.truncated = True
        elif not is_last:
            self._driver.machine.consume(self.state, size)
            return
        self._complete()

    def _complete(self) -> None:
        pieces = self._pieces
        self._driver.unbuffer(self)
        if not self.request.truncated:
            self.request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        self._driver.hub.serve(self)

    # -- the answer ----------------------------------------------------------------------------

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        """The whole answer; content-length is added. HEAD answers lose their body."""
        block, machine = self._begin(status, headers), self._driver.machine
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        if status >= 200 and status not in (204, 304):
            block += self._driver.hub.encoder.content_length(size)
        if not self.state.is_local_open:
            return
        if self.request.method == "HEAD" or not size:
            machine.send_headers(self.state, block, ends=True)
        elif isinstance(body, bytes):
            machine.send_answer(self.state, block, body)
        else:
            machine.send_headers(self.state, block)
            machine.send_parts(self.state, body, size, ends=True)
        self._driver.connection.flush_soon()

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        """Begin an answer of unknown length."""
        block = self._begin(status, headers)
        stream = Http2Stream(self._driver.connection, self._driver.machine, self.state)
        self.stream = stream
        if not self.state.is_local_open:
            stream.finish()
            return stream
        if self.request.method == "HEAD":
            stream.is_mute = True
        self._driver.machine.send_headers(self.state, block)
        self._driver.connection.flush_soon()
        return stream

    def _begin(self, status: int, headers: Sequence[Header]) -> bytes:
        if self.responded:
            raise RuntimeError("this request has been answered already")
        hub = self._driver.hub
        field = hub.encoder.field
        parts = [hub.encoder.status(status)]
        has_date = False
        for header in headers:
            name = header[0]
            if name in _PER_HOP:
                if header == _CLOSE:
                    self._driver.wind_down()
            else:
                has_date = has_date or name == "date"
                parts.append(field(header))
        if not has_date:
            parts.append(hub.date.http2())
        self.responded = True
        return b"".join(parts)

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:  # noqa: ARG002
        """Accept the client's upgrade."""
        raise RuntimeError("not a WebSocket request")

    def wants_websocket(self) -> bool:
        return False

    # -- ends ----------------------------------------------------------------------------------

    def fail(self) -> None:
        """Answer 500, or break the answer off if it has begun."""
        if not self.responded:
            self.respond(500, PLAIN_TEXT, FAILURE_TEXT)
        elif self.stream is not None:
            self.stream.abort()

    def lost(self) -> None:
        """The client is gone, or the stream ended otherwise than by a complete answer."""
        self._driver.unbuffer(self)
        self._pieces = []
        if self.request.reader is not None:
            self.request.reader.fail(ClientGone("the client broke the request off"))
        if self.task is not None:
            self._is_orphan = True
            self._driver.machine.orphans += 1
            self.task.cancel()
        if self.stream is not None:
            self.stream.finish()

    def task_ended(self) -> None:
        if self._is_orphan:
            self._is_orphan = False
            self._driver.machine.orphans -= 1


class Http2Driver:
    """Runs the state machine on a connection."""

    protocol = "HTTP/2.0"

    def __init__(self, connection: Connection, hub: Hub) -> None:
        self.connection = connection
        self.hub = hub
        self.machine = Http2(hub.settings, hub.huffman)
        self.buffered = 0
        self._receiving: dict[Http2Exchange, float] = {}
        """Exchanges whose body is being collected, and since when."""
        self._partial_since: float | None = None
        self._idle_since: float | None = hub.loop.time()
        self._last_id = 0
        self._is_draining = False

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        now = self.hub.loop.time()
        machine = self.machine
        self._handle(machine.receive(data, now))
        if machine.is_mid_request:
            if self._partial_since is None:
                self._partial_since = now
        else:
            self._partial_since = None
        if machine.streams:
            self._idle_since = None
        elif machine.last_id != self._last_id or self._idle_since is None:
            self._idle_since = now
        self._last_id = machine.last_id

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        """What is to be written in this turn."""
        machine = self.machine
        machine.room = self.hub.settings.turn_size if may_send_bodies else 0
        if machine.ready:
            machine.pump()
            if machine.events:
                self._handle(machine.take_events())
        out, machine.out = machine.out, []
        return out

    @property
    def has_more(self) -> bool:
        """Something waits that neither the windows nor the room hold back."""
        return bool(self.machine.ready) and self.machine.window > 0

    @property
    def is_finished(self) -> bool:
        return self.machine.is_finished

    @property
    def idle_since(self) -> float | None:
        return self._idle_since

    def wind_down(self) -> None:
        """Two GOAWAYs: one that only announces, one that names the last stream."""
        if not self._is_draining:
            self._is_draining = True
            self.machine.announce_drain()
            self.hub.loop.call_later(_DRAIN_GRACE, self._refuse_new_streams)
            self.connection.flush_soon()

    def _refuse_new_streams(self) -> None:
        self.machine.refuse_new_streams()
        self.connection.flush_soon()

    def connection_lost(self) -> None:
        for state in [*self.machine.streams.values()]:
            self.machine.forget(state)
            self._lose(state)

    def check(self, now: float) -> None:
        """Time limits; called now and then."""
        settings = self.hub.settings
        for exchange, since in [*self._receiving.items()]:
            if now - since > settings.body_timeout:
                self.unbuffer(exchange)
                exchange.respond(408, PLAIN_TEXT, b"Request Timeout\n")
        if self._partial_since is not None and now - self._partial_since > settings.header_timeout:
            self.machine.fail(frames.ENHANCE_YOUR_CALM, "frame not completed in time")
        if self.machine.pending_total:
            self._check_stalls(now)
        if self._idle_since is None and not self.machine.streams:
            self._idle_since = now
        if self._idle_since is not None and now - self._idle_since > settings.idle_timeout:
            self.wind_down()
            self._refuse_new_streams()
        self._handle(self.machine.take_events())
        self.connection.flush_soon()

    def _check_stalls(self, now: float) -> None:
        for state in [*self.machine.streams.values()]:
            if not state.pending_size:
                continue
            if state.has_moved or not state.stalled_since:
                state.has_moved = False
                state.stalled_since = now
            elif now - state.stalled_since > self.hub.settings.write_stall_timeout:
                self.machine.reset(state, frames.CANCEL)
                self._lose(state)

    # -- events --------------------------------------------------------------------------------

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, RequestReceived):
                self._on_request(event)
            elif isinstance(event, BodyReceived):
                self._on_body(event)
            elif isinstance(event, StreamLost):
                self._lose(event.stream)
            elif isinstance(event, ConnectionFailed):
                address = self.connection.peer.address
                _log.info("HTTP/2 connection of %s ended: %s", address, event.reason)
            else:
                self._on_sent(event)

    @staticmethod
    def _on_sent(event: StreamEnded | Relieved) -> None:
        exchange: Http2Exchange | None = event.stream.owner
        if exchange is None or exchange.stream is None:
            return
        if isinstance(event, StreamEnded):
            exchange.stream.finish()
        else:
            exchange.stream.relieve()

    def _on_request(self, event: RequestReceived) -> None:
        state, head = event.stream, event.head
        if not state.is_local_open:
            return  # broken off before we came to it
        if head is None:
            block = self.hub.encoder.status(431) + self.hub.encoder.content_length(0)
            self.machine.send_headers(state, block, ends=True)
            return
        if self.machine.pending_total > self.hub.settings.max_buffered_per_connection:
            self.machine.reset(state, frames.REFUSED_STREAM)
            return
        exchange = Http2Exchange(self, state, Request(head, self.connection.peer))
        state.owner = exchange
        if event.is_complete:
            self.hub.serve(exchange)
        else:
            self._await_body(exchange)

    def _await_body(self, exchange: Http2Exchange) -> None:
        request = exchange.request
        if self.hub.application.wants_streaming(request):
            exchange.start_streaming()
            self.hub.serve(exchange)
        elif (request._head.content_length or 0) > self.hub.settings.max_body:
            request.truncated = True
            self.hub.serve(exchange)
        else:
            self._receiving[exchange] = self.hub.loop.time()
            exchange.continue_body()

    def _on_body(self, event: BodyReceived) -> None:
        exchange = event.stream.owner
        if exchange is not None and event.stream.is_local_open:
            exchange.receive(event.data, event.is_last)

    def _lose(self, state: StreamState) -> None:
        exchange: Http2Exchange | None = state.owner
        if exchange is not None:
            exchange.lost()

    # -- unfinished bodies ---------------------------------------------------------------------

    def buffer(self, exchange: Http2Exchange, size: int) -> bool:
        """Account for a piece of an unfinished body; False if it was refused for want of room."""
        self.buffered += size
        self.hub.buffered += size
        settings = self.hub.settings
        if (
            self.buffered <= settings.max_buffered_per_connection
            and self.hub.buffered <= settings.max_buffered_bodies
        ):
            return True
        self.machine.reset(exchange.state, frames.REFUSED_STREAM)
        exchange.lost()
        return False

    def unbuffer(self, exchange: Http2Exchange) -> None:
        """The body is complete or given up."""
        self._receiving.pop(exchange, None)
        self.buffered -= exchange.buffered
        self.hub.buffered -= exchange.buffered
        exchange.buffered = 0
