"""Virtual workspaces that another process serves.

A shard forwards requests for them there. That process sends them back to the shard, marked,
since a view reads the shard's store; marked requests are answered here.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pykcp.server.call import Call, Pending
from pykcp.server.mount import ServiceHost
from pykcp.virtual.forwarding import RemoteServer, is_for_here
from pykcp.wire.exchange import Application, Exchange, IncomingRequest


class RemoteWorkspaces:
    def __init__(self, remote: RemoteServer, local: ServiceHost) -> None:
        self._remote, self._local = remote, local

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._find(request).wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._find(exchange.request).identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        return self._find(exchange.request).handle(exchange)

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        await self._local.hand_over(call, path, hops)

    def _find(self, request: IncomingRequest) -> Application:
        return self._local if is_for_here(request) else self._remote
