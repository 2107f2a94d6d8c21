"""An application whose requests are recorded as spans of traces; used only if that is configured."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, cast

from pykcp.observe.tracing import HEADER, SpanRecorder, TraceSpan
from pykcp.wire.exchange import Application, Exchange, Header, IncomingRequest, Stream

_QUIET = ("/healthz", "/livez", "/readyz", "/metrics")


class TracedApplication:
    def __init__(self, inner: Application, recorder: SpanRecorder) -> None:
        self._inner, self._recorder = inner, recorder

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        if request.path.startswith(_QUIET):
            return self._inner.handle(exchange)
        attributes = {"http.request.method": request.method, "url.path": request.path}
        parent = request.header(HEADER) or ""
        span = self._recorder.begin(f"{request.method} {request.path}", parent, attributes)
        return self._inner.handle(cast("Exchange", _TracedExchange(exchange, span)))

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._inner.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._inner.identify(exchange)


class _TracedExchange:
    """An exchange whose request belongs to the span, and whose answer ends it."""

    def __init__(self, exchange: Exchange, span: TraceSpan) -> None:
        self._exchange, self._span = exchange, span
        self.request = _TracedRequest(exchange.request, span.traceparent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def respond(
        self, status: int, headers: Sequence[Header], body: bytes | Sequence[bytes] = b""
    ) -> None:
        self._span.end(status)
        self._exchange.respond(status, headers, body)

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        """A stream, such as a watch, may last for hours: its beginning is what took time."""
        self._span.end(status)
        return self._exchange.start(status, headers)


class _TracedRequest:
    """A request with another `traceparent`."""

    def __init__(self, request: IncomingRequest, traceparent: str) -> None:
        self._request, self._traceparent = request, traceparent
        kept = [header for header in request.headers if header[0] != HEADER]
        self.headers: Sequence[Header] = [*kept, (HEADER, traceparent)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def header(self, name: str) -> str | None:
        return self._traceparent if name == HEADER else self._request.header(name)

    def header_all(self, name: str) -> list[str]:
        return [self._traceparent] if name == HEADER else self._request.header_all(name)
