"""Health and metrics of the program, for probes and for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.observe.metrics import Registry
from pykcp.wire.exchange import Exchange, IncomingRequest

_TEXT = (("content-type", "text/plain; charset=utf-8"),)
_METRICS = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)


class StatusEndpoint:
    """An application with `/healthz`, `/livez`, `/readyz` and `/metrics`."""

    def __init__(self, metrics: Registry, problem: Callable[[], str]) -> None:
        """`problem`: why the program is not ready; empty if it is."""
        self._metrics, self._problem = metrics, problem

    def handle(self, exchange: Exchange) -> None:
        path = exchange.request.path
        if path in ("/healthz", "/livez"):
            exchange.respond(200, _TEXT, b"ok")
        elif path == "/readyz":
            problem = self._problem()
            exchange.respond(503 if problem else 200, _TEXT, (problem or "ok").encode())
        elif path == "/metrics":
            exchange.respond(200, _METRICS, self._metrics.exposition().encode())
        else:
            exchange.respond(404, _TEXT, b"404 page not found\n")

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool:
        return True
