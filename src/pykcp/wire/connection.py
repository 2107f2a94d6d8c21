"""One client's connection: a socket, perhaps TLS, and the driver of the protocol spoken.

Everything that one turn of the loop produces on a connection leaves in one
write: handlers that answer at once are covered by the flush at the end of
`data_received`, everything else by the one `flush_soon` scheduled.

Back pressure: when the socket does not take what it is given, bodies stay on
their streams (where their owners see the backlog), and if the client goes on
asking all the same, nothing more is read from it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Protocol, cast

from pykcp.wire.frames import PREFACE
from pykcp.wire.http1 import Http1Driver
from pykcp.wire.http2_driver import Http2Driver
from pykcp.wire.request import Peer
from pykcp.wire.serving import Hub
from pykcp.wire.tls import TLSSession

_log = logging.getLogger(__name__)

_SLICE = 32 * 1024
"""Octets taken from a client at a go: some hundreds of small requests."""
_CLOSE_GRACE = 10.0
"""Seconds that a client may take nothing of the last octets of a connection."""
_LINGER = 0.5
"""Seconds in which a client may go on sending what nobody wants, to read its answer; as in Go."""
_NO_TLS_ANSWER = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)
"""Word for word what Go's servers say: people search for it."""


class Driver(Protocol):
    """A protocol on a connection."""

    protocol: str

    def receive(self, data: bytes) -> None: ...

    @property
    def is_behind(self) -> bool:
        """Whether `receive` left work for another turn: call `catch_up` then."""

    def catch_up(self) -> None: ...

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]:
        """What is to be written in this turn."""

    @property
    def has_more(self) -> bool:
        """Whether another turn could write more at once."""

    @property
    def is_finished(self) -> bool:
        """Whether to close when the output is written."""

    @property
    def has_unread_input(self) -> bool:
        """Whether the client may still be sending what nobody will read."""

    @property
    def idle_since(self) -> float | None:
        """Since when there has been nothing to do; None if there is."""

    def wind_down(self) -> None:
        """Finish what is in progress, take nothing new, then be finished."""

    def connection_lost(self) -> None: ...

    def check(self, now: float) -> None:
        """Enforce the time limits."""


class Connection(asyncio.Protocol):
    """A connection from accept to close."""

    def __init__(self, hub: Hub, context: ssl.SSLContext | None) -> None:
        self.hub = hub
        self.driver: Driver | None = None
        self.is_flush_due = False
        self.is_paused = False
        self.is_closing = False
        self._tls = TLSSession(context) if context is not None else None
        self._sniffed = b""
        self._inbox = b""
        """What the client sent and this turn had no time for."""
        self._is_behind = False
        self._is_reading = True
        self._wants_reading = True
        self._paused_since = 0.0
        self._linger_timer: asyncio.TimerHandle | None = None
        self._last_words = (-1, 0.0)
        """How much was left to write of a closing connection, and since when."""

    # -- called by the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so an isinstance would not hold.
        self.transport = transport = cast("asyncio.Transport", transport)
        self.made_at = self.hub.loop.time()
        address = transport.get_extra_info("peername") or ("", 0)
        self.peer = Peer(str(address[0]), int(address[1]))
        high = self.hub.settings.socket_buffer
        transport.set_write_buffer_limits(high=high, low=high // 4)
        self.hub.admit(self)

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return  # read only so that the last words get through
        if not self.hub.meter.is_awake:
            self.hub.meter.wake()
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                self._on_tls_error(error)
                return
            if not self._tls.has_handshaken:
                self.flush()
                return
        if self._inbox:
            self._inbox += data
        else:
            self._take_in(data)
        if self._tls is not None and self._tls.is_ended:
            self.close()

    def _take_in(self, data: bytes) -> None:
        """Work on what the client sent, but no more of it than fits in a turn."""
        if len(data) > _SLICE:
            self._inbox = data[_SLICE:]
            data = data[:_SLICE]
        # While this turn's requests are worked on, `flush_soon` need not do anything.
        self.is_flush_due = True
        if self.driver is None:
            data = self._choose_driver(data)
        if data and self.driver is not None:
            self.driver.receive(data)
        self._end_turn()

    def _end_turn(self) -> None:
        self.flush()
        if self._inbox or (self.driver is not None and self.driver.is_behind):
            self.catch_up_soon()

    def catch_up_soon(self) -> None:
        """Go on in the next turn; until then nothing more is read."""
        if not self._is_behind:
            self._is_behind = True
            self._set_reading()
            self.hub.loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        driver = self.driver
        if not self._is_behind or self.is_closing or driver is None:
            return
        # A client that does not read its answers is not worked for until it does, nor is a driver
        # fed that has enough: `resume_writing` and `set_reading` come back here.
        if self.is_paused or not (driver.is_behind or self._wants_reading):
            return
        self._is_behind = False
        self.is_flush_due = True
        if driver.is_behind:
            driver.catch_up()
            self._end_turn()
        else:
            data, self._inbox = self._inbox, b""
            self._take_in(data)
        self._set_reading()

    def feed(self, data: bytes) -> None:
        """Give a driver plain octets that another has left over."""
        self._inbox = data + self._inbox
        self.catch_up_soon()

    def eof_received(self) -> bool:
        if self.is_closing:
            self.transport.close()
        else:
            self.close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self.hub.discard(self)
        if self.driver is not None:
            self.driver.connection_lost()

    def pause_writing(self) -> None:
        self.is_paused = True
        self._paused_since = self.hub.loop.time()

    def resume_writing(self) -> None:
        self.is_paused = False
        self._set_reading()
        self.flush_soon()
        if self._is_behind:
            self.hub.loop.call_soon(self._catch_up)

    # -- protocol choice -----------------------------------------------------------------------

    def _choose_driver(self, data: bytes) -> bytes:
        """Pick the protocol; what is to be fed to it, which may be nothing yet."""
        if self._tls is not None:
            self.peer.certificate = self._tls.certificate
            if self.peer.certificate is not None:
                self.peer.intermediates = self._tls.intermediates()
            is_http2 = self._tls.protocol == "h2"
        else:
            # Without TLS nobody says what is spoken, but HTTP/2 begins like nothing else.
            data = self._sniffed + data
            self._sniffed = data
            if len(data) < 4 and PREFACE.startswith(data):
                return b""
            is_http2 = data.startswith(PREFACE[:4])
            self._sniffed = b""
        self.driver = (Http2Driver if is_http2 else Http1Driver)(self, self.hub)
        self.peer.protocol = self.driver.protocol
        if self.hub.is_draining:
            self.driver.wind_down()
        return data

    def _on_tls_error(self, error: ssl.SSLError) -> None:
        _log.debug("TLS with %s failed: %s", self.peer.address, error)
        assert self._tls is not None
        is_http = error.reason == "HTTP_REQUEST" and not self._tls.has_handshaken
        self._close_after(_NO_TLS_ANSWER if is_http else self._tls.take_output())

    # -- output --------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Have what was produced written at the end of this turn of the loop."""
        if not self.is_flush_due and not self.is_closing:
            self.is_flush_due = True
            self.hub.loop.call_soon(self.flush)

    def flush(self) -> None:
        self.is_flush_due = False
        if self.is_closing:
            return
        driver = self.driver
        parts = driver.take_output(not self.is_paused) if driver is not None else []
        data = b"".join(parts)
        if self._tls is not None:
            data = self._tls.send(data) if data else self._tls.take_output()
        if data:
            self.transport.write(data)
        if driver is not None:
            if driver.is_finished:
                self.close()
            elif driver.has_more and not self.is_paused:
                self.flush_soon()
        if self.is_paused:
            self._set_reading()

    def set_reading(self, wanted: bool) -> None:
        """A driver has enough for now, or wants more."""
        if wanted != self._wants_reading:
            self._wants_reading = wanted
            self._set_reading()
            if self._is_behind:
                self.hub.loop.call_soon(self._catch_up)

    def _set_reading(self) -> None:
        should = self._wants_reading and not self.is_paused and not self._is_behind
        if should == self._is_reading or self.is_closing:
            return
        self._is_reading = should
        if should:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # -- ends ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what has been produced, say goodbye, close."""
        if self.is_closing:
            return
        driver = self.driver
        parts = driver.take_output(not self.is_paused) if driver is not None else []
        data = b"".join(parts)
        if self._tls is not None:
            data = self._tls.send(data) if data else b""
            data += self._tls.close()
        self._close_after(data, lingers=driver is not None and driver.has_unread_input)

    def _close_after(self, data: bytes, lingers: bool = False) -> None:
        if lingers:
            # Closing with octets unread would reset the connection and destroy the answer on its
            # way, so only our half is closed for a moment.
            self._wants_reading = True
            self.is_paused = self._is_behind = False
            self._set_reading()
        self.is_closing = True
        if data:
            self.transport.write(data)
        if lingers and self.transport.can_write_eof():
            self.transport.write_eof()
            self._linger_timer = self.hub.loop.call_later(_LINGER, self.transport.close)
        else:
            self.transport.close()

    def abort(self) -> None:
        """Break the connection off; the client cannot take what it has for complete."""
        self.is_closing = True
        self.transport.abort()

    def wind_down(self) -> None:
        if self.driver is not None:
            self.driver.wind_down()
        elif self._tls is None or not self._tls.has_handshaken:
            self.close()

    @property
    def idle_since(self) -> float | None:
        return self.driver.idle_since if self.driver is not None else self.made_at

    def check(self, now: float) -> None:
        """Enforce the time limits; called now and then by the listener."""
        settings = self.hub.settings
        if self.is_closing:
            self._check_last_words(now)
        elif self.is_paused and now - self._paused_since > settings.write_stall_timeout:
            self.abort()
        elif self.driver is not None:
            self.driver.check(now)
        elif now - self.made_at > settings.handshake_timeout:
            self.abort()

    def _check_last_words(self, now: float) -> None:
        left = self.transport.get_write_buffer_size()
        if left != self._last_words[0]:
            self._last_words = (left, now)
        elif now - self._last_words[1] > _CLOSE_GRACE:
            self.abort()  # the client does not take them
