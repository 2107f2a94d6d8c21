"""HTTP/1.1 on a connection, parsed by httptools.

Requests are answered one after the other, in the order in which they came.  The
parser cannot be stopped in the middle of what it was fed, so pipelined requests
may pile up: as many as one read brings, then reading pauses until they are
answered.

A request that breaks the rules is put in the queue like any other, with the
answer that it gets in the application's place; the connection closes after it.
"""

from __future__ import annotations

import re
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

import httptools

from pykcp.wire.exchange import Header
from pykcp.wire.heads import Head
from pykcp.wire.http1.exchange import Http1Exchange
from pykcp.wire.http1.head import RequestRejected, http1_head
from pykcp.wire.rate import Progress
from pykcp.wire.request import Request
from pykcp.wire.serving import ConnectionHub, is_body_late

if TYPE_CHECKING:
    from pykcp.wire.connection import Connection
    from pykcp.wire.switched import SwitchedDriver

_TURN_SECONDS = 0.001
"""Seconds of requests per turn; other connections wait in the meantime."""
_PIECE = 4 * 1024
"""Octets of heads or chunks that are parsed at a go."""


_HELD = 64 * 1024
"""Octets kept behind a request that asked for another protocol, while that is undecided."""


_STANDARD_METHODS = frozenset(b"GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE PURGE".split())
_STAND_IN = b"PURGE"
"""A method that the parser knows, in the place of one that it does not."""
_ODD_REQUEST = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,24}) /[^\r\n]* HTTP/1\.[01]\r?\n")
_ODD_BEGINNING = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,24})( [^\r\n]*\r?)?")
"""What may become such a line."""

_SPENT = httptools.HttpRequestParser(object())
"""The parser of a connection that is lost. Its own knows the driver: both, and all that they hold,
would await a garbage collection."""


class Http1Driver:
    """Feeds the parser and keeps the order of answers."""

    protocol = "HTTP/1.1"
    is_quiet = False
    has_news = True
    """Input is a request nearly always, which is answered."""

    def __init__(self, connection: Connection, hub: ConnectionHub) -> None:
        self.connection = connection
        self.hub = hub
        self.pending: deque[bytes | memoryview] = deque()
        self.pending_size = 0
        self.is_draining = False
        self._parser = httptools.HttpRequestParser(self)
        self._target: list[bytes] = []
        self._headers: list[Header] = []
        self._head_size = 0
        self._is_in_head = False
        self._receiving: Http1Exchange | None = None
        """The exchange whose body the parser is in."""
        self._queue: deque[Http1Exchange] = deque()
        """Exchanges not yet answered to the end; the first may be with the application."""
        self.watchers: list[Http1Exchange] = []
        """Exchanges with a callback for when their response has been read by the client."""
        self._is_advancing = False
        self._has_more_due = False
        """Requests could be served for which this turn had no time."""
        self._unfed = b""
        """What came and has not been parsed."""
        self._held: bytes | None = None
        """What came after a request that asked for another protocol, until that is decided."""
        self._is_deaf = False
        """Nothing more is taken from the client: it broke the rules, or we are closing."""
        self._is_over = False
        self._is_rejecting = False
        self._since = hub.loop.time()
        """When the present wait began: for a head, for its end, or for a body."""
        self._has_had_request = False
        self._odd_method = ""
        """The method of the request in progress, if the parser does not know it."""
        self._beginning = b""
        """The first line of a request, until it is complete, if its method is or may be odd."""
        self._sent = 0
        self._progress = Progress()

    # -- what the connection calls -------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self._held is not None:
            self._held += data
            self.connection.set_reading(self._wants_more())
        elif not self._is_deaf:
            self._unfed += data
            self._feed_some()

    @property
    def is_behind(self) -> bool:
        return self._has_more_due or (bool(self._unfed) and self._wants_more())

    def catch_up(self) -> None:
        if self._has_more_due or not self._unfed:
            self.advance()
        else:
            self._feed_some()

    def _feed_some(self) -> None:
        """Parse no more than fits in a turn: heads and chunks may be a few octets each."""
        data, self._unfed = self._unfed, b""
        if len(data) > _PIECE and not self._is_in_plain_body():
            self._unfed = data[_PIECE:]
            if not self._is_in_head and self._receiving is None:
                self._note_odd_method(data)
            data = data[:_PIECE]
        self._feed(data)
        if self._is_deaf:
            self._unfed = b""
        self.advance()

    def _is_in_plain_body(self) -> bool:
        exchange = self._receiving
        return exchange is not None and exchange.request._head.content_length is not None

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        """What is to be written in this turn."""
        if not may_send_bodies or not self.pending_size:
            return []
        pending, out = self.pending, []
        room = min(self.hub.settings.turn_size, self.pending_size)
        self.pending_size -= room
        self._sent += room
        self.hub.unsent.add(-room)
        while room:
            part = pending.popleft()
            if len(part) > room:
                view = memoryview(part)
                pending.appendleft(view[room:])
                part = view[:room]
            out.append(part)
            room -= len(part)
        if self.pending_size <= self.hub.settings.low_water:
            watchers, self.watchers = self.watchers, []
            for exchange in watchers:
                exchange.relieve()
            if self._queue:
                self._queue[0].relieve()
                self.advance()
        return out

    def send(self, *parts: bytes, is_urgent: bool = True) -> None:
        """Queue octets for the client."""
        self.pending.extend(parts)
        size = sum(map(len, parts))
        self.pending_size += size
        self.hub.unsent.add(size)
        if is_urgent:
            self.connection.flush_soon()
        else:
            self.connection.flush_later()

    @property
    def unsent(self) -> int:
        return self.pending_size

    def drop_stalled(self) -> bool:
        return False  # what does not move is in the socket, and the connection sees it

    def shed(self, _size: int) -> None:
        self.connection.abort()

    @property
    def has_more(self) -> bool:
        return bool(self.pending_size)

    @property
    def is_finished(self) -> bool:
        return self._is_over and not self.pending_size

    @property
    def has_unread_input(self) -> bool:
        return self._is_rejecting or self._receiving is not None

    @property
    def idle_since(self) -> float | None:
        return None if self._queue or self._is_in_head else self._since

    def wind_down(self) -> None:
        """Close after the answer in progress."""
        self.is_draining = True
        if not self._queue and not self._is_in_head:
            self._is_over = self._is_deaf = True
            self.connection.flush_soon()

    def connection_lost(self) -> bool:
        self._is_over = self._is_deaf = True
        self._parser = _SPENT
        self.hub.unsent.add(-self.pending_size)
        self.pending_size = 0
        self.pending.clear()
        queue, self._queue = self._queue, deque()
        self._receiving = None  # an unread body: its exchange knows this driver
        for exchange in (*queue, *self.watchers):
            exchange.lost()
        return False

    def check(self, now: float) -> None:
        settings = self.hub.settings
        waited = now - self._since
        if self._is_in_head:
            if waited > settings.header_timeout:
                self._is_in_head = False
                self._reject(RequestRejected(408, "request head not completed in time"))
        elif self._receiving is not None:
            # A body behind another request may be late because we do not read.
            is_next = self._receiving is self._queue[0] and not self._receiving.is_served
            if is_next and is_body_late(waited, self._receiving.received, settings):
                self._reject(RequestRejected(408, "request body not completed in time"))
        elif not self._queue:
            limit = settings.idle_timeout if self._has_had_request else settings.header_timeout
            if waited > limit:
                self.wind_down()
        if self._progress.is_too_slow(
            now, self._sent, self.pending_size, settings.write_stall_timeout, settings.min_read_rate
        ):
            self.connection.abort()
        else:
            self.advance()

    # -- parsing -------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        if self._beginning or (not self._is_in_head and self._receiving is None):
            self._since = self.hub.loop.time()
            data, self._beginning = self._beginning + data, b""
            self._is_in_head = _is_odd_beginning(data)
            if self._is_in_head:
                self._beginning = data
                return
            self._note_odd_method(data)
            if self._odd_method:
                data = _STAND_IN + data[len(self._odd_method) :]
        try:
            self._parser.feed_data(data)
            if self._is_in_head:  # the parser keeps an unfinished field to itself
                self._count_head(len(data))
        except httptools.HttpParserUpgrade as upgrade:
            self._held = data[upgrade.args[0] :]
            self._parser = httptools.HttpRequestParser(self)
        except RequestRejected as rejected:
            self._reject(rejected)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, RequestRejected):
                raise
            self._reject(error.__context__)
        except httptools.HttpParserInvalidMethodError:
            if self._has_had_request:
                self._reject(RequestRejected(400, "malformed request"))
            else:  # what does not even begin like HTTP gets no answer in HTTP
                self._is_over = self._is_deaf = True
        except httptools.HttpParserError:
            self._reject(RequestRejected(400, "malformed request"))

    def _note_odd_method(self, data: bytes) -> None:
        """A request with an unknown method is passed to the application, which rejects it."""
        odd = _ODD_REQUEST.match(data)
        if odd is not None and odd[1] not in _STANDARD_METHODS:
            self._odd_method = odd[1].decode()

    def on_message_begin(self) -> None:
        self._target = []
        self._headers = []
        self._head_size = 0
        self._is_in_head = True

    def on_url(self, url: bytes) -> None:
        self._target.append(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are counted and thrown away
            self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1").strip()))
            if len(self._headers) > self.hub.settings.max_header_fields:
                raise RequestRejected(431, "too many header fields")
        self._count_head(len(name) + len(value) + 32)

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self.hub.settings.max_header_list_size:
            raise RequestRejected(431, "header fields too large")

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._has_had_request = True
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise RequestRejected(505, "unsupported protocol version")
        method = self._odd_method or parser.get_method().decode("latin-1")
        self._odd_method = ""
        head = http1_head(method, b"".join(self._target).decode("latin-1"), self._headers, version)
        exchange = Http1Exchange(self, Request(head, self.connection.peer), version)
        exchange.keeps_alive = parser.should_keep_alive()
        self._receiving = exchange
        self._queue.append(exchange)
        if head.content_length or head.first("transfer-encoding") is not None:
            exchange.await_body()

    def on_body(self, data: bytes) -> None:
        exchange = self._receiving
        if exchange is not None and not exchange.receive(data):
            raise RequestRejected(503, "too many request bodies in progress")

    def on_message_complete(self) -> None:
        exchange, self._receiving = self._receiving, None
        if exchange is not None:
            exchange.body_ended()

    def _reject(self, rejected: RequestRejected) -> None:
        """Answer in the application's place, after what came before, and close."""
        self._is_deaf = self._is_rejecting = True
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            request = Request(Head("GET", "/", []), self.connection.peer)
            exchange = Http1Exchange(self, request, "1.1")
            self._queue.append(exchange)
        elif exchange.is_served:
            self.connection.abort()  # in the middle of a body that a handler is reading
            return
        exchange.discard_body()
        exchange.is_complete = True
        exchange.keeps_alive = False
        exchange.rejection = (rejected.status, f"{rejected.status} {rejected.reason}\n".encode())

    # -- the order of answers ------------------------------------------------------------------

    def advance(self) -> None:
        """Give the next request to the application when its turn has come."""
        if self._is_advancing:
            return
        self._is_advancing = True
        self._has_more_due = False
        end = 0.0
        try:
            while self._queue and not self._is_over:
                exchange = self._queue[0]
                if not exchange.is_served:
                    if not exchange.is_due or self.pending_size > self.hub.settings.turn_size:
                        break
                    if not end:
                        end = perf_counter() + _TURN_SECONDS
                    elif perf_counter() > end:
                        self._has_more_due = True
                        break
                    exchange.serve()
                if not exchange.is_answered:
                    break
                self._queue.popleft()
                self._after(exchange)
        finally:
            self._is_advancing = False
        if self._has_more_due:
            self.connection.catch_up_soon()
        self.connection.set_reading(self._wants_more())

    def _wants_more(self) -> bool:
        if len(self._queue) > 1 or (self._held is not None and len(self._held) > _HELD):
            return False
        if self._receiving is not None and self._receiving.is_being_identified:
            return False
        reader = self._queue[0].request.reader if self._queue else None
        return reader is None or reader.size <= self.hub.settings.stream_window

    def _after(self, exchange: Http1Exchange) -> None:
        self._since = self.hub.loop.time()
        if not exchange.keeps_alive or not exchange.is_complete or self.is_draining:
            self._is_over = self._is_deaf = True
            self.connection.flush_soon()
        elif self._held is not None:
            held, self._held = self._held, None
            self._feed(held)

    def switch_to(self, driver: SwitchedDriver) -> None:
        """Another protocol is spoken on the connection from now on."""
        held, self._held = (self._held or b"") + self._unfed, None
        self._unfed = b""
        driver.take_over(self.pending, self.pending_size)  # with what is on the hub's account
        self.pending = deque()
        self.pending_size = 0
        self._queue.clear()
        self._is_over = self._is_deaf = True
        self.connection.driver = driver
        self.connection.set_reading(True)
        if held:
            self.hub.loop.call_soon(self.connection.feed, held)


def _is_odd_beginning(data: bytes) -> bool:
    """Whether the rest of the first line has to be seen before the parser may see any of it."""
    found = _ODD_BEGINNING.fullmatch(data) if len(data) <= _PIECE else None
    return found is not None and (found[2] is None or found[1] not in _STANDARD_METHODS)
