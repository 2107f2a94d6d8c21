"""An exchange in front of another one: filters override what they observe or change."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pykcp.wire.exchange import (
    BodySink,
    Exchange,
    Header,
    IncomingRequest,
    Stream,
    Tunnel,
    WebSocket,
)


class WrappedExchange:
    """Passes everything on to the exchange that it wraps."""

    __slots__ = ("_inner", "request")

    def __init__(self, inner: Exchange) -> None:
        self._inner = inner
        self.request: IncomingRequest = inner.request

    @property
    def responded(self) -> bool:
        return self._inner.responded

    @responded.setter
    def responded(self, value: bool) -> None:
        self._inner.responded = value

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        self._inner.respond(status, headers, body)

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        return self._inner.start(status, headers)

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        return self._inner.websocket(subprotocol, headers)

    def wants_websocket(self) -> bool:
        return self._inner.wants_websocket()

    @property
    def wanted_protocol(self) -> str:
        return self._inner.wanted_protocol

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        return self._inner.tunnel(headers, sink)

    def defer(self, gone: Callable[[], None]) -> None:
        self._inner.defer(gone)

    def proceed(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._inner.proceed(coroutine)

    @property
    def unsent(self) -> int:
        return self._inner.unsent

    async def taken(self) -> None:
        await self._inner.taken()

    async def reserve(self, size: int) -> None:
        await self._inner.reserve(size)

    def unreserve(self, size: int) -> None:
        self._inner.unreserve(size)
