"""Requests under `/services/` that another process answers.

A shard whose virtual workspaces run elsewhere sends requests for them there, as they are.
The program that runs them (`virtual.program`) sends them on to the shard, marked, so that
they are answered there.
"""

from __future__ import annotations

import ssl
from collections.abc import Coroutine, Sequence
from typing import Any
from urllib.parse import unquote

from pykcp.clients.direct import Direct
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import StatusError
from pykcp.server.call import Call
from pykcp.server.filters.forwarding import Forwarder, offered_protocols, sent_headers
from pykcp.server.media.answers import send_status
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Exchange, Header, IncomingRequest

ANSWER_HERE = "x-pykcp-virtual-workspaces"
"""Set on requests that have been through the other process."""
_NOBODY = Tenant("")
"""The operator chose the server."""


class RemoteServer:
    """Another server of the same operator."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self._url = url
        self._connections = Direct()
        self._forwarder = Forwarder(self._connections, tls)

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        info = RequestInfo(request.method, unquote(request.path), verb=request.method.lower())
        return self.answer(Call(exchange, info), sent_headers(request))

    async def answer(self, call: Call, headers: Sequence[Header]) -> None:
        """Send a request on with these headers, and answer it in any case."""
        protocols = offered_protocols(call.exchange.request)
        try:
            await self._forwarder.forward(call, self._url, headers, protocols, _NOBODY)
        except StatusError as error:
            if call.exchange.responded:
                raise
            send_status(call, error)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        await self._connections.run()

    def identify(self, exchange: Exchange) -> bool:
        return True  # it is up to the others


def is_for_here(request: IncomingRequest) -> bool:
    return request.header(ANSWER_HERE) is not None
