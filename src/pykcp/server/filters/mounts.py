"""Mounted workspaces: requests to them go to the address that the mount says, as they are.

Nobody is asked who they are here; that is up to whoever answers. So the client's credentials
travel along, and we show a certificate of our own if we are given one. Headers in which a
proxy names a user do not travel with that certificate unless a proxy of ours sent them:
the other end would believe them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from pykcp.machinery.status import BadRequest, RequestEntityTooLarge
from pykcp.server.answers import PlainError
from pykcp.server.call import Call
from pykcp.wire.exchange import Header, Request, WebSocket

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger(__name__)

_HOP_BY_HOP = frozenset(
    (
        "connection", "proxy-connection", "keep-alive", "proxy-authenticate",
        "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade",
    )
)  # fmt: skip
_IDENTITY = "x-remote-"
_HOPS = "x-pykcp-mount-hops"
_MOST_HOPS = 8
_CHUNK = 64 * 1024
_BACKLOG = 1024 * 1024
_CONNECT_SECONDS = 30.0
_MAX_LINE = 1024 * 1024
_IN_PATHS = "/:@!$&'()*+,;=~"
"""What stands in paths as it is, besides letters and digits."""
_DOTS = frozenset((".", ".."))


class MountProxy:
    """One pool of connections for all mounts; it opens with the first request."""

    def __init__(
        self,
        certificate: str = "",
        key: str = "",
        is_proxied: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        """`is_proxied`: whether a trusted proxy sent a request, and so names its user."""
        self._certificate, self._key = certificate, key
        self._is_proxied = is_proxied
        self._session: aiohttp.ClientSession | None = None

    async def forward(self, call: Call, target: str, more: Sequence[Header] = ()) -> None:
        """Send the request on, with more headers, and its answer back as it comes."""
        import aiohttp

        request = call.exchange.request
        if request.truncated:
            raise RequestEntityTooLarge("Request entity too large: limit is 3145728")
        if _hops(request) >= _MOST_HOPS:
            raise LoopDetected
        url = address(target, call.info.path, request.query)
        try:
            if call.exchange.wants_websocket():
                await self._bridge(call, url, more)
                return
            async with self._open_session().request(
                request.method,
                _raw(url),
                headers=[*self._headers(request, url), *more],
                data=request.body or None,
                allow_redirects=False,
            ) as answer:
                await _send_back(call, answer)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.warning("mount %s does not answer: %s", target, error)
            if call.exchange.responded:
                raise
            raise BadGateway from error

    async def _bridge(self, call: Call, url: str, more: Sequence[Header]) -> None:
        """A WebSocket at either end, and everything that is said on one said on the other."""
        import aiohttp

        request = call.exchange.request
        headers = [h for h in self._headers(request, url) if not h[0].startswith("sec-websocket")]
        try:
            there = await self._open_session().ws_connect(
                _raw(url),
                headers=[*headers, *more],
                protocols=self._protocols(request),
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            call.exchange.respond(error.status, (), b"")
            return
        here = call.exchange.websocket(there.protocol or "")
        outward = asyncio.create_task(_repeat(here, there), name="mount/websocket")
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

    def _protocols(self, request: Request) -> list[str]:
        """The WebSocket protocols that the client offers."""
        offered = request.header("sec-websocket-protocol") or ""
        return [name.strip() for name in offered.split(",") if name.strip()]

    def _headers(self, request: Request, url: str) -> list[Header]:
        """What the client sent, but for what concerns only its connection to us."""
        hides_identity = bool(self._certificate) and not self._is_proxied(request)
        headers = [
            (name, value)
            for name, value in _end_to_end(request.headers)
            if name not in ("content-length", "x-forwarded-for", _HOPS)
            and not (hides_identity and name.startswith(_IDENTITY))
        ]
        if not any(name == "host" for name, _ in headers):
            headers.append(("host", urlsplit(url).netloc))
        via = [*request.header_all("x-forwarded-for"), request.peer.address]
        headers.append(("x-forwarded-for", ", ".join(via)))
        headers.append((_HOPS, str(_hops(request) + 1)))
        return headers

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls(), limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                max_line_size=_MAX_LINE,
                max_field_size=_MAX_LINE,
            )
        return self._session

    def _tls(self) -> ssl.SSLContext:
        """Mounts are trusted by their address: nothing says who should have signed them."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self._certificate:
            context.load_cert_chain(self._certificate, self._key)
        return context

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        try:
            await asyncio.Event().wait()
        finally:
            if self._session is not None:
                await self._session.close()


class BadGateway(PlainError):
    """What Go's proxies say when nobody answers: nothing."""

    code = 502

    def __init__(self) -> None:
        super().__init__("")


class LoopDetected(PlainError):
    """A mount that leads to itself would be asked for ever."""

    code = 508

    def __init__(self) -> None:
        super().__init__("mounts lead in circles")


def _hops(request: Request) -> int:
    """How many mounts a request has come through."""
    text = request.header(_HOPS) or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else _MOST_HOPS


def _raw(url: str) -> str:
    from yarl import URL

    return URL(url, encoded=True)  # type: ignore[return-value]  # aiohttp takes either


def address(target: str, path: str, query: str) -> str:
    """The mount's address with the request's path, which is decoded, below it."""
    if not _DOTS.isdisjoint(path.split("/")):
        raise BadRequest("invalid path: it leads out of the mount")
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
