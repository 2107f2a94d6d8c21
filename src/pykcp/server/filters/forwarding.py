"""Requests that another server answers: sent on, and its answer back as it comes.

`Forwarder` carries them. Whom a request is sent to, over which connections, with which
headers and with which TLS is its caller's to say, every time.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from pykcp.aio.owner import spawn
from pykcp.clients.direct import Connections
from pykcp.clients.outbound import SendFailed, Tenant
from pykcp.machinery.status import BadRequest, RequestEntityTooLarge
from pykcp.server.call import Call
from pykcp.server.media.answers import PlainError
from pykcp.wire.exchange import Header, IncomingRequest, WebSocket

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

_log = logging.getLogger(__name__)

_HOP_BY_HOP = frozenset(
    (
        "connection", "proxy-connection", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
HOPS = "x-pykcp-mount-hops"
_MOST_HOPS = 8
_CHUNK = 64 * 1024
_BACKLOG = 1024 * 1024
_MAX_MESSAGE = 16 * 1024 * 1024
_IN_PATHS = "/:@!$&'()*+,;=~"
"""What stands in paths as it is, besides letters and digits."""
_DOTS = frozenset((".", ".."))


class Forwarder:
    def __init__(self, connections: Connections, tls: ssl.SSLContext) -> None:
        self._connections, self._tls = connections, tls

    async def forward(
        self,
        call: Call,
        target: str,
        headers: Sequence[Header],
        protocols: Sequence[str],
        tenant: Tenant,
    ) -> None:
        """Send the request on below `target`, with these headers, and its answer back.

        `protocols`: those of a WebSocket that the other side is offered.
        """
        request = call.exchange.request
        if request.truncated:
            raise RequestEntityTooLarge("Request entity too large: limit is 3145728")
        if read_hops(request) >= _MOST_HOPS:
            raise LoopDetected
        url = address(target, call.info.path, request.query)
        if not any(name == "host" for name, _ in headers):
            headers = [*headers, ("host", urlsplit(url).netloc)]
        try:
            if call.exchange.wants_websocket():
                await self._bridge(call, _raw(url), headers, protocols, tenant)
                return
            async with self._connections.open(
                _raw(url),
                tenant,
                method=request.method,
                headers=headers,
                data=request.body or None,
                ssl=self._tls,
            ) as answer:
                await _send_back(call, answer)
        except (SendFailed, TimeoutError) as error:
            _log.warning("%s does not answer: %s", _origin(target), error)
            if call.exchange.responded:
                raise
            raise BadGateway from error

    async def _bridge(
        self,
        call: Call,
        url: URL,
        headers: Sequence[Header],
        protocols: Sequence[str],
        tenant: Tenant,
    ) -> None:
        """A WebSocket at either end, and everything that is said on one said on the other."""
        import aiohttp

        sent = [h for h in headers if not h[0].startswith("sec-websocket")]
        async with self._connections.seat(url, tenant) as session:
            try:
                there = await session.ws_connect(
                    url,
                    headers=sent,
                    protocols=protocols,
                    max_msg_size=_MAX_MESSAGE,
                    ssl=self._tls,
                )
            except aiohttp.WSServerHandshakeError as error:
                if error.status < 400:  # redirects are not followed here either
                    raise SendFailed(f"status {error.status}") from error
                call.exchange.respond(error.status, (), b"")
                return
            except (aiohttp.ClientError, OSError, ValueError) as error:
                raise SendFailed(str(error)) from error
            await _talk(call.exchange.websocket(there.protocol or ""), there)


async def _talk(here: WebSocket, there: aiohttp.ClientWebSocketResponse) -> None:
    import aiohttp

    outward = spawn(_repeat(here, there), "mount/websocket")
    try:
        async for message in there:
            if message.type is aiohttp.WSMsgType.TEXT:
                here.write_text(message.data)
            else:
                here.write(message.data)
            if here.backlog > _BACKLOG:
                await here.drain()
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)
        await there.close()
        here.end()


class BadGateway(PlainError):
    """What Go's proxies say when nobody answers: nothing."""

    code = 502

    def __init__(self) -> None:
        super().__init__("")


class LoopDetected(PlainError):
    """A mount that leads to itself would be asked for ever."""

    code = 508

    def __init__(self) -> None:
        super().__init__("mount loop detected")


def sent_headers(request: IncomingRequest) -> list[Header]:
    """What the client sent, but for what concerns only its connection to us."""
    headers = [
        (name, value)
        for name, value in _end_to_end(request.headers)
        if name not in ("content-length", "x-forwarded-for", HOPS)
    ]
    via = [*request.header_all("x-forwarded-for"), request.peer.address]
    headers.append(("x-forwarded-for", ", ".join(via)))
    headers.append((HOPS, str(read_hops(request) + 1)))
    return headers


def without(headers: Iterable[Header], *starts: str) -> list[Header]:
    """The headers whose names start with none of these."""
    return [(name, value) for name, value in headers if not name.startswith(starts)]


def offered_protocols(request: IncomingRequest) -> list[str]:
    """The WebSocket protocols that the client offers."""
    offered = request.header("sec-websocket-protocol") or ""
    return [name.strip() for name in offered.split(",") if name.strip()]


def read_hops(request: IncomingRequest) -> int:
    """How many mounts a request has come through."""
    text = request.header(HOPS) or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else _MOST_HOPS


def _raw(url: str) -> URL:
    from yarl import URL

    try:
        found = URL(url, encoded=True)
        is_complete = found.raw_host and found.port and found.scheme in ("https", "http")
    except ValueError as error:
        raise SendFailed("not an address") from error
    if not is_complete:
        raise SendFailed("not an address")
    return found


def _origin(target: str) -> str:
    """Without path and query, which may hold secrets of whoever chose it."""
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def address(target: str, path: str, query: str) -> str:
    """The mount's address with the request's path, which is decoded, below it."""
    if not _DOTS.isdisjoint(path.split("/")):
        raise BadRequest("invalid path: it escapes the mount")
    parts = urlsplit(target)
    joined = f"{parts.path.rstrip('/')}/{quote(path.lstrip('/'), safe=_IN_PATHS)}"
    queries = "&".join(q for q in (parts.query, query) if q)
    return f"{parts.scheme}://{parts.netloc}{joined}" + (f"?{queries}" if queries else "")


def _end_to_end(headers: Iterable[Header]) -> list[Header]:
    """Headers but those of one hop: the usual ones, and those that `connection` names."""
    given = [(name.lower(), value) for name, value in headers if not name.startswith(":")]
    named = {
        one.strip().lower()
        for name, value in given
        if name == "connection"
        for one in value.split(",")
    }
    return [(n, v) for n, v in given if n not in _HOP_BY_HOP and n not in named]


async def _repeat(here: WebSocket, there: aiohttp.ClientWebSocketResponse) -> None:
    """What the client says, to the mount; its goodbye, too."""
    async for message in here.messages():
        if isinstance(message, str):
            await there.send_str(message)
        else:
            await there.send_bytes(message)
    await there.close()


async def _send_back(call: Call, answer: aiohttp.ClientResponse) -> None:
    headers: Sequence[Header] = _end_to_end(answer.headers.items())
    if call.info.method == "HEAD" or answer.status in (204, 304):
        call.exchange.respond(
            answer.status, [(n, v) for n, v in headers if n != "content-length"], b""
        )
        return
    stream = call.exchange.start(answer.status, headers)
    async for chunk in answer.content.iter_chunked(_CHUNK):
        stream.write(chunk)
        if stream.backlog > _BACKLOG:
            await stream.drain()
    stream.end()
