"""Requests that the server sends for tenants, to addresses that tenants chose.

`Outbound` is the one way out. It resolves names, asks `Destinations` about every address and
connects to the addresses that were asked about, shares connections fairly (`Shares`), reads
a bounded answer in a bounded time and follows redirects on the same server only. Errors say
what a Go client would say, since that is what people search for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcp.aio.imports import import_aside
from pykcp.clients.destinations import Address, Destinations
from pykcp.clients.errors import (
    NotAllowed,
    SendFailed,
    TimedOut,
    certificate_problem,
    dial_problem,
)
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.pool import ClientPool
from pykcp.clients.names import HostNames
from pykcp.clients.shares import Shares, TooManyWaiting
from pykcp.clients.trust import Bundles
from pykcp.wire.settings import ClientSettings

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from pykcp.clients.sessions import Pinned

MAX_REDIRECTS = 10
"""Go's."""
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_KEPT_METHOD = frozenset((307, 308))
_CHUNK = 1 << 16
_MAX_HEADERS = 64 * 1024


class Tenant(NamedTuple):
    """For whom a request is sent: the logical cluster, and the user if one is known.

    The user is a name that means the same one in all logical clusters.
    """

    cluster: str
    user: str = ""


class Outgoing(NamedTuple):
    """One request."""

    url: str
    tenant: Tenant
    tls: ssl.SSLContext
    seconds: float
    """For all of it: waiting for a connection, looking up the name, redirects, the answer."""
    max_answer: int
    method: str = "GET"
    headers: Mapping[str, str] = MappingProxyType({})
    body: tuple[bytes, ...] = ()
    """In parts, so that large ones can be shared by several requests."""
    server_name: str | None = None
    """The name in the certificate, if it is another than the URL's."""


class OutboundResponse(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Outbound:
    """Connections for tenants; they open with the first request. `close` it at the end."""

    def __init__(self, destinations: Destinations, names: HostNames, shares: Shares) -> None:
        self._destinations, self._names, self._shares = destinations, names, shares
        self._session: aiohttp.ClientSession | None = None
        self._pinned: Pinned | None = None
        self._pool = ClientPool(ClientSettings(max_header_list_size=_MAX_HEADERS))
        self.bundles = Bundles()
        self.refused = 0
        """Requests to addresses that are not allowed."""

    async def close(self) -> None:
        self._pool.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def send(self, request: Outgoing) -> OutboundResponse:
        """The answer, read to its end. Raises SendFailed."""
        try:
            async with asyncio.timeout(request.seconds):
                return await self._follow(request)
        except TimeoutError:
            raise TimedOut from None

    async def _follow(self, request: Outgoing) -> OutboundResponse:
        url, method, body = _parsed(request.url), request.method, request.body
        if url.scheme != "https":
            raise SendFailed(f'unsupported protocol scheme "{url.scheme}"')
        for _ in range(MAX_REDIRECTS + 1):
            async with self.open(
                url,
                request.tenant,
                method=method,
                headers=_with_length(request.headers, body),
                data=_payload(body),
                ssl=request.tls,
                server_hostname=request.server_name,
            ) as response:
                target = response.headers.get("Location", "")
                if response.status not in _REDIRECTS or not target:
                    return await _read(response, request.max_answer)
                if response.status not in _KEPT_METHOD:
                    method, body = "GET", ()
            url = _same_server(url, target)
        raise SendFailed(f"stopped after {MAX_REDIRECTS} redirects")

    @asynccontextmanager
    async def open(
        self, url: URL, tenant: Tenant, *, method: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and look at its answer while it comes. Raises SendFailed before that."""
        async with self.seat(url, tenant) as session:
            with in_go_words(url):
                response = await session.request(method, url, allow_redirects=False, **options)
            try:
                with in_go_words(url):
                    yield response
            finally:
                _finish(response, session)

    @asynccontextmanager
    async def seat(self, url: URL, tenant: Tenant) -> AsyncIterator[aiohttp.ClientSession]:
        """A session that may connect to this URL and to no other, for as long as it is needed."""
        host, port = url.raw_host or "", url.port or 443
        async with self._admitted(host, port, tenant) as addresses:
            session = self._session or await self._open_session()
            assert self._pinned is not None
            self._pinned.pin(host, addresses)
            yield session

    @asynccontextmanager
    async def borrow(self, server: Server, tenant: Tenant) -> AsyncIterator[HttpClient]:
        """The client of a server, for requests that are forwarded. Raises SendFailed."""
        async with self._admitted(server.host, server.port, tenant) as addresses:
            yield self._pool.client(replace(server, addresses=tuple(map(str, addresses))))

    def ready(self, server: Server) -> HttpClient | None:
        return None  # the address has to be checked, and a place waited for

    @asynccontextmanager
    async def _admitted(self, host: str, port: int, tenant: Tenant) -> AsyncIterator[list[Address]]:
        """The addresses of a host that may be connected to, and a place for one request."""
        keys = [f"cluster {tenant.cluster}"]
        if tenant.user:
            keys.append(f"user {tenant.user}")
        addresses = await self._allowed(host, port, keys)
        keys.append(f"host {host}:{port}")
        try:
            await self._shares.take(keys)
        except TooManyWaiting as error:
            raise SendFailed(f"dial tcp {host}:{port}: too many requests are waiting") from error
        try:
            yield addresses
        finally:
            self._shares.release(keys)

    async def addresses(self, host: str, port: int, tenant: Tenant) -> tuple[str, ...]:
        """The addresses to connect to, for connections that are kept. Raises SendFailed."""
        found = await self._allowed(host, port, [f"cluster {tenant.cluster}"])
        return tuple(map(str, found))

    async def _allowed(self, host: str, port: int, keys: Sequence[str]) -> list[Address]:
        """The addresses of a host that may be connected to. Raises SendFailed."""
        try:
            found = await self._names.look_up(host, keys)
        except TooManyWaiting as error:
            raise SendFailed(f"dial tcp: lookup {host}: too many lookups are waiting") from error
        except OSError as error:
            raise SendFailed(f"dial tcp: lookup {host}: no such host") from error
        own: set[Address] = set()
        for name in self._destinations.own_names(port):
            own.update(await self._own_addresses(name, keys))
        allowed = [a for a in found if self._destinations.allows(host, a, port, own)]
        if not allowed:
            self.refused += 1
            raise NotAllowed(f"dial tcp {host}:{port}: the destination is not allowed")
        return allowed

    async def _own_addresses(self, name: str, keys: Sequence[str]) -> Sequence[Address]:
        try:
            return await self._names.look_up(name, keys)
        except (OSError, TooManyWaiting):
            return ()  # an unresolvable name of this installation matches no address

    async def _open_session(self) -> aiohttp.ClientSession:
        # The HTTP client takes long to import: the loop goes on meanwhile.
        sessions = await import_aside("pykcp.clients.sessions")
        if self._session is None:
            self._pinned = sessions.Pinned()
            self._session = sessions.tenant_session(self._pinned)
        return self._session


def _finish(response: aiohttp.ClientResponse, session: aiohttp.ClientSession) -> None:
    """Keep the connection if the answer was read to its end, or be rid of it at once."""
    from pykcp.clients.sessions import may_keep

    if response.content.at_eof() and may_keep(session):
        response.release()
        return
    connection = response.connection
    transport = connection.transport if connection is not None else None
    if transport is not None:
        transport.abort()  # a goodbye could take as long as the other side likes
    response.close()


def _parsed(url: str) -> URL:
    from yarl import URL

    try:
        found = URL(url)
        host = found.raw_host if found.port else ""
    except ValueError as error:
        raise SendFailed("invalid URL") from error
    if not host:
        raise SendFailed("no Host in request URL")
    return found


def _same_server(url: URL, target: str) -> URL:
    """Where a redirect leads, if that is the same server. Raises SendFailed."""
    from yarl import URL

    try:
        found = url.join(URL(target))
        is_same = found.origin() == url.origin()
    except ValueError as error:
        raise SendFailed("failed to parse Location header") from error
    if not is_same:
        raise SendFailed("redirects to another server are not followed")
    return found


def _with_length(headers: Mapping[str, str], body: tuple[bytes, ...]) -> dict[str, str]:
    size = sum(map(len, body))
    return {**headers, "Content-Length": str(size)} if body else dict(headers)


def _payload(body: tuple[bytes, ...]) -> bytes | AsyncIterator[memoryview] | None:
    """A large body is handed over piece by piece: a server that does not read it holds little."""
    if sum(map(len, body)) <= _CHUNK:
        return b"".join(body) or None
    return _pieces(body)


async def _pieces(body: tuple[bytes, ...]) -> AsyncIterator[memoryview]:
    for part in body:
        view = memoryview(part)
        for at in range(0, len(view), _CHUNK):
            yield view[at : at + _CHUNK]


async def _read(response: aiohttp.ClientResponse, limit: int) -> OutboundResponse:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):  # which was not asked for; what it holds could be huge
        raise SendFailed("the response is compressed, which was not requested")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise SendFailed(f"the answer is longer than {limit} bytes")
    content_type = response.headers.get("Content-Type") or "application/json"
    return OutboundResponse(response.status, content_type, bytes(body))


# --- errors -------------------------------------------------------------------


@contextmanager
def in_go_words(url: URL) -> Iterator[None]:
    """Errors of the HTTP client are raised as SendFailed; others as they are."""
    try:
        yield
    except (SendFailed, TimeoutError):
        raise
    except Exception as error:
        # Not the new error itself: in a variable of a frame that it passed, it would be part of a cycle.
        text = _go_words(error, url)
        if text is None:
            raise
        raise SendFailed(text) from error


def _go_words(error: Exception, url: URL) -> str | None:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return certificate_problem(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return dial_problem(error.os_error, url.host or "", url.port or 443)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    if isinstance(error, aiohttp.ClientResponseError):  # not HTTP; its text quotes the answer
        return "malformed HTTP response"
    if isinstance(error, (aiohttp.ClientError, OSError, ValueError)):
        return str(error) or type(error).__name__
    return None
