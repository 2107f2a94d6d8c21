"""HTTP/2 on a client connection: drives the state machine and calls the handlers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING

from pykcp.clients.errors import NotProcessed, SendFailed
from pykcp.clients.http.interface import (
    HOP_BY_HOP,
    AnswerHandler,
    OutgoingRequest,
    OutgoingStream,
    Server,
    check_target,
)
from pykcp.wire.exchange import Header
from pykcp.wire.http2 import frames
from pykcp.wire.http2.client import Http2Client
from pykcp.wire.http2.events import (
    BodyReceived,
    ClientStream,
    ConnectionFailed,
    Event,
    Relieved,
    ResponseReceived,
    StreamEnded,
    StreamLost,
    StreamState,
)
from pykcp.wire.http2.hpack import HeaderEncoder
from pykcp.wire.http2.huffman import Huffman

if TYPE_CHECKING:
    from pykcp.clients.http.connection import ClientConnection

_LEFT_OUT = HOP_BY_HOP | {"host", "content-length"}
_MOST_BLOCKS = 64
"""Headers whose encoding a connection remembers."""
_TURN_SECONDS = 0.001
"""Seconds of events per turn; other connections wait in the meantime."""


@cache
def _codec() -> tuple[HeaderEncoder, Huffman]:
    """Both remember what they have seen, for all connections together."""
    return HeaderEncoder(), Huffman()


class Http2Call:
    """A request under way on a stream."""

    __slots__ = ("_session", "_state", "handler")

    def __init__(self, session: Http2Session, state: ClientStream, handler: AnswerHandler) -> None:
        self._session = session
        self._state = state
        self.handler: AnswerHandler | None = handler

    @property
    def is_received(self) -> bool:
        return not self._state.is_remote_open

    @property
    def backlog(self) -> int:
        return self._state.pending_size

    def write(self, data: bytes) -> None:
        state, session = self._state, self._session
        if state.is_local_open and data:
            session.machine.send(state, data)
            if state.pending_size > session.low_water:
                state.relief_at = session.low_water
            session.connection.flush_soon()

    def end(self) -> None:
        if self._state.is_local_open:
            self._session.machine.end(self._state)
            self._session.connection.flush_soon()

    def consumed(self, size: int) -> None:
        session = self._session
        if self._state.is_remote_open:
            session.machine.consume(self._state, size)
            if session.machine.out:
                session.connection.flush_soon()

    def cancel(self) -> None:
        self.handler = self._state.owner = None
        session = self._session
        if session.machine.streams.get(self._state.id) is self._state:
            session.machine.cancel(self._state)
            session.connection.flush_soon()
        session.freed()


class Http2Session:
    """The requests on one HTTP/2 connection."""

    slice_size = 256 * 1024
    """Half a millisecond of a long answer; its window limits how much of it is held."""

    def __init__(self, connection: ClientConnection, server: Server) -> None:
        self.connection = connection
        settings = connection.settings
        self._encoder, huffman = _codec()
        self.machine = Http2Client(settings, huffman, connection.loop.time())
        self.low_water = settings.low_water
        self.is_reused = False
        self._behind: list[Event] = []
        encoder = self._encoder
        self._blocks: dict[int, tuple[Sequence[Header], tuple[bytes, bytes]]] = {}
        """Headers that were sent before, by identity, and their encoding."""
        self._scheme = encoder.field((":scheme", server.scheme))
        self._origin = self._scheme + encoder.field((":authority", server.authority))
        self._idle_since = connection.loop.time()
        self._pinged_at = 0.0

    @property
    def has_room(self) -> bool:
        return not self.connection.is_closing and self.machine.can_open

    def start(self, request: OutgoingRequest, handler: AnswerHandler) -> OutgoingStream:
        body = request.body
        block = self._block(request)
        machine = self.machine
        state = machine.open(block, body == b"", request.method == "HEAD")
        call = state.owner = Http2Call(self, state, handler)
        if body:
            machine.send_parts(state, (body,), len(body), ends=True)
        self.is_reused = True
        self.connection.flush_soon()
        return call

    def _block(self, request: OutgoingRequest) -> bytes:
        check_target(request)
        encoder = self._encoder
        origin, fields = self._encoded(request.headers)
        parts = [
            encoder.field((":method", request.method)),
            origin,
            encoder.path(request.target),
            fields,
        ]
        length = request.length if request.body is None else len(request.body) or None
        if length is not None:
            parts.append(encoder.content_length(length))
        return b"".join(parts)

    def _encoded(self, headers: Sequence[Header]) -> tuple[bytes, bytes]:
        """Scheme and authority, and the other fields. Proxies send the same headers over and over."""
        known = self._blocks.get(id(headers))
        if known is not None and known[0] is headers:
            return known[1]
        origin, parts, field = self._origin, list[bytes](), self._encoder.field
        for header in headers:
            if header[0] not in _LEFT_OUT:
                parts.append(field(header))
            elif header[0] == "host":
                origin = self._scheme + field((":authority", header[1]))
        encoded = (origin, b"".join(parts))
        if isinstance(headers, tuple):  # it cannot change
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[id(headers)] = (headers, encoded)
        return encoded

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self._pinged_at = 0.0
        self._handle(self.machine.receive(data, self.connection.loop.time()))

    @property
    def is_behind(self) -> bool:
        return bool(self._behind) or self.machine.is_behind

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        room = self.connection.settings.turn_size if may_send_bodies else 0
        return self.machine.take_output(room, self._handle)

    @property
    def has_more(self) -> bool:
        return self.machine.has_more

    @property
    def is_finished(self) -> bool:
        return self.machine.is_finished and not self._behind

    @property
    def is_idle(self) -> bool:
        return not self.machine.streams

    def wind_down(self) -> None:
        self.machine.refuse_new_streams()
        self.connection.flush_soon()

    def lost(self, error: SendFailed, is_clean: bool) -> None:
        self._handle_all()
        for state in [*self.machine.streams.values()]:
            self.machine.forget(state)
            self._fail(state, error)

    def check(self, now: float) -> float:
        settings, connection = self.connection.settings, self.connection
        if not self.machine.streams:
            if now - self._idle_since > settings.idle_timeout:
                self.wind_down()
            return settings.ping_after  # a request may be sent at any time
        self._idle_since = now
        if self._pinged_at:
            left = self._pinged_at + settings.ping_timeout - now
            if left < 0:
                connection.abort()
            return left
        left = connection.last_heard + settings.ping_after - now
        if left >= 0:
            return left
        self._pinged_at = now
        self.machine.ping()
        connection.flush_soon()
        return settings.ping_timeout

    # -- events --------------------------------------------------------------------------------

    def _handle(self, events: list[Event]) -> None:
        """Work on events in order, but only for so long in one turn."""
        if len(events) == 1 and not self._behind:
            self._on_event(events[0])
            return
        self._behind += events
        end = perf_counter() + _TURN_SECONDS
        done = 0
        for event in self._behind:
            done += 1
            self._on_event(event)
            if perf_counter() > end:
                break
        del self._behind[:done]

    def _handle_all(self) -> None:
        events, self._behind = self._behind, []
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            self._on_head(event)
        elif isinstance(event, BodyReceived):
            self._on_body(event)
        elif isinstance(event, StreamLost):
            self._fail(event.stream, _reset_failure(event.code, self.machine.failure))
        elif isinstance(event, Relieved | StreamEnded):
            call: Http2Call | None = event.stream.owner
            if call is not None and call.handler is not None:
                call.handler.relieved()
        elif isinstance(event, ConnectionFailed):
            self.machine.failure = f"http2: {event.reason}"

    def _on_head(self, event: ResponseReceived) -> None:
        call: Http2Call | None = event.stream.owner
        if call is None or call.handler is None:
            return
        call.handler.head_received(event.head.status, event.head.headers)
        if event.is_complete:
            self._end(event.stream, call, ())

    def _on_body(self, event: BodyReceived) -> None:
        call: Http2Call | None = event.stream.owner
        if call is None or call.handler is None:
            return
        if event.data:
            call.handler.data_received(event.data)
        if event.is_last:
            self._end(event.stream, call, getattr(event.stream, "received_trailers", ()))

    def _end(self, state: StreamState, call: Http2Call, trailers: Sequence[Header]) -> None:
        state.owner = None  # they need not wait for the garbage collector
        handler, call.handler = call.handler, None
        if handler is not None:
            handler.ended(trailers)
        self.freed()

    def _fail(self, state: StreamState, error: SendFailed) -> None:
        call: Http2Call | None = state.owner
        if call is None or call.handler is None:
            return
        handler, call.handler, state.owner = call.handler, None, None
        is_begun = getattr(state, "has_head", False)
        handler.failed(SendFailed("unexpected EOF") if error.is_lost and is_begun else error)
        self.freed()

    def freed(self) -> None:
        """Another request fits."""
        on_free = self.connection.on_free
        if on_free is not None:
            on_free()


def _reset_failure(code: int, reason: str) -> SendFailed:
    if code == frames.REFUSED_STREAM:
        return NotProcessed(reason or "http2: the server refused the stream")
    if reason:
        return SendFailed(reason)
    return SendFailed(f"stream error: stream was reset by the server; error code {code}")
