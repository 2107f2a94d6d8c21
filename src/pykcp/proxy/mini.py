"""Mappings in front of a single shard: `kcp start --miniproxy-mapping-file`, for development.

Requests below a mapped path go to its server with the credentials of the client; all others are
for the shard. Unlike kcp, the servers are verified.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from pykcp.clients.direct import Direct
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward
from pykcp.machinery.status import StatusError
from pykcp.proxy.backend import OPERATOR, ProxyBackend, check_path, hop_headers, is_plain
from pykcp.proxy.mapping import MappingMatcher, PathMapping
from pykcp.server.call import Call, Pending
from pykcp.server.media.answers import send_status
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Application, Exchange, IncomingRequest

_log = logging.getLogger(__name__)


class MiniProxy:
    """`run` it: its connections are closed at the end."""

    def __init__(self, mappings: Sequence[PathMapping], shard: Application) -> None:
        self._connections, self._shard = Direct(), shard
        self._backends = [ProxyBackend(mapping, self._connections) for mapping in mappings]
        self._matcher = MappingMatcher([mapping.path for mapping in mappings])

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._find(request) is not None or self._shard.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._find(exchange.request) is not None or self._shard.identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        backend = self._find(request)
        if backend is None:
            return self._shard.handle(exchange)
        try:
            check_path(request.path)
        except StatusError as error:
            send_status(Call(exchange, RequestInfo(request.method, request.path)), error)
            return None
        headers = backend.identity.passed(request.headers, without_token=False)
        url = backend.url + request.path + (f"?{request.query}" if request.query else "")
        onward = Onward(url, [*headers, *hop_headers(request)], OPERATOR)
        go_on = partial(_forward, exchange, backend.forwarder, onward)
        try:
            if backend.forwarder.start(exchange, onward, go_on):
                return None
        except SendFailed:
            pass  # it is answered below
        return go_on()

    def _find(self, request: IncomingRequest) -> ProxyBackend | None:
        path = request.path
        if not is_plain(path):
            path = "/".join(unquote(segment) for segment in path.split("/"))
        found = self._matcher.find(path)
        return None if found is None else self._backends[found.mapping]

    async def run(self) -> None:
        """Until cancelled."""
        await self._connections.run()


async def _forward(
    exchange: Exchange, forwarder: Forwarder, onward: Onward, failed: SendFailed | None = None
) -> None:
    try:
        await forwarder.forward(exchange, onward, failed)
    except (SendFailed, TimeoutError) as error:
        _log.warning("%s does not answer: %s", onward.url.partition("?")[0], error)
        if not exchange.responded:
            exchange.respond(502, ())
