"""One request and its answer over HTTP/1.1."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from pykcp.wire.exchange import BodySink, Header, Stream, Tunnel, WebSocket
from pykcp.wire.http1.head import HeadWriter
from pykcp.wire.request import ASK_ABOVE, BodyPieces, BodyReader, ClientGone, Request
from pykcp.wire.serving import FAILURE_TEXT, PLAIN_TEXT
from pykcp.wire.streams import AnswerStream
from pykcp.wire.websocket_handshake import accept_headers, is_websocket_request, tokens

if TYPE_CHECKING:
    from pykcp.wire.http1.driver import Http1Driver
    from pykcp.wire.switched import SwitchedDriver

_log = logging.getLogger(__name__)

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE_LINE = b"connection: close\r\n"
_KEEP_ALIVE_LINE = b"connection: keep-alive\r\n"
_CHUNKED_LINE = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_PER_HOP = frozenset(("connection", "keep-alive", "transfer-encoding"))


class Http1Stream(AnswerStream):
    """An answer that is written piece by piece: in chunks, or up to the close for HTTP/1.0."""

    __slots__ = ("_driver", "_exchange", "_is_chunked", "_is_mute", "_missing")

    def __init__(self, exchange: Http1Exchange, is_chunked: bool, length: int | None) -> None:
        super().__init__()
        self._exchange = exchange
        self._driver = exchange.driver
        self._is_chunked = is_chunked
        self._missing = length
        """Octets still owed to the announced content-length."""
        self._is_mute = exchange.request.method == "HEAD"

    @property
    def backlog(self) -> int:
        return self._driver.pending_size

    def write(self, data: bytes) -> None:
        if self.closed or self._is_mute or not data:
            return
        if self._is_chunked:
            self._driver.send(b"%x\r\n" % len(data), data, b"\r\n", is_urgent=False)
            return
        if self._missing is not None:
            self._missing -= len(data)
            if self._missing < 0:
                _log.error(
                    "response longer than its content-length: %s", self._exchange.request.path
                )
                self.abort()
                return
        self._driver.send(data, is_urgent=False)

    def is_relieved(self) -> bool:
        return self._driver.pending_size <= self._driver.hub.settings.low_water

    def end(self, trailers: Sequence[Header] = ()) -> None:
        if self.closed:
            return
        if self._missing and not self._is_mute:
            _log.error("response shorter than its content-length: %s", self._exchange.request.path)
            self.abort()
            return
        if self._is_chunked and not self._is_mute:
            lines = [self._driver.hub.head_writer.line(header) for header in trailers]
            self._driver.send(b"".join((b"0\r\n", *lines, b"\r\n")) if lines else _LAST_CHUNK)
        self.finish()
        self._exchange.answered()

    def abort(self) -> None:
        if not self.closed:
            self.finish()
            self._driver.connection.abort()


class Http1Exchange:
    """One request and its answer."""

    __slots__ = (
        "_buffered",
        "_is_known",
        "_on_gone",
        "_pieces",
        "_version",
        "_waiters",
        "driver",
        "is_answered",
        "is_being_identified",
        "is_complete",
        "is_deferred",
        "is_served",
        "keeps_alive",
        "received",
        "rejection",
        "request",
        "responded",
        "stream",
        "task",
    )

    def __init__(self, driver: Http1Driver, request: Request, version: str) -> None:
        self.driver = driver
        self.request = request
        self.responded = False
        self.task: asyncio.Task[None] | None = None
        self.stream: Http1Stream | SwitchedDriver | None = None
        self.keeps_alive = True
        self.is_complete = False
        """The whole request has arrived."""
        self.is_served = False
        """The application has it."""
        self.is_answered = False
        """The whole answer is on its way."""
        self.rejection: tuple[int, bytes] | None = None
        """An answer that is given in the application's place."""
        self._version = version
        self._pieces: BodyPieces | None = None
        self._buffered = 0
        """How much of the body is on the hub's account."""
        self._is_known: bool | None = None
        """Whether the caller has signed in; None if that has not been asked."""
        self.is_being_identified = False
        self.is_deferred = False
        self._on_gone: Callable[[], None] | None = None
        self.received = 0
        """Octets of the body that have come."""
        self._waiters: Sequence[asyncio.Future[None]] = ()

    # -- the request ---------------------------------------------------------------------------

    def await_body(self) -> None:
        """The head is there and a body is to come."""
        request, hub = self.request, self.driver.hub
        if hub.wants_streaming(request):
            request.is_streaming = True
            request.reader = BodyReader(self._on_consumed, self._continue)
        elif (request._head.content_length or 0) > hub.settings.max_body:
            request.truncated = True
        else:
            self._continue()

    def _continue(self) -> None:
        if self.request._head.expects_continue and not self.responded and not self.is_complete:
            self.driver.send(_CONTINUE)

    def _on_consumed(self, _size: int) -> None:
        self.driver.advance()

    def receive(self, data: bytes) -> bool:
        """A piece of the body; False if there is no room for it."""
        request = self.request
        self.received += len(data)
        if request.reader is not None:
            if not self.is_answered:
                request.reader.feed(data)
            return True
        if request.truncated or self.is_answered:
            return True
        if self._pieces is None:
            self._pieces = BodyPieces()
        self._pieces.add(data)
        if not self._account(len(data)):
            return False
        if self.received > self.driver.hub.settings.max_body:
            self._truncate()
        elif self._is_known is None and self.received > ASK_ABOVE:
            self.is_being_identified = True
            self.driver.hub.identify(self, self._on_identified)
        return True

    def _on_identified(self, is_known: bool) -> None:
        """Let a client that has signed in send the rest; others have sent enough."""
        self.is_being_identified = False
        if self.is_complete or self.is_served or self.driver.connection.is_closing:
            return
        size = self._buffered
        self._account(-size)
        self._is_known = is_known
        self._account(size)
        if not is_known:
            self._truncate()
        self.driver.advance()

    def _truncate(self) -> None:
        self.request.truncated = True
        self.discard_body()

    def _account(self, size: int) -> bool:
        self._buffered += size
        address = self.request.peer.address
        return self.driver.hub.account_body(address, size, bool(self._is_known))

    def body_ended(self) -> None:
        self.is_complete = True
        if self.request.reader is not None:
            self.request.reader.end()
        elif not self.request.truncated and self._pieces is not None:
            self.request.body = self._pieces.take()
        self.discard_body()

    def discard_body(self) -> None:
        """Forget what has been collected."""
        if self._buffered:
            self._account(-self._buffered)
        self._pieces = None

    @property
    def is_due(self) -> bool:
        """Whether the application could have it now."""
        request = self.request
        return self.is_complete or request.is_streaming or request.truncated

    def serve(self) -> None:
        self.is_served = True
        if self.rejection is not None:
            status, text = self.rejection
            self.respond(status, PLAIN_TEXT, text)
        else:
            self.driver.hub.serve(self)

    # -- the answer ----------------------------------------------------------------------------

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        """The whole answer; content-length is added. HEAD answers lose their body."""
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        has_body = status >= 200 and status not in (204, 304)
        if not self.is_complete:
            self.keeps_alive = False
        self._begin(status, headers, b"content-length: %d\r\n" % size if has_body else b"")
        if size and has_body and self.request.method != "HEAD":
            self.driver.send(*((body,) if isinstance(body, bytes) else body))
        self.answered()

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        """Begin an answer of unknown length (or of the length that its headers announce)."""
        length = next((int(value) for name, value in headers if name == "content-length"), None)
        is_chunked = length is None and self._version == "1.1"
        if length is None and not is_chunked:
            self.keeps_alive = False
        self._begin(status, headers, _CHUNKED_LINE if is_chunked else b"")
        stream = self.stream = Http1Stream(self, is_chunked, length)
        if self.driver.connection.is_closing:
            stream.finish()
        return stream

    def _begin(self, status: int, headers: Sequence[Header], more: bytes) -> None:
        if self.responded:
            raise RuntimeError("this request has been answered already")
        lines = []
        hub = self.driver.hub
        line, id_name = hub.head_writer.line, hub.ids.name
        has_date = has_id = False
        for header in headers:
            name = header[0]
            if name in _PER_HOP:
                if name == "connection" and "close" in header[1].lower():
                    self.keeps_alive = False
            elif name == id_name:
                has_id = True
                lines.append(HeadWriter.once(header))
            else:
                has_date = has_date or name == "date"
                lines.append(line(header))
        if not has_date:
            lines.append(hub.date.http1())
        if not has_id:
            lines.append(hub.ids.http1(self.request))
        # A stream may begin before its request has ended: whether it can go on is seen at its end.
        if self.driver.is_draining or not (self.is_complete or self.request.is_streaming):
            self.keeps_alive = False
        if not self.keeps_alive:
            lines.append(_CLOSE_LINE)
        elif self._version == "1.0":
            lines.append(_KEEP_ALIVE_LINE)
        self.responded = True
        status_line = hub.head_writer.status_line(status)
        self.driver.send(b"".join((status_line, *lines, more, b"\r\n")))

    def answered(self) -> None:
        self.is_answered = True
        self.driver.advance()

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        """Accept the client's upgrade."""
        from pykcp.wire.websocket import WebSocketDriver

        if not self.wants_websocket():
            raise RuntimeError("not a WebSocket request")
        self._switch((*accept_headers(self.request, subprotocol), *headers))
        driver = WebSocketDriver(self.driver.connection, self.driver.hub, self, subprotocol)
        self.stream = driver
        self.driver.switch_to(driver)
        return driver

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        """Switch to the protocol that the client asked for."""
        from pykcp.wire.tunnel import TunnelDriver

        if not self.wanted_protocol:
            raise RuntimeError("the client did not ask for another protocol")
        upgrade = (("connection", "Upgrade"), ("upgrade", self.wanted_protocol))
        self._switch((*upgrade, *headers))
        driver = TunnelDriver(self.driver.connection, self.driver.hub, self, sink)
        self.stream = driver
        self.driver.switch_to(driver)
        return driver

    def _switch(self, headers: Sequence[Header]) -> None:
        if self.responded:
            raise RuntimeError("this request has been answered already")
        self.responded = True
        writer = self.driver.hub.head_writer
        ids = self.driver.hub.ids
        known = any(name == ids.name for name, _ in headers)
        own = b"" if known else ids.http1(self.request)
        lines = (writer.status_line(101), *map(writer.once, headers), own, b"\r\n")
        self.driver.send(b"".join(lines))

    @property
    def wanted_protocol(self) -> str:
        request = self.request
        if self._version != "1.1" or "upgrade" not in tokens(request, "connection"):
            return ""
        return request.header("upgrade") or ""

    def defer(self, gone: Callable[[], None]) -> None:
        """The answer will come without a task."""
        self.is_deferred = True
        self._on_gone = gone

    def proceed(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Go on with a deferred answer as a task after all."""
        self._on_gone = None
        self.driver.hub.start(self, coroutine)

    def wants_websocket(self) -> bool:
        return self._version == "1.1" and is_websocket_request(self.request)

    # -- ends ----------------------------------------------------------------------------------

    def fail(self) -> None:
        """Answer 500, or break the answer off if it has begun."""
        if not self.responded:
            self.respond(500, PLAIN_TEXT, FAILURE_TEXT)
        elif self.stream is not None:
            self.stream.abort()

    def lost(self) -> None:
        """The client is gone."""
        self.discard_body()
        if self.request.reader is not None:
            self.request.reader.fail(ClientGone("the client broke the request off"))
        if self.task is not None:
            self.task.cancel()
        if self.stream is not None:
            self.stream.finish()
        self._wake()
        if self._on_gone is not None:
            gone, self._on_gone = self._on_gone, None
            gone()

    def relieve(self) -> None:
        if isinstance(self.stream, Http1Stream):
            self.stream.relieve()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def unsent(self) -> int:
        return self.driver.pending_size

    async def taken(self) -> None:
        """Wait until nearly all of the answer has gone out, or the client is gone."""
        driver = self.driver
        while driver.pending_size > driver.hub.settings.low_water:
            if driver.connection.is_closing:
                return
            waiter = asyncio.get_running_loop().create_future()
            self._waiters = (*self._waiters, waiter)
            driver.watchers.append(self)
            await waiter

    async def reserve(self, size: int) -> None:
        await self.driver.hub.unsent.reserve(size)

    def unreserve(self, size: int) -> None:
        self.driver.hub.unsent.add(-size)

    def task_ended(self) -> None:
        pass
