"""One connection to a server: a socket, perhaps TLS, and the session of the protocol spoken.

Everything that one turn of the loop produces leaves in one write. When the socket does not take
what it is given, request bodies stay on their streams, where their senders see the backlog.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from pykcp.clients.errors import LostConnection, SendFailed, dial_problem, tls_problem
from pykcp.clients.http.interface import ClientSession, Server
from pykcp.clients.http.trust import HTTP2, Protocols
from pykcp.wire.settings import ClientSettings
from pykcp.wire.tls import TLSSession

_log = logging.getLogger(__name__)


class ProtocolSession(ClientSession, Protocol):
    """What a connection needs of either protocol's session."""

    slice_size: int
    """Octets taken from a server at a go."""

    def receive(self, data: bytes) -> None:
        """Take plain octets of the server."""

    @property
    def is_behind(self) -> bool:
        """Whether `receive` left work for another turn: call it again with nothing."""

    def take_output(self, may_send_bodies: bool) -> list[bytes | memoryview]: ...

    @property
    def has_more(self) -> bool:
        """Whether another turn could write more at once."""

    @property
    def is_finished(self) -> bool:
        """Whether to close when the output is written."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""

    def wind_down(self) -> None:
        """Finish what is under way, take nothing new."""

    def lost(self, error: SendFailed, is_clean: bool) -> None:
        """The connection is gone. `is_clean`: the server said that it was done sending."""

    def check(self, now: float) -> float:
        """Enforce time limits; seconds after which there may be something to do again."""


MakeSession = Callable[["ClientConnection", str], ProtocolSession]
"""Given the protocol that TLS agreed on, or ""."""


class ClientConnection(asyncio.Protocol):
    """A connection from dialling to its end."""

    def __init__(
        self,
        server: Server,
        settings: ClientSettings,
        make_session: MakeSession,
        protocols: Protocols = HTTP2,
    ) -> None:
        """May raise OSError: the files of the server's `trust`."""
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self._make_session = make_session
        # Without TLS there is nothing to agree on: both sides have to know.
        self._known_protocol = "h2" if server.connect is not None and protocols is HTTP2 else ""
        self._tls: TLSSession | None = None
        self.generation = 0
        """Of the certificates that it was opened with."""
        if server.trust is not None:
            context = server.trust.context(protocols)
            self.generation = server.trust.generation
            self._tls = TLSSession(context, server.server_name or server.host)
        self.session: ProtocolSession | None = None
        self.opened: asyncio.Future[None] = self.loop.create_future()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set when made
        self.is_paused = False
        self.is_closing = False
        self.last_heard = self.loop.time()
        self.on_lost: Callable[[], None] | None = None
        self.on_free: Callable[[], None] | None = None
        """A request has ended: another fits."""
        self._is_flush_due = False
        self.is_reading = True
        """Whether the reader of the answer wants more."""
        self._is_resumed = True
        self._plain: deque[bytes] = deque()
        """What came and has to wait for its turn; nothing more is read until then."""
        self._is_catching_up = False

    # -- called by the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's, so an isinstance would not hold.
        self.transport = cast("asyncio.Transport", transport)
        high = self.settings.socket_buffer
        self.transport.set_write_buffer_limits(high=high, low=high // 4)
        if self._tls is None:
            self._open(self._known_protocol)
        else:
            self.transport.write(self._tls.start())

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        self.last_heard = self.loop.time()
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except ssl.SSLError as error:
                self._on_tls_error(error)
                return
            if not self._tls.has_handshaken:
                self.transport.write(self._tls.take_output())
                return
            if self.session is None:
                self._open(self._tls.protocol or "")
        self._take_in(data)
        self._close_if_ended()

    def _open(self, protocol: str) -> None:
        self.session = self._make_session(self, protocol)
        if not self.opened.done():
            self.opened.set_result(None)
        self.flush_soon()

    def _take_in(self, data: bytes) -> None:
        session = self.session
        assert session is not None
        if self._plain or self._is_catching_up:
            self._plain.append(data)
            self._update_reading()
            return
        self._take_slice(session, data)

    def _take_slice(self, session: ProtocolSession, data: bytes) -> None:
        size = session.slice_size
        if len(data) > size:
            rest = [data[start : start + size] for start in range(size, len(data), size)]
            self._plain.extendleft(reversed(rest))
            data = data[:size]
        self._is_flush_due = True  # while this turn is worked on, nothing else needs to flush
        self._work(session, data)
        if self.is_closing:
            return
        if self._plain or session.is_behind:
            self._catch_up_soon()
        self._update_reading()

    def _work(self, session: ProtocolSession, data: bytes) -> None:
        try:
            session.receive(data)
            self.flush()
        except Exception:  # of a handler: the other requests must not wait for ever
            _log.exception("work of a connection failed")
            self.abort()

    def _catch_up_soon(self) -> None:
        if not self._is_catching_up:
            self._is_catching_up = True
            self.loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._is_catching_up = False
        session = self.session
        if session is None or self.is_closing:
            return
        if session.is_behind:
            self._is_flush_due = True
            self._work(session, b"")
            self._catch_up_soon()
        elif self._plain and self.is_reading:
            self._take_slice(session, self._plain.popleft())
            self._close_if_ended()

    def _close_if_ended(self) -> None:
        """The server has said goodbye; what it said before comes first."""
        is_ended = self._tls is not None and self._tls.is_ended
        if is_ended and not self._plain and not self.is_closing:
            self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self.flush_soon()

    # -- output --------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Have what was produced written at the end of this turn of the loop."""
        if not self._is_flush_due and not self.is_closing:
            self._is_flush_due = True
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        self._is_flush_due = False
        session = self.session
        if self.is_closing or session is None:
            return
        data = b"".join(session.take_output(not self.is_paused))
        if self._tls is not None:
            data = self._tls.send(data) if data else self._tls.take_output()
        if data:
            self.transport.write(data)
        if session.is_finished:
            self.close()
        elif session.has_more and not self.is_paused:
            self.flush_soon()

    def set_reading(self, wanted: bool) -> None:
        """HTTP/1.1 has no windows: nothing more is read while its reader is behind."""
        if wanted == self.is_reading or self.is_closing:
            return
        self.is_reading = wanted
        if wanted and self._plain:
            self._catch_up_soon()
        self._update_reading()

    def _update_reading(self) -> None:
        """Read from the socket only while what came is worked on at once: a server may send faster
        than that, without end."""
        wanted = self.is_reading and not self._plain
        if wanted == self._is_resumed or self.is_closing:
            return
        self._is_resumed = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # -- ends ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what has been produced, say goodbye, close."""
        if self.is_closing:
            return
        if self.session is not None:
            data = b"".join(self.session.take_output(not self.is_paused))
            if self._tls is not None:
                data = (self._tls.send(data) if data else b"") + self._tls.close()
            if data:
                self.transport.write(data)
        self.is_closing = True
        self.transport.close()
        self._end(None)

    def abort(self) -> None:
        """Break the connection off: a goodbye could take as long as the other side likes."""
        self.is_closing = True
        if self.transport is not None:
            self.transport.abort()
        self._end(None)

    def _on_tls_error(self, error: ssl.SSLError) -> None:
        assert self._tls is not None
        if not self.opened.done():
            self.opened.set_exception(error.with_traceback(None))  # its frames hold this object
        self.transport.write(self._tls.take_output())  # the alert
        self.is_closing = True
        self.transport.close()
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.is_closing = True
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionResetError("EOF"))
        session, self.session = self.session, None
        is_clean = self._tls.is_ended if self._tls is not None else error is None
        self._tls = None
        self._plain.clear()
        if session is not None:
            session.lost(_failure(error), is_clean)
        if self.on_lost is not None:
            on_lost, self.on_lost = self.on_lost, None
            on_lost()


def _failure(error: Exception | None) -> SendFailed:
    if isinstance(error, ssl.SSLError):
        return LostConnection(tls_problem(error))
    if error is not None:
        return LostConnection("read: connection reset by peer")
    return LostConnection("EOF")


def _same(connection: ClientConnection) -> ClientConnection:
    return connection


async def dial(connection: Callable[[], ClientConnection], server: Server) -> ClientConnection:
    """Connect to one of the server's addresses and finish the handshake. Raises SendFailed."""
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for address in server.addresses or (server.host,):
        made = connection()
        try:
            if server.connect is not None:
                await loop.create_unix_connection(partial(_same, made), sock=server.connect())
            else:
                await loop.create_connection(partial(_same, made), address, server.port)
            await made.opened
        except OSError as error:  # ssl.SSLError is one
            # With its frames, this one among them, it would keep the connection in a cycle.
            failure = error.with_traceback(None)
        except asyncio.CancelledError:
            made.opened.cancel()
            made.abort()
            raise
        else:
            return made
        made.opened.cancel()
        if isinstance(failure, ssl.SSLError):
            break  # another address of the same server would say the same
    assert failure is not None
    raise SendFailed(dial_problem(failure, server.host, server.port)) from failure
