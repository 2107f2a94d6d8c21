"""Paths that are not resources: health, version, metrics, discovery, OpenAPI, keys, debug."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

import orjson

from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.status import MethodNotAllowed
from pykcp.observe.metrics import Registry
from pykcp.server.call import Call, Pending
from pykcp.server.documents.discovery import Discovery
from pykcp.server.documents.openapi import OpenAPI
from pykcp.server.documents.version import version
from pykcp.server.health import Health
from pykcp.server.media.answers import CACHE_CONTROL, PageNotFound, send_object, send_text

DebugView = Callable[[], str | Awaitable[str]]
"""Something about the process, as text."""
PathHandler = Callable[[Call], Coroutine[Any, Any, None] | None]


class IssuerDocuments(Protocol):
    """What verifiers of service-account tokens read."""

    def configuration(self) -> bytes: ...

    def keys(self) -> bytes: ...


class PathHandlers:
    def __init__(
        self,
        *,
        health: Health,
        metrics: Registry,
        discovery: Discovery,
        openapi: OpenAPI,
        issuer: IssuerDocuments,
        debug: Mapping[str, DebugView],
    ) -> None:
        self._health, self._metrics = health, metrics
        self._discovery, self._openapi = discovery, openapi
        self._issuer = issuer
        self._debug = debug
        self._roots: dict[str, PathHandler] = {
            "healthz": health.handle,
            "livez": health.handle,
            "readyz": health.handle,
            "api": discovery.legacy,
            "apis": discovery.groups,
            "openapi": openapi.handle,
            "version": self._version,
            "metrics": self._exposition,
            ".well-known": self._well_known,
            "openid": self._keys,
            "debug": self._debug_view,
            "": self._index,
        }

    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        path = call.info.path
        root = path.strip("/").partition("/")[0]
        handler = self._roots.get(root)
        if handler is None or path.startswith(("//", "/apis//")):
            raise PageNotFound
        methods = _METHODS.get(root)
        if methods is not None and call.info.method not in methods:
            if call.info.path.rstrip("/") not in _PLAIN_PATHS:
                raise PageNotFound
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        return handler(call)

    def _version(self, call: Call) -> None:
        if call.info.path.rstrip("/") != "/version":
            raise PageNotFound
        body = orjson.dumps(version(), option=orjson.OPT_INDENT_2)
        call.exchange.respond(200, (CACHE_CONTROL, ("content-type", "application/json")), body)

    def _exposition(self, call: Call) -> Pending:
        if call.info.path != "/metrics":
            raise PageNotFound
        if call.info.cluster not in ("", WILDCARD):
            send_text(call, "shard-level endpoint not available at workspace scope\n", 501)
            return None
        text = self._metrics.exposition()
        if self._metrics.gather is not None:
            return _send_metrics_later(call, self._metrics.gather(text))
        _send_metrics(call, text)
        return None

    def _well_known(self, call: Call) -> None:
        if call.info.path != "/.well-known/openid-configuration":
            raise PageNotFound
        headers = (CACHE_CONTROL, ("content-type", "application/json"))
        call.exchange.respond(200, headers, self._issuer.configuration())

    def _keys(self, call: Call) -> None:
        if call.info.path != "/openid/v1/jwks":
            raise PageNotFound
        headers = (CACHE_CONTROL, ("content-type", "application/jwk-set+json"))
        call.exchange.respond(200, headers, self._issuer.keys())

    async def _debug_view(self, call: Call) -> None:
        view = self._debug.get(call.info.path)
        if view is None or call.info.cluster:  # it is about the process, which no tenant may see
            raise PageNotFound
        shown = view()
        text = shown if isinstance(shown, str) else await shown
        headers = (("content-type", "text/plain; charset=utf-8"),)
        call.exchange.respond(200, headers, text.encode())

    def _index(self, call: Call) -> None:
        paths = [
            *self._discovery.paths(call.cluster),
            *self._openapi.paths(call.cluster),
            *self._health.names(),
            *self._debug,
            "/.well-known/openid-configuration",
            "/metrics",
            "/openid/v1/jwks",
            "/version",
        ]
        send_object(call, {"paths": sorted(paths)})


async def _send_metrics_later(call: Call, text: Awaitable[str]) -> None:
    _send_metrics(call, await text)


def _send_metrics(call: Call, text: str) -> None:
    headers = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)
    call.exchange.respond(200, headers, text.encode())


_METHODS = {
    ".well-known": ("GET",),
    "openid": ("GET",),
    "version": ("GET",),
    "metrics": ("GET", "HEAD"),
    "debug": ("GET", "HEAD"),
}
"""Whatever is not named here answers any method as it answers GET, or looks at it itself."""
_PLAIN_PATHS = frozenset(
    ("/.well-known/openid-configuration", "/metrics", "/openid/v1/jwks", "/version")
)
