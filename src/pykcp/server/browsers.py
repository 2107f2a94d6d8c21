"""Headers for browsers: which other origins may call the API (CORS), and that TLS is required (HSTS).

Both are off unless their flags are set; a server without them does not pass through here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from pykcp.machinery.regex import compiled
from pykcp.server.call import Pending
from pykcp.server.console.origins import ALLOWED
from pykcp.wire.exchange import (
    Application,
    BodySink,
    Exchange,
    Header,
    IncomingRequest,
    Stream,
    Tunnel,
    WebSocket,
)
from pykcp.wire.wrapping import WrappedExchange

_FIXED = (
    ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        "access-control-allow-headers",
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    ("access-control-expose-headers", "Date"),
    ("access-control-allow-credentials", "true"),
)
"""kube-apiserver's."""


class BrowserHeaders:
    """An application whose answers carry the headers that browsers ask for."""

    def __init__(
        self, inner: Application, origins: Sequence[str] = (), directives: Sequence[str] = ()
    ) -> None:
        self._inner, self._origins = inner, tuple(origins)
        self._transport = (
            (("strict-transport-security", "; ".join(directives)),) if directives else ()
        )

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._inner.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._inner.identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        origin = request.header("origin")
        headers: tuple[Header, ...] = self._transport
        if origin and self._allows(origin):
            headers = (*headers, ("access-control-allow-origin", origin), *_FIXED)
            request.peer.memo[ALLOWED] = origin
            if request.method == "OPTIONS":
                exchange.respond(204, headers)
                return None
        return self._inner.handle(_WithHeaders(exchange, headers) if headers else exchange)

    def _allows(self, origin: str) -> bool:
        return any(compiled(pattern).test(origin) for pattern in self._origins)


class _WithHeaders(WrappedExchange):
    """An exchange whose answer gets further headers; they replace those of the same name."""

    __slots__ = ("_headers", "_names")

    def __init__(self, exchange: Exchange, headers: tuple[Header, ...]) -> None:
        super().__init__(exchange)
        self._headers = headers
        self._names = {name for name, _ in headers}

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        self._inner.respond(status, self._completed(headers), body)

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        return self._inner.start(status, self._completed(headers))

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        return self._inner.websocket(subprotocol, self._completed(headers))

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        return self._inner.tunnel(self._completed(headers), sink)

    def _completed(self, headers: Sequence[Header]) -> list[Header]:
        return [header for header in headers if header[0].lower() not in self._names] + [
            *self._headers
        ]
