"""Answers requests that come through the tunnel: those for pods of this registration only.

The control plane has authorized them in the workspace. Here they are limited to the namespaces
that the syncer made, and sent to the cluster with the syncer's account.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs

import orjson

from pykcp.clients.direct import OneServer
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward
from pykcp.clients.http.interface import end_to_end
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.clients.remote.client import RemoteClient
from pykcp.machinery.status import Forbidden, ServiceUnavailable, StatusError
from pykcp.wire.exchange import Exchange, Header, IncomingRequest

_PODS = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[a-z0-9-]+)/pods"
    r"(?:/(?P<name>[a-z0-9.-]+)(?:/(?P<subresource>log|exec|attach|portforward))?)?"
).fullmatch
_NAMESPACES = "/api/v1/namespaces"
_JSON = (("content-type", "application/json"),)
_NOT_PASSED = frozenset(("host", "authorization"))
_TENANT = Tenant("")


class TunnelApplication:
    """An application of the wire."""

    def __init__(self, client: RemoteClient, selector: str, is_own: Callable[[str], bool]) -> None:
        """`selector`: of the namespaces of this registration; `is_own`: whether one is."""
        self._client, self._selector, self._is_own = client, selector, is_own
        self._forwarder = Forwarder(OneServer(client.http), Trust.of_files(""))

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return True

    def identify(self, exchange: Exchange) -> bool:
        return True

    async def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        try:
            if not self.is_allowed(request.method, request.path, request.query):
                raise Forbidden("the syncer answers requests for pods of its own namespaces only")
            await self._forward(exchange)
        except StatusError as error:
            if not exchange.responded:
                exchange.respond(error.code, _JSON, orjson.dumps(error.to_json()))

    def is_allowed(self, method: str, path: str, query: str) -> bool:
        if path == _NAMESPACES:
            return method == "GET" and parse_qs(query).get("labelSelector") == [self._selector]
        found = _PODS(path)
        if found is None or not self._is_own(found["namespace"]):
            return False
        if found["subresource"] in ("exec", "attach", "portforward"):
            return method in ("GET", "POST")
        return method == "GET" or (method == "DELETE" and bool(found["name"]))

    async def _forward(self, exchange: Exchange) -> None:
        request, server = exchange.request, self._client.http.server
        host = f"[{server.host}]" if ":" in server.host else server.host
        query = f"?{request.query}" if request.query else ""
        url = f"{server.scheme}://{host}:{server.port}{request.path}{query}"
        own = [one for one in self._client.headers() if one[0] == "authorization"]
        passed: list[Header] = [*end_to_end(request.headers, _NOT_PASSED)]
        headers = [*passed, *own, ("host", server.authority)]
        try:
            await self._forwarder.forward(exchange, Onward(url, headers, _TENANT))
        except (SendFailed, TimeoutError) as error:
            if exchange.responded:
                raise
            raise ServiceUnavailable(f"the cluster does not answer: {error}") from error
