"""Health and metrics of operators and supervisors, without TLS: for probes and the monitoring."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from pykcp.observe.metrics import Registry
from pykcp.server.health import Health
from pykcp.wire.exchange import Exchange, IncomingRequest

_TEXT, JSON = "text/plain; charset=utf-8", "application/json"


class PlainPages:
    """`/healthz`, `/livez`, `/readyz`, `/metrics`; `documents` are JSON texts by path."""

    def __init__(
        self,
        health: Health,
        metrics: Registry,
        documents: Mapping[str, Callable[[], str]] | None = None,
    ) -> None:
        self._health, self._metrics, self._documents = health, metrics, documents or {}

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        path = exchange.request.path
        if path == "/metrics":
            _send(exchange, 200, self._metrics.exposition())
        elif path in self._documents:
            _send(exchange, 200, self._documents[path](), JSON)
        elif path in ("/healthz", "/livez", "/readyz"):
            checks = self._health.checks(path[1:])
            failed = {name: why for name, check in checks.items() if (why := check()) is not None}
            lines = [f"[-]{name} failed: {why}" for name, why in failed.items()]
            _send(exchange, 500 if failed else 200, "\n".join(lines) or "ok")
        else:
            _send(exchange, 404, "not found\n")
        return None

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool:
        return False


def _send(exchange: Exchange, status: int, text: str, kind: str = _TEXT) -> None:
    exchange.respond(status, [("content-type", kind)], text.encode())
