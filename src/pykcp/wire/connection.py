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
import contextlib
import logging
import ssl
from time import perf_counter
from typing import Protocol, cast

from pykcp.wire import gathering
from pykcp.wire.handshake_seats import Seat
from pykcp.wire.http1.driver import Http1Driver
from pykcp.wire.http2.driver import Http2Driver
from pykcp.wire.http2.frames import PREFACE
from pykcp.wire.lane import PASS_SECONDS
from pykcp.wire.rate import Progress
from pykcp.wire.request import ConnectionPeer
from pykcp.wire.serving import ConnectionHub
from pykcp.wire.tls import TLSSession

_log = logging.getLogger(__name__)

_SLICE = 16 * 1024
"""Octets taken from a client at a go: some hundreds of small requests."""
_SMALL = 2 * 1024
"""Octets that are looked at when they come, even if the loop is busy."""
_KEPT = 32 * 1024
"""Octets that may wait for their turn before nothing more is read."""
_PAUSE = 0.0005
"""Seconds without input after which the loop has had time for others."""
_LIGHT = 0.01
"""Seconds of work that a client may ask for at once without going through the lane, and"""
_SHARE = 0.05
"""the part of the loop's time that it may have so in the long run."""
_LONGEST_TURN = 0.001
_FIRST_LOAD = _LIGHT * 0.8
"""A new client has less of it: who reconnects all the time gains nothing."""
_CLOSE_GRACE = 10.0
"""Seconds that a client may take nothing of the last octets of a connection."""
_LINGER = 0.5
"""Seconds for which unread input of a client is discarded, so that it can read the response; as in Go."""
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
    def is_quiet(self) -> bool:
        """Whether there is nothing to write and no reason to close."""

    @property
    def has_news(self) -> bool:
        """Whether the last input was more than window updates."""

    @property
    def unsent(self) -> int:
        """Octets of answers that wait."""

    def drop_stalled(self) -> bool:
        """Give up answers of which nothing has been taken since the last such call."""

    def shed(self, size: int) -> None:
        """Give up answers, the longest first, until so many octets are free."""

    @property
    def is_finished(self) -> bool:
        """Whether to close when the output is written."""

    @property
    def has_unread_input(self) -> bool:
        """Whether the client may still be sending input that will not be read."""

    @property
    def idle_since(self) -> float | None:
        """Since when there has been nothing to do; None if there is."""

    def wind_down(self) -> None:
        """Finish what is in progress, take nothing new, then be finished."""

    def connection_lost(self) -> bool:
        """Let go of some of what was in progress; whether there is more of it."""

    def check(self, now: float) -> None:
        """Enforce the time limits."""


class Connection(asyncio.Protocol):
    """A connection from accept to close."""

    def __init__(self, hub: ConnectionHub, context: ssl.SSLContext | None) -> None:
        self.hub = hub
        self.driver: Driver | None = None
        self.is_flush_due = False
        self.is_paused = False
        self.is_closing = False
        self._is_urgent = False
        """The flush that is due does not wait for the lane."""
        self._context = context
        self._tls: TLSSession | None = None
        self._has_begun = False
        """Until then nothing is read: the handshakes of its address come first."""
        self._sniffed = b""
        self._raw = b""
        """What came from the socket and has not been looked at."""
        self._plain = b""
        """What a driver has left over for the next."""
        self._is_in_lane = False
        self._is_lost = False
        self._load = _FIRST_LOAD
        """Seconds for which this client has kept the loop busy, less what it may in the long run."""
        self._load_at = 0.0
        self._is_reading = True
        self._wants_reading = True
        self._is_gathering = False
        """Window updates are left in the socket until some have gathered there."""
        self._lull = (0.0, 0)
        """Since when, and in how many turns, there has been nothing but window updates."""
        self._written = 0
        self._held = 0
        """Octets in the transport's buffer that are on the hub's account."""
        self._progress = Progress()
        self._taken_before = -1
        self._linger_timer: asyncio.TimerHandle | None = None
        self._last_words = (-1, 0.0)
        """How much was left to write of a closing connection, and since when."""

    # -- called by the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so an isinstance would not hold.
        self.transport = transport = cast("asyncio.Transport", transport)
        self.made_at = self.hub.loop.time()
        address = transport.get_extra_info("peername") or ("", 0)
        self.peer = ConnectionPeer(str(address[0]), int(address[1]))
        high = self.hub.settings.socket_buffer
        transport.set_write_buffer_limits(high=high, low=high // 4)
        seat = self.hub.admit(self)
        if seat is Seat.TAKEN:
            self.begin()
        elif seat is Seat.NONE:
            self.abort()
        else:  # uvloop begins to read after this, whatever is said now
            self.hub.loop.call_soon(self._set_reading)

    def begin(self) -> None:
        """Start the handshake."""
        self.made_at = self.hub.loop.time()
        self._has_begun = True
        if self._context is not None:
            self._tls = TLSSession(self._context)
        self._set_reading()
        if self._raw:
            self._join_lane()

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return  # read only so that the last words get through
        if not self._has_begun:
            self._raw += data
            self._set_reading()
            return
        started = perf_counter()
        hub = self.hub
        if not hub.meter.is_awake:
            hub.meter.wake()
        if started - hub.busy_until > _PAUSE:
            hub.busy_since = started
        if self._raw or self._is_in_lane or self._must_wait(started, len(data)):
            self._raw += data
            self._set_reading()
            self._join_lane()
            return
        self._take_in(data)
        self._end_turn(started)

    def _must_wait(self, started: float, size: int) -> bool:
        """Whether what arrives now has to go through the lane."""
        if started - self.hub.busy_since > PASS_SECONDS and (
            size > _SMALL or self._load - (started - self._load_at) * _SHARE > _LIGHT
        ):
            return True
        driver = self.driver
        if driver is None:
            return self._tls is not None
        # A client that does not read its answers is not worked for until it does, nor is a driver
        # fed that has enough: `resume_writing` and `set_reading` come back for it.
        return self.is_paused or not self._wants_reading or driver.is_behind

    def _take_in(self, data: bytes) -> None:
        """Work on what the client sent, but no more of it than fits in a turn."""
        if len(data) > _SLICE:
            self._raw = data[_SLICE:] + self._raw
            data = data[:_SLICE]
        # While this turn's requests are worked on, nothing needs to be flushed.
        self.is_flush_due = self._is_urgent = True
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                self._on_tls_error(error)
                return
            if not self._tls.has_handshaken:
                self.flush()
                return
        if self.driver is None:
            data = self._choose_driver(data)
        driver = self.driver
        if data and driver is not None:
            driver.receive(data)
            if driver.is_quiet and not self.is_paused and not self.is_closing:
                # Mostly window updates of a client with watches: there is nothing to flush.
                self.is_flush_due = self._is_urgent = False
                if not driver.has_news:
                    self._gather()
                if self._tls is None or not self._tls.has_output:
                    return
        self.flush()

    def _gather(self) -> None:
        """Read less often if there is nothing but window updates."""
        now = perf_counter()
        since, turns = self._lull
        if now - since > gathering.SECONDS:
            self._lull = (now, 1)
        elif turns < gathering.TURNS:
            self._lull = (since, turns + 1)
        elif not self._is_gathering:
            self._is_gathering = True
            self.hub.gathering.add(self._end_gathering)
            self._set_reading()

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._set_reading()

    def _end_turn(self, started: float) -> None:
        """Account for the time of a turn, and ask for another one."""
        now = self.hub.busy_until = perf_counter()
        left = self._load - (started - self._load_at) * _SHARE
        # No turn takes longer than this by its own fault; the machine may have others to serve.
        spent = min(now - started, _LONGEST_TURN)
        self._load = (left if left > 0 else 0.0) + spent
        self._load_at = now
        driver = self.driver
        if self._raw or (driver is not None and driver.is_behind):
            self._join_lane()
            self._set_reading()
        elif self._tls is not None and self._tls.is_ended:
            self.close()

    # -- turns in the lane ---------------------------------------------------------------------

    def _join_lane(self) -> None:
        if not self._is_in_lane:
            self._is_in_lane = True
            if self.driver is None and self._tls is not None and not self.is_closing:
                self.hub.handshakes.add(self.peer.address, self._take_handshake_turn)
            else:
                self.hub.lane.add(self)

    def _take_handshake_turn(self) -> None:
        self._is_in_lane = False
        if self.is_closing:
            return
        try:
            self._work()
        except Exception:  # not the trouble of other addresses
            _log.exception("handshake failed")
            self.abort()

    def take_turn(self) -> bool:
        """Work on what had to wait; whether there is more to do at once."""
        if self._is_lost:
            if self.driver is not None and self.driver.connection_lost():
                return True
            self.driver = self._tls = None
            return False
        if self.is_closing:
            self._is_in_lane = False
            return False
        if self._has_input():
            self._work()
            self._is_in_lane = self._has_work()
            return self._is_in_lane
        self._is_in_lane = False  # if there is more than fits, it joins the lane again
        started = perf_counter()
        self.flush()
        self._end_turn(started)
        return False

    def _has_input(self) -> bool:
        """Whether there is more to do than to write what was produced."""
        driver = self.driver
        return driver is None or bool(self._raw or self._plain) or driver.is_behind

    def _work(self) -> None:
        started = perf_counter()
        driver = self.driver
        if driver is None:
            raw, self._raw = self._raw, b""
            self._take_in(raw)
        elif self.is_paused:
            pass
        elif driver.is_behind:
            self.is_flush_due = self._is_urgent = True
            driver.catch_up()
        elif not self._wants_reading:
            pass
        elif self._plain:
            plain, self._plain = self._plain, b""
            driver.receive(plain)
        elif self._raw:
            raw, self._raw = self._raw, b""
            self._take_in(raw)
        if not self.is_closing:
            self.flush()
            self._end_turn(started)
            self._set_reading()

    def _has_work(self) -> bool:
        driver = self.driver
        if self.is_closing or self.is_paused:
            return False
        if driver is None:
            return bool(self._raw)
        if driver.is_behind or driver.has_more:
            return True
        return self._wants_reading and bool(self._raw or self._plain)

    def catch_up_soon(self) -> None:
        """The driver has work that it could do, or output that may wait for others'."""
        if not self.is_closing:
            self._join_lane()

    def feed(self, data: bytes) -> None:
        """Give a driver plain octets that another has left over."""
        self._plain += data
        self.catch_up_soon()

    def eof_received(self) -> bool:
        if self.is_closing:
            self.transport.close()
        else:
            self.close()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        self._raw = self._plain = b""
        self._account(0)
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self.hub.discard(self)
        if self.driver is None:
            return
        if self.driver.connection_lost():
            self._is_lost = True
            if not self._is_in_lane:
                self._is_in_lane = True
                self.hub.lane.add(self)
        else:
            self.driver = self._tls = None  # what they hold need not wait for the garbage collector

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self._account(0)
        self._set_reading()
        self.catch_up_soon()

    def _account(self, held: int) -> None:
        """What the transport holds because the socket does not take it."""
        self.hub.unsent.add(held - self._held)
        self._held = held

    # -- protocol choice -----------------------------------------------------------------------

    def _choose_driver(self, data: bytes) -> bytes:
        """Pick the protocol; what is to be fed to it, which may be nothing yet."""
        if self._tls is not None:
            self.peer.certificate = self._tls.certificate
            if self.peer.certificate is not None:
                self.peer.intermediates = self._tls.intermediates()
            is_http2 = self._tls.protocol == "h2"
        else:
            # Without TLS there is no ALPN, but HTTP/2 has a unique preface.
            data = self._sniffed + data
            self._sniffed = data
            if len(data) < 4 and PREFACE.startswith(data):
                return b""
            is_http2 = data.startswith(PREFACE[:4])
            self._sniffed = b""
        self.hub.greeted(self)
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
        if not self._is_urgent and not self.is_closing:
            self.is_flush_due = self._is_urgent = True
            self.hub.loop.call_soon(self._flush_now)

    def flush_later(self) -> None:
        """Have what was produced written when it is this connection's turn."""
        if not self.is_flush_due and not self.is_closing:
            self.is_flush_due = True
            self._join_lane()

    def _flush_now(self) -> None:
        if self._is_urgent:  # else it has been written meanwhile
            self.flush()

    def flush(self) -> None:
        self.is_flush_due = self._is_urgent = False
        if self.is_closing:
            return
        driver = self.driver
        parts = driver.take_output(not self.is_paused) if driver is not None else []
        data = b"".join(parts)
        if self._tls is not None:
            data = self._tls.send(data) if data else self._tls.take_output()
        if data:
            self._written += len(data)
            self.transport.write(data)
        if driver is not None:
            if driver.is_finished:
                self.close()
            elif driver.has_more and not self.is_paused:
                self._join_lane()
        if self.is_paused:
            self._account(self.transport.get_write_buffer_size())
            self._set_reading()

    def set_reading(self, wanted: bool) -> None:
        """A driver has enough for now, or wants more."""
        if wanted != self._wants_reading:
            self._wants_reading = wanted
            self._set_reading()
            if wanted:
                self.catch_up_soon()

    def _set_reading(self) -> None:
        should = (
            self._has_begun
            and self._wants_reading
            and not self.is_paused
            and not self._is_gathering
            and len(self._raw) <= _KEPT
        )
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
            self.is_paused = self._is_gathering = False
            self._raw = b""
            self._set_reading()
        self.is_closing = True
        if data:
            self.transport.write(data)
        if lingers and self.transport.can_write_eof():
            with contextlib.suppress(OSError):  # the client is gone already
                self.transport.write_eof()
            self._linger_timer = self.hub.loop.call_later(_LINGER, self.transport.close)
        else:
            self.transport.close()

    def abort(self) -> None:
        """Break the connection off; the client cannot take what it has for complete."""
        self.is_closing = True
        self._raw = self._plain = b""
        self.transport.abort()

    def wind_down(self) -> None:
        if self.driver is not None:
            self.driver.wind_down()
        elif self._tls is None or not self._tls.has_handshaken:
            self.close()

    @property
    def owner(self) -> str:
        return self.peer.owner

    @property
    def idle_since(self) -> float | None:
        return self.driver.idle_since if self.driver is not None else self.made_at

    def check(self, now: float) -> None:
        """Enforce the time limits; called now and then by the listener."""
        settings = self.hub.settings
        if self.is_closing:
            self._check_last_words(now)
        elif self._is_read_too_slowly(now):
            self.abort()
        elif self.driver is not None:
            self.driver.check(now)
        elif now - self.made_at > settings.handshake_timeout * (1 if self._has_begun else 2):
            self.abort()

    def _is_read_too_slowly(self, now: float) -> bool:
        settings = self.hub.settings
        waiting = self.transport.get_write_buffer_size()
        return self._progress.is_too_slow(
            now,
            self._written - waiting,
            waiting,
            settings.write_stall_timeout,
            settings.min_read_rate,
        )

    @property
    def unsent(self) -> int:
        """Octets that wait for this client."""
        return self._held + (self.driver.unsent if self.driver is not None else 0)

    def shed(self, size: int) -> None:
        """Give up answers that the client does not take, until so many octets are free."""
        if self.is_closing:
            return
        if self._held >= size or self.driver is None:
            self.abort()
        else:
            self.driver.shed(size)

    def drop_stalled(self) -> bool:
        """Give up answers of which the client has taken nothing since the last such call."""
        if self.is_closing or self.driver is None:
            return False
        taken = self._written - self.transport.get_write_buffer_size()
        is_stalled = self.is_paused and taken == self._taken_before
        self._taken_before = taken
        if is_stalled:
            self.abort()
            return True
        return not self.is_paused and self.driver.drop_stalled()

    def _check_last_words(self, now: float) -> None:
        left = self.transport.get_write_buffer_size()
        if left != self._last_words[0]:
            self._last_words = (left, now)
        elif now - self._last_words[1] > _CLOSE_GRACE:
            self.abort()  # the client does not take them
