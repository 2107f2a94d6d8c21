"""One logical cluster at the root of the URL, as clients expect it that know only Kubernetes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pykcp.server.call import Pending
from pykcp.wire.exchange import Application, Exchange, IncomingRequest

_PROCESS_PATHS = (
    "/clusters/",
    "/services/",
    "/healthz",
    "/livez",
    "/readyz",
    "/metrics",
    "/debug",
)
"""Paths that name a logical cluster, or are about the process."""


class SingleCluster:
    """An application whose paths without `/clusters/` are those of one logical cluster."""

    def __init__(self, inner: Application, cluster: str) -> None:
        self._inner, self._prefix = inner, f"/clusters/{cluster}"

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._inner.wants_streaming(self._prefixed(request))

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        self._prefixed(exchange.request)
        return self._inner.identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        self._prefixed(exchange.request)
        return self._inner.handle(exchange)

    def _prefixed(self, request: IncomingRequest) -> IncomingRequest:
        if not request.path.startswith(_PROCESS_PATHS):
            request.path = self._prefix + request.path
        return request
