"""Requests to one server: `await client.request("GET", "/version")`.

Connections open with the first request. HTTP/2 carries many requests on one; another one opens
when the server allows no more on it, and one that the server takes away (GOAWAY) is replaced.
With HTTP/1.1 each request under way has a connection of its own. Servers are always verified:
`Server.trust` says how.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Self

from pykcp.aio.pacing import ReadingPace
from pykcp.aio.timers import call_later
from pykcp.clients.errors import SendFailed, TimedOut
from pykcp.clients.http.connection import ClientConnection, ProtocolSession, dial
from pykcp.clients.http.http2 import Http2Session
from pykcp.clients.http.interface import ClientSession, OutgoingRequest, Server
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.http.trust import HTTP1, HTTP2, Protocols
from pykcp.wire.exchange import Header
from pykcp.wire.settings import ClientSettings

_TRIES = 3
_CHECK_SECONDS = 5.0
"""Between two looks at the time limits of connections, at most."""
_TICK = 0.005
"""Seconds by which a timer may be early: it is set that much later."""
_REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS"))


def may_repeat(error: SendFailed, method: str, is_reused: bool) -> bool:
    """Whether a request without an answer may be sent again.

    `is_reused`: on a connection that had carried others, which the server may have closed.
    """
    return error.is_unprocessed or (error.is_lost and is_reused and method in _REPEATABLE)


class HttpClient:
    """The connections to one server; `close` them at the end."""

    def __init__(
        self, server: Server, settings: ClientSettings | None = None, tenant: str | None = None
    ) -> None:
        """`tenant`: who chose the server, for one that may send without end."""
        self.server, self._tenant = server, tenant
        self._settings = settings or ClientSettings()
        self._check_seconds = min(_CHECK_SECONDS, self._settings.ping_after)
        self._connections: dict[ClientConnection, None] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._dialling = 0
        self._is_http1 = False
        """The server does not speak HTTP/2: requests do not share connections."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.opened = 0
        """How many connections were opened: another one may lead to another server."""

    # -- for callers that await ----------------------------------------------------------------

    async def request(
        self,
        method: str,
        target: str,
        headers: Sequence[Header] = (),
        body: bytes | AsyncIterator[bytes] = b"",
    ) -> HttpResponse:
        """Send a request; its answer as soon as the head is there. Raises SendFailed.

        A body that comes piece by piece is sent to its end before the answer is returned, unless
        the answer comes earlier. What the server has not acted upon is sent again, if it can be.
        """
        whole = body if isinstance(body, bytes) else None
        request = OutgoingRequest(method, target, headers, whole)
        for attempt in range(_TRIES):
            session = await self.session()
            is_reused = session.is_reused
            response = HttpResponse(None if self._tenant is None else ReadingPace(self._tenant))
            response.stream = session.start(request, response)
            try:
                if not isinstance(body, bytes):
                    await response.send(body)
                await response.wait_for_head()
            except SendFailed as error:
                is_safe = whole is not None and may_repeat(error, method, is_reused)
                if not is_safe or attempt == _TRIES - 1:
                    raise
            except asyncio.CancelledError:
                response.close()
                raise
            else:
                return response
        raise AssertionError

    # -- for callers that live with callbacks --------------------------------------------------

    def ready(self) -> ClientSession | None:
        """A connection on which another request fits at once."""
        for connection in self._connections:
            session = connection.session
            if session is not None and session.has_room:
                return session
        return None

    async def session(self) -> ClientSession:
        """A connection on which a request fits: start one before you await anything else.

        Raises SendFailed.
        """
        while True:
            if self._is_closed:
                raise SendFailed("the client is closed")
            found = self.ready()
            if found is not None:
                return found
            is_full = len(self._connections) + self._dialling >= self._settings.max_connections
            if is_full or (self._dialling and not self._is_http1):
                await self._wait()
            else:
                await self._open()

    async def own_session(self) -> ClientSession:
        """A new HTTP/1.1 connection for one request: to switch to another protocol."""
        connection = await self._dial(HTTP1)
        assert connection.session is not None
        return connection.session

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    async def _open(self) -> None:
        """Dial; who waits for a connection meanwhile shares the outcome."""
        self._dialling += 1
        try:
            await self._dial(HTTP2)
        except SendFailed as error:
            self._dialling -= 1
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.done():
                    waiter.set_exception(SendFailed(str(error)))
            raise
        except BaseException:
            self._dialling -= 1
            self._wake()  # another waiter has to connect
            raise
        self._dialling -= 1
        self._wake()

    async def _dial(self, protocols: Protocols) -> ClientConnection:
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                connection = await dial(lambda: self._make(protocols), self.server)
        except TimeoutError:
            raise TimedOut from None
        if connection.is_closing or self._is_closed:
            connection.abort()
            raise SendFailed("EOF")
        self._connections[connection] = None
        self.opened += 1
        connection.on_lost = lambda: self._forget(connection)
        connection.on_free = self._on_free
        if self._timer is None:
            self._timer = call_later(self._check_seconds, self._check)
        return connection

    def _make(self, protocols: Protocols) -> ClientConnection:
        return ClientConnection(self.server, self._settings, self._make_session, protocols)

    def _make_session(self, connection: ClientConnection, protocol: str) -> ProtocolSession:
        if protocol == "h2":
            self._is_http1 = False
            return Http2Session(connection, self.server)
        from pykcp.clients.http.http1 import Http1Session

        self._is_http1 = True
        return Http1Session(connection, self.server)

    def _forget(self, connection: ClientConnection) -> None:
        self._connections.pop(connection, None)
        self._wake()

    def _on_free(self) -> None:
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)

    # -- time limits and the end ---------------------------------------------------------------

    def _check(self) -> None:
        """One timer for all connections; none runs without them."""
        self._timer = None
        loop = asyncio.get_running_loop()
        trust = self.server.trust
        generation = 0 if trust is None else trust.generation
        pause = self._check_seconds
        for connection in [*self._connections]:
            if connection.session is not None:
                pause = min(pause, connection.session.check(loop.time()))
                if connection.generation != generation:
                    # It showed a certificate that has been replaced since, which will expire.
                    connection.session.wind_down()
        if self._connections:
            self._timer = call_later(max(0.0, pause) + _TICK, self._check)

    @property
    def is_idle(self) -> bool:
        """Whether no connection is being opened and no request waits."""
        return not (self._dialling or self._waiting) and all(
            connection.session is None or connection.session.is_idle
            for connection in self._connections
        )

    def close(self) -> None:
        """Break off what is under way."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in [*self._connections]:
            connection.abort()
        self._wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
