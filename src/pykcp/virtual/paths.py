"""Paths of a view that are not resources: discovery, OpenAPI, version."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from pykcp.machinery.status import MethodNotAllowed
from pykcp.server.call import Call
from pykcp.server.documents.discovery import Discovery
from pykcp.server.documents.openapi import OpenAPI
from pykcp.server.documents.version import version
from pykcp.server.media.answers import CACHE_CONTROL, PageNotFound, send_object
from pykcp.server.resources import ServedResources
from pykcp.workers.pool import WorkerPool

_PATHS = ("/api", "/api/v1", "/api/v1/", "/apis", "/apis/", "/openapi", "/openapi/", "/version")


class ViewPaths:
    def __init__(
        self,
        served: ServedResources,
        address: Callable[[], str],
        workers: WorkerPool | None = None,
    ) -> None:
        # One list per group version: kcp's clients of views expect them so.
        self._discovery = Discovery(served, address, aggregates=False, workers=workers)
        self._openapi = OpenAPI(served, workers, is_view=True)

    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        root = call.info.path.strip("/").partition("/")[0]
        is_known = root in ("", "api", "apis", "openapi", "version")
        if call.info.method not in ("GET", "HEAD"):
            if not is_known:
                raise PageNotFound
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        if root == "openapi":
            return self._openapi.handle(call)
        if root == "api":
            return self._discovery.legacy(call)
        if root == "apis":
            return self._discovery.groups(call)
        if root == "version" and call.info.path.rstrip("/") == "/version":
            body = orjson.dumps(version(), option=orjson.OPT_INDENT_2)
            call.exchange.respond(200, (CACHE_CONTROL, ("content-type", "application/json")), body)
        else:
            send_object(call, {"paths": _PATHS}, 404 if root else 200)
        return None
