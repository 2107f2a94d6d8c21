"""Virtual workspaces that another process serves.

A shard forwards requests for them there. That process sends them back to the shard, marked,
since a view reads the shard's store; marked requests are answered here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from pykcp.clients.direct import Direct
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import StatusError
from pykcp.server.call import Call, Pending
from pykcp.server.forwarding import PassCredentials, forward, make_onward
from pykcp.server.media.answers import send_status
from pykcp.server.mount import ServiceHost
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Application, Exchange, Header, IncomingRequest

ANSWER_HERE = "x-pykcp-virtual-workspaces"
"""Set on requests that have been through the other process."""
_OPERATOR = Tenant("")
"""The operator chose the server."""


class RemoteServer:
    """Another server of the same operator; `run` it."""

    def __init__(self, url: str, trust: Trust, server_name: str = "") -> None:
        self._url = url
        self._connections = Direct()
        self._forwarder = Forwarder(self._connections, trust, server_name=server_name)

    def answer(self, call: Call, headers: Sequence[Header]) -> Pending:
        """Forward a request with these headers, and answer it in any case."""
        try:
            onward = make_onward(call, self._url, headers, _OPERATOR)
            if self._forwarder.start(call.exchange, onward, partial(self.forward, call, headers)):
                return None
        except (StatusError, SendFailed):
            pass  # it is answered below
        return self.forward(call, headers)

    async def forward(
        self, call: Call, headers: Sequence[Header], failed: SendFailed | None = None
    ) -> None:
        """The same for callers that await; `failed`: why a first attempt has no answer."""
        try:
            await forward(call, self._forwarder, self._url, headers, _OPERATOR, failed)
        except StatusError as error:
            if call.exchange.responded:
                raise
            send_status(call, error)

    async def run(self) -> None:
        """Until cancelled; then the connections are closed."""
        await self._connections.run()


class RemoteWorkspaces:
    """Answers what is below `/services/`: here if it is marked, otherwise the other process."""

    def __init__(self, remote: RemoteServer, local: ServiceHost) -> None:
        self._remote, self._local = _Forwarded(remote), local

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._find(request).wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._find(exchange.request).identify(exchange)

    def handle(self, exchange: Exchange) -> Pending:
        return self._find(exchange.request).handle(exchange)

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        await self._local.hand_over(call, path, hops)

    def _find(self, request: IncomingRequest) -> Application:
        return self._local if request.header(ANSWER_HERE) is not None else self._remote


class _Forwarded:
    """The other process as an application."""

    def __init__(self, remote: RemoteServer) -> None:
        self._remote, self._policy = remote, PassCredentials()

    def handle(self, exchange: Exchange) -> Pending:
        headers = self._policy.headers(exchange.request)
        return self._remote.answer(forwarded_call(exchange), headers)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return True

    def identify(self, exchange: Exchange) -> bool:
        return True  # the other process authenticates


def forwarded_call(exchange: Exchange) -> Call:
    """A call that is understood only as far as forwarding needs it."""
    request = exchange.request
    info = RequestInfo(request.method, unquote(request.path), verb=request.method.lower())
    return Call(exchange, info)
