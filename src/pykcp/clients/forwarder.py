"""A request that another server answers: sent on, and its answer back as it comes.

`Forwarder` is the one way to do this. Its caller says, every time, where the request goes and
with which headers; when it is made, over which connections and whom they trust.

Both bodies are passed on window for window: no more is taken from one side than the other takes,
so a slow client or a slow server costs one window of memory each way. If the client goes, so
does the request; if the server goes in the middle of its answer, the answer is broken off.
Other protocols (WebSocket, SPDY) are passed on octet by octet after the switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from pykcp.caching import BoundedCache
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient, may_repeat
from pykcp.clients.http.interface import OutgoingRequest, Server, end_to_end
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.clients.relay import ForwardLimits, GoOn, Relay, RelayObserver
from pykcp.wire.exchange import Exchange, Header, Stream

_TRIES = 3
_ORIGINS = 256
"""Servers whose URLs are parsed once."""
_PORTS = {"https": 443, "http": 80}
_NOT_PASSED = frozenset(("content-length", "expect"))
"""What is said anew to the next server, or was answered here."""


class Connections(Protocol):
    """A connector: `Direct`, or `Outbound` for addresses chosen by tenants."""

    def borrow(self, server: Server, tenant: Tenant) -> AbstractAsyncContextManager[HttpClient]:
        """The client of a server, for as long as a request takes. Raises SendFailed."""

    def ready(self, server: Server) -> HttpClient | None:
        """The client of a server, if nothing has to be checked or waited for."""


class Onward(NamedTuple):
    """Where a request goes from here, and what it says."""

    url: str
    headers: Sequence[Header]
    tenant: Tenant
    """Who chose the server."""
    observer: RelayObserver | None = None


class Forwarder:
    def __init__(
        self,
        connections: Connections,
        trust: Trust,
        limits: ForwardLimits | None = None,
        server_name: str = "",
    ) -> None:
        """`server_name`: in the servers' certificates, if it is not the host of their URLs."""
        self._connections, self._trust, self._server_name = connections, trust, server_name
        self._limits = limits or ForwardLimits()
        self._servers: BoundedCache[str, Server] = BoundedCache("", _ORIGINS)

    async def forward(
        self, exchange: Exchange, onward: Onward, failed: SendFailed | None = None
    ) -> None:
        """Send a request on and its answer back, to its end.

        `failed`: why it has no answer although it was sent before (`start`). It is sent again only
        if that cannot do anything twice.

        Raises SendFailed if there is no answer at all; a failure later breaks the answer off.
        """
        if failed is not None and not may_repeat(failed, exchange.request.method, is_reused=True):
            raise failed
        server, target = self._server(onward.url)
        request = _outgoing(exchange, target, onward.headers)
        async with self._connections.borrow(server, onward.tenant) as client:
            for attempt in range(_TRIES):
                session = await (client.own_session() if request.upgrade else client.session())
                is_reused = session.is_reused
                relay = Relay(exchange, self._limits, observer=onward.observer)
                try:
                    await relay.run(session, request)
                except SendFailed as error:
                    can_repeat = request.body is not None and may_repeat(
                        error, request.method, is_reused
                    )
                    if not can_repeat or attempt == _TRIES - 1 or exchange.responded:
                        raise
                else:
                    return

    async def resume(self, exchange: Exchange, onward: Onward, stream: Stream) -> None:
        """Continue an answer, of which everything so far was sent, with that of another server.

        Raises SendFailed if there is none, or not of status 200.
        """
        server, target = self._server(onward.url)
        request = _outgoing(exchange, target, onward.headers)
        async with self._connections.borrow(server, onward.tenant) as client:
            session = await client.session()
            relay = Relay(exchange, self._limits, observer=onward.observer, continued=stream)
            await relay.run(session, request)

    async def fetch(self, onward: Onward) -> HttpResponse:
        """The answer to a GET, for callers that read it themselves. Raises SendFailed."""
        server, target = self._server(onward.url)
        async with self._connections.borrow(server, onward.tenant) as client:
            return await client.request("GET", target, onward.headers)

    def start(
        self,
        exchange: Exchange,
        onward: Onward,
        go_on: GoOn,
    ) -> bool:
        """The same without a task, if a connection is ready for it now; False otherwise.

        `go_on` makes what is to be run if that fails before an answer begins: it calls `forward`
        with the failure.
        """
        server, target = self._server(onward.url)
        client = self._connections.ready(server)
        session = client.ready() if client is not None else None
        if session is None or exchange.wanted_protocol or exchange.request.is_streaming:
            return False
        relay = Relay(exchange, self._limits, go_on, onward.observer)
        try:
            relay.start(session, _outgoing(exchange, target, onward.headers))
        except ValueError as error:
            raise SendFailed(str(error)) from error
        exchange.defer(relay.cancel)
        return True

    def _server(self, url: str) -> tuple[Server, str]:
        """The server of a URL, and what to ask of it. Raises SendFailed."""
        at = url.find("/", len("https://"))
        origin, target = (url[:at], url[at:]) if at >= 0 else (url, "/")
        server = self._servers.get(origin)
        if server is None:
            server = self._servers.put(origin, self._parse(origin))
        return server, target

    def _parse(self, origin: str) -> Server:
        try:
            parts = urlsplit(origin)
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise SendFailed("invalid URL") from error
        if parts.scheme not in _PORTS or not parts.hostname or not port or parts.query:
            raise SendFailed("invalid URL")
        trust = self._trust if parts.scheme == "https" else None
        return Server(parts.scheme, parts.hostname, port, trust, self._server_name)


def _outgoing(exchange: Exchange, target: str, headers: Sequence[Header]) -> OutgoingRequest:
    request = exchange.request
    length = request.header("content-length") if request.is_streaming else None
    return OutgoingRequest(
        request.method,
        target,
        headers,
        None if request.is_streaming else request.body,
        int(length) if length is not None else None,
        exchange.wanted_protocol,
    )


def passed_headers(headers: Sequence[Header]) -> Sequence[Header]:
    """Headers of a request that may be said to the next server."""
    return end_to_end(headers, _NOT_PASSED)
