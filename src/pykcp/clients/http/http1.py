"""HTTP/1.1 on a connection to a server, parsed by httptools: one request after the other.

Also the way to other protocols: after status 101 the octets of both sides are passed on as they
are. A connection is used again only if the last answer was complete and so was its request.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import httptools

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.interface import (
    HOP_BY_HOP,
    AnswerHandler,
    OutgoingRequest,
    OutgoingStream,
    Server,
    check_target,
)
from pykcp.wire.exchange import Header
from pykcp.wire.heads import MalformedMessage, parse_content_length
from pykcp.wire.http1.head import HeadWriter

if TYPE_CHECKING:
    from pykcp.clients.http.connection import ClientConnection

_LEFT_OUT = HOP_BY_HOP | {"host", "content-length"}
_LAST_CHUNK = b"0\r\n\r\n"
_NO_BODY = frozenset((204, 304))
_writer = HeadWriter()


class _Oversize(Exception):
    """The head of an answer is larger than is allowed."""


class Http1Call:
    """A request under way; the session's state while it is."""

    __slots__ = ("_is_chunked", "_session", "handler", "is_sent", "method", "unread", "upgrade")

    def __init__(
        self, session: Http1Session, request: OutgoingRequest, handler: AnswerHandler
    ) -> None:
        self._session = session
        self.handler: AnswerHandler | None = handler
        self.method = request.method
        self.upgrade = request.upgrade
        self.is_sent = request.body is not None
        self._is_chunked = request.body is None and request.length is None
        self.unread = 0
        """Octets that were handed over and are not consumed."""

    @property
    def is_received(self) -> bool:
        return False  # it is not known before

    @property
    def backlog(self) -> int:
        return self._session.pending_size

    def write(self, data: bytes) -> None:
        if not data or self.is_sent or self._session.call is not self:
            return
        if self._is_chunked and not self._session.is_switched:
            self._session.send(b"%x\r\n" % len(data), data, b"\r\n")
        else:
            self._session.send(data)

    def end(self) -> None:
        if self.is_sent or self._session.call is not self:
            return
        self.is_sent = True
        if self._session.is_switched:
            self._session.finish()
        elif self._is_chunked:
            self._session.send(_LAST_CHUNK)

    def consumed(self, size: int) -> None:
        self.unread -= size
        if self._session.call is self:
            self._session.set_reading()

    def cancel(self) -> None:
        self.handler = None
        if self._session.call is self:
            self._session.connection.abort()


class Http1Session:
    """The requests on one HTTP/1.1 connection."""

    slice_size = 64 * 1024
    """There are no windows: this much may be held above the limit."""

    def __init__(self, connection: ClientConnection, server: Server) -> None:
        self.connection = connection
        self._server = server
        self.is_reused = False
        self.call: Http1Call | None = None
        self.pending: deque[bytes | memoryview] = deque()
        self.pending_size = 0
        self.is_switched = False
        """Another protocol is spoken from now on."""
        self._is_over = False
        self._wants_relief = False
        self._since = connection.loop.time()
        self._reset_parser()

    def _reset_parser(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[Header] = []
        self._head_size = 0
        self._has_head = False
        self._is_complete = False
        self._is_until_close = False
        self._keeps_alive = False

    @property
    def has_room(self) -> bool:
        return self.call is None and not self._is_over and not self.connection.is_closing

    def start(self, request: OutgoingRequest, handler: AnswerHandler) -> OutgoingStream:
        head = self._head(request)
        call = self.call = Http1Call(self, request, handler)
        self.is_reused = True
        self.send(head, request.body) if request.body else self.send(head)
        return call

    def _head(self, request: OutgoingRequest) -> bytes:
        check_target(request)
        given = {name for name, _ in request.headers}
        parts = [f"{request.method} {request.target} HTTP/1.1\r\n".encode("latin-1")]
        parts += [
            _writer.line(h) for h in request.headers if h[0] not in _LEFT_OUT or h[0] == "host"
        ]
        if "host" not in given:
            parts.append(_writer.line(("host", self._server.authority)))
        if request.upgrade:
            parts += (b"connection: Upgrade\r\n", _writer.line(("upgrade", request.upgrade)))
        elif request.body is None and request.length is None:
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            length = len(request.body) if request.body is not None else request.length
            if length or request.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
                parts.append(b"content-length: %d\r\n" % (length or 0))
        return b"".join((*parts, b"\r\n"))

    def send(self, *parts: bytes) -> None:
        self.pending.extend(parts)
        self.pending_size += sum(map(len, parts))
        if self.pending_size > self.connection.settings.low_water:
            self._wants_relief = True
        self.connection.flush_soon()

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self.is_switched:
            self._on_octets(data)
            return
        if not data:
            return
        if self.call is None:
            self._break_off("unsolicited response")
            return
        try:
            self._parser.feed_data(data)
            if not self._has_head:  # the parser keeps an unfinished field to itself
                self._count(len(data))
        except httptools.HttpParserUpgrade as upgrade:
            self._on_switch(data[upgrade.args[0] :])
        except (httptools.HttpParserError, _Oversize, MalformedMessage):
            self._break_off("malformed HTTP response")
        else:
            self._on_fed()

    def _on_fed(self) -> None:
        if self._is_complete and self.call is not None:
            self._finish()

    is_behind = False

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        if not may_send_bodies or not self.pending_size:
            return []
        out: list[bytes | memoryview] = []
        room = self.connection.settings.turn_size
        while self.pending and room > 0:
            part = self.pending.popleft()
            if len(part) > room:
                view = memoryview(part)
                self.pending.appendleft(view[room:])
                part = view[:room]
            out.append(part)
            room -= len(part)
            self.pending_size -= len(part)
        if self._wants_relief and self.pending_size <= self.connection.settings.low_water:
            self._wants_relief = False
            if self.call is not None and self.call.handler is not None:
                self.call.handler.relieved()
        return out

    @property
    def has_more(self) -> bool:
        return bool(self.pending_size)

    @property
    def is_finished(self) -> bool:
        return self._is_over and not self.pending_size

    @property
    def is_idle(self) -> bool:
        return self.call is None

    def wind_down(self) -> None:
        if self.call is None:
            self._is_over = True
            self.connection.flush_soon()

    def finish(self) -> None:
        """Close when everything has gone out."""
        self._is_over = True
        self.connection.flush_soon()

    def lost(self, error: SendFailed, is_clean: bool) -> None:
        call, self.call = self.call, None
        if call is None or call.handler is None:
            return
        handler, call.handler = call.handler, None
        if self.is_switched or (self._is_until_close and is_clean):
            handler.ended(())
        else:
            handler.failed(SendFailed("unexpected EOF") if self._has_head else error)

    def check(self, now: float) -> float:
        idle_timeout = self.connection.settings.idle_timeout
        if self.call is None and now - self._since > idle_timeout:
            self.wind_down()
        return idle_timeout

    # -- parsing -------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1").strip()))
        self._count(len(name) + len(value) + 32)
        if len(self._headers) > self.connection.settings.max_header_fields:
            raise _Oversize

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.connection.settings.max_header_list_size:
            raise _Oversize

    def on_headers_complete(self) -> None:
        call, status = self.call, self._parser.get_status_code()
        if call is None:
            return
        headers, self._headers = self._headers, []
        if status < 200 and not (status == 101 and call.upgrade):
            return  # an interim answer; another head follows
        length: int | None = None
        is_chunked = False
        for name, value in headers:
            if name == "content-length":
                length = parse_content_length(value, length)
            elif name == "transfer-encoding":
                is_chunked = True
        self._has_head = True
        is_empty = call.method == "HEAD" or status in _NO_BODY or status == 101
        self._is_until_close = length is None and not is_chunked and not is_empty
        if call.handler is not None:
            call.handler.head_received(status, headers)
        if call.method == "HEAD":  # which the parser does not know: it waits for a body
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if self.call is not None and self.call.method != "HEAD":
            self._on_octets(data)

    def _on_octets(self, data: bytes) -> None:
        call = self.call
        if call is not None and call.handler is not None and data:
            call.unread += len(data)
            call.handler.data_received(data)
            self.set_reading()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()

    def _finish(self) -> None:
        """The answer is complete; the connection may be used again."""
        call, trailers = self.call, self._headers
        assert call is not None
        keeps_alive = call.is_sent and not self.pending_size and self._keeps_alive
        self.call = None
        self._reset_parser()
        self._since = self.connection.loop.time()
        if not keeps_alive:
            self._is_over = True
            self.pending.clear()
            self.pending_size = 0
        handler, call.handler = call.handler, None
        self.connection.set_reading(True)
        if handler is not None:
            handler.ended(trailers)
        self.connection.flush_soon()
        if keeps_alive and self.connection.on_free is not None:
            self.connection.on_free()

    def _on_switch(self, rest: bytes) -> None:
        if self.call is None or not self.call.upgrade or not self._has_head:
            self._break_off("malformed HTTP response")
            return
        self.is_switched = True
        self.call.is_sent = False
        self._on_octets(rest)

    def _break_off(self, why: str) -> None:
        call, self.call = self.call, None
        self._is_over = True
        if call is not None and call.handler is not None:
            handler, call.handler = call.handler, None
            handler.failed(SendFailed(why))
        self.connection.abort()

    def set_reading(self) -> None:
        call = self.call
        if call is not None:
            window = self.connection.settings.first_window
            limit = window if self.connection.is_reading else window // 2
            self.connection.set_reading(call.unread <= limit)
