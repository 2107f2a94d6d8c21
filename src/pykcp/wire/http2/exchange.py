"""One request and its answer on an HTTP/2 stream, as the application sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from pykcp.wire.exchange import BodySink, Header, Stream, Tunnel, WebSocket
from pykcp.wire.http2 import frames
from pykcp.wire.http2.events import StreamState
from pykcp.wire.http2.known_answers import PassedHeaders
from pykcp.wire.http2.machine import Http2
from pykcp.wire.request import ASK_ABOVE, BodyPieces, BodyReader, ClientGone, Request
from pykcp.wire.serving import FAILURE_TEXT, PLAIN_TEXT
from pykcp.wire.streams import AnswerStream

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection
    from pykcp.wire.http2.driver import Http2Driver

_CLOSE: Header = ("connection", "close")
_SPECIAL = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "date")
)
"""Headers that belong to HTTP/1.1 connections and are left out, and the one that we add."""


class Http2Channel:
    """A connection as a way to write the same piece to many of its streams."""

    __slots__ = ("connection", "machine")

    def __init__(self, connection: Connection, machine: Http2) -> None:
        self.connection, self.machine = connection, machine

    def write_to_all(self, streams: Sequence[Http2Stream], data: bytes) -> int:
        """How much waits now on the stream on which most waits."""
        # Streams that have ended are closed for the state machine, too.
        backlog = self.machine.send_to_all([stream._state for stream in streams], data)
        if not self.connection.is_flush_due:
            self.connection.flush_later()
        return backlog


class Http2Stream(AnswerStream):
    """An answer that is written piece by piece."""

    __slots__ = ("_channel", "_connection", "_machine", "_state", "is_mute")

    def __init__(self, channel: Http2Channel, state: StreamState) -> None:
        super().__init__()
        self._channel = channel
        self._connection = channel.connection
        self._machine = channel.machine
        self._state = state
        self.is_mute = False
        """What is written is thrown away: HEAD, or the end has been declared."""

    @property
    def backlog(self) -> int:
        return self._state.pending_size

    @property
    def channel(self) -> Http2Channel | None:
        """What writes the same to several streams of this connection at once."""
        return None if self.is_mute else self._channel

    def write(self, data: bytes) -> None:
        if self.closed or self.is_mute:
            return
        self._machine.send(self._state, data)
        if not self._connection.is_flush_due:
            self._connection.flush_later()

    def is_relieved(self) -> bool:
        limit = self._connection.hub.settings.low_water
        if self._state.pending_size <= limit:
            return True
        self._state.relief_at = limit
        return False

    def end(self, trailers: Sequence[Header] = ()) -> None:
        if self.closed:
            return
        self.is_mute = True
        field = self._connection.hub.encoder.field
        exchange: Http2Exchange | None = self._state.owner
        if self._machine.end(self._state, b"".join([field(header) for header in trailers])):
            self.finish()
            if exchange is not None:
                exchange.let_go()
        self._connection.flush_soon()

    def finish(self) -> None:
        super().finish()
        exchange: Http2Exchange | None = self._state.owner
        if exchange is not None:
            exchange.release_body()

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
        "_is_asked",
        "_is_orphan",
        "_is_served",
        "_on_gone",
        "_pieces",
        "_waiters",
        "buffered",
        "is_deferred",
        "is_known",
        "received",
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
        self._pieces: BodyPieces | None = None
        self.buffered = 0
        """How much of the body the driver has on its account."""
        self.received = 0
        """Octets of the body that have come."""
        self.is_known = False
        """The caller has signed in."""
        self._waiters: Sequence[asyncio.Future[None]] = ()
        self._is_asked = False
        self._is_served = False
        self._is_orphan = False
        self.is_deferred = False
        self._on_gone: Callable[[], None] | None = None

    # -- the body ------------------------------------------------------------------------------

    def start_streaming(self) -> None:
        self.request.is_streaming = self.is_known = True
        self.request.reader = BodyReader(self._on_consumed, self.continue_body)

    def _on_consumed(self, size: int) -> None:
        self._driver.unbuffer(self, min(size, self.buffered))
        self._driver.machine.consume(self.state, size)
        self._driver.connection.flush_soon()

    def continue_body(self) -> None:
        """Send 100 Continue to a client that waits with its body."""
        if self.request._head.expects_continue and self.state.is_remote_open:
            block = self._driver.hub.encoder.status(100)
            self._driver.machine.send_headers(self.state, block)
            self._driver.connection.flush_soon()

    def receive(self, data: bytes, is_last: bool) -> None:
        """A piece of the body."""
        reader = self.request.reader
        if self.request.truncated or (self.responded and self.stream is None):
            self._driver.machine.consume(self.state, len(data))  # it will not be read
        elif reader is None:
            self._collect(data, is_last)
        elif not data or self._driver.buffer(self, len(data)):
            if data:
                reader.feed(data)
            if is_last:
                reader.end()

    def _collect(self, data: bytes, is_last: bool) -> None:
        self.received += len(data)
        if is_last and self._pieces is None:
            self._serve(data)
            return
        if self._pieces is None:
            self._pieces = BodyPieces()
        self._pieces.add(data)
        if not is_last and not self._driver.buffer(self, len(data)):
            return
        if self.received > self._driver.hub.settings.max_body:
            self.request.truncated = True
            self._serve(b"")
        elif is_last:
            self._serve(self._pieces.take())
        elif self.is_known:
            self._driver.machine.consume(self.state, len(data))
        elif self.received > ASK_ABOVE and not self._is_asked:
            self._is_asked = True
            self._driver.hub.identify(self, self._on_identified)

    def _on_identified(self, is_known: bool) -> None:
        """Let a client that has signed in send the rest; others have sent enough."""
        if self._is_served or not self.state.is_local_open:
            return
        if is_known:
            self._driver.become_known(self)
            self._driver.machine.widen_receiving(self.state)
            self._driver.machine.consume(self.state, self.received)
        else:
            self.request.truncated = True
            self._serve(b"")
        self._driver.connection.flush_soon()

    def _serve(self, body: bytes) -> None:
        self._is_served = True
        self.release_body()
        self.request.body = body
        self._driver.hub.serve(self)

    def release_body(self) -> None:
        """What has been kept of the body is kept no longer, or no longer as something unfinished."""
        self._driver.stop_receiving(self)
        self._pieces = None

    # -- the answer ----------------------------------------------------------------------------

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        """The whole answer; content-length is added. HEAD answers lose their body."""
        block, machine = self._begin(status, headers), self._driver.machine
        if self.buffered:
            self.release_body()
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
        if self.state.is_closed:
            self.let_go()
        self._driver.connection.flush_soon()

    def let_go(self) -> None:
        """The answer is complete: what knows each other need not wait for the garbage collector."""
        self.state.owner = self._on_gone = None

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        """Begin an answer of unknown length."""
        block = self._begin(status, headers)
        stream = Http2Stream(self._driver.channel, self.state)
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
        """The header block of the answer, without its length."""
        if self.responded:
            raise RuntimeError("this request has been answered already")
        hub = self._driver.hub
        ids = hub.ids
        if type(headers) is PassedHeaders:
            octets = headers.octets_for(status, ids.name)
            if octets is not None:
                self.responded = True
                length = headers.content_length
                return octets if length is None else octets + hub.encoder.content_length(length)
        field, known = hub.encoder.field, hub.encoder.known_fields
        parts = [hub.encoder.status(status)]
        has_date = has_id = False
        for header in headers:
            if header[0] == ids.name:
                has_id = True
                parts.append(hub.encoder.once(header))
            elif header[0] not in _SPECIAL:
                parts.append(known.get(header) or field(header))
            elif header[0] == "date":
                has_date = True
                parts.append(field(header))
            elif header == _CLOSE:  # after this answer: some clients read no further
                hub.loop.call_soon(self._driver.wind_down)
        if not has_date:
            parts.append(hub.date.http2())
        if not has_id:
            parts.append(ids.http2(self.request))
        self.responded = True
        return b"".join(parts)

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        """Accept the client's upgrade."""
        raise RuntimeError("not a WebSocket request")

    def wants_websocket(self) -> bool:
        return False

    wanted_protocol = ""

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        raise RuntimeError("HTTP/2 has no upgrades")

    def defer(self, gone: Callable[[], None]) -> None:
        """The answer will come without a task."""
        self.is_deferred = True
        self._on_gone = gone

    def proceed(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Go on with a deferred answer as a task after all."""
        self._on_gone = None
        self._driver.hub.start(self, coroutine)

    @property
    def unsent(self) -> int:
        return self.state.pending_size

    async def taken(self) -> None:
        """Wait until nearly all of the answer has gone out, or the client is gone."""
        state = self.state
        limit = self._driver.hub.settings.low_water
        while state.is_local_open and state.pending_size > limit:
            state.relief_at = limit
            waiter = asyncio.get_running_loop().create_future()
            self._waiters = (*self._waiters, waiter)
            await waiter

    async def reserve(self, size: int) -> None:
        await self._driver.hub.unsent.reserve(size)

    def unreserve(self, size: int) -> None:
        self._driver.hub.unsent.add(-size)

    def relieve(self) -> None:
        """Nearly all that was written has gone out."""
        if self.stream is not None:
            self.stream.relieve()
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- ends ----------------------------------------------------------------------------------

    def fail(self) -> None:
        """Answer 500, or break the answer off if it has begun."""
        if not self.responded:
            self.respond(500, PLAIN_TEXT, FAILURE_TEXT)
        elif self.stream is not None:
            self.stream.abort()

    def lost(self) -> None:
        """The client is gone, or the stream ended otherwise than by a complete answer."""
        self.release_body()
        if self.request.reader is not None:
            self.request.reader.fail(ClientGone("the client broke the request off"))
        if self.task is not None:
            self._is_orphan = True
            self._driver.machine.orphans += 1
            self.task.cancel()
        if self.stream is not None:
            self.stream.finish()
        if self._waiters:
            self.relieve()
        if self._on_gone is not None:
            gone, self._on_gone = self._on_gone, None
            gone()

    def task_ended(self) -> None:
        if self._is_orphan:
            self._is_orphan = False
            self._driver.machine.orphans -= 1
