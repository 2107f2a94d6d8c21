"""One API server: it understands requests and sends them through its chain of filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from pykcp.auth.user import UNAUTHENTICATED, User
from pykcp.machinery.status import StatusError
from pykcp.server import request_info
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.chain import OwnParts, SharedParts, build_chain
from pykcp.server.filters.clusters import HiddenDenial
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Exchange, IncomingRequest

Parse = Callable[[str, str, str], RequestInfo]
"""Method, path and query of a request, understood. May raise a StatusError."""


class ApiServer:
    def __init__(
        self,
        shared: SharedParts,
        own: OwnParts,
        handler: Handler,
        parse: Parse = request_info.parse,
    ) -> None:
        """`handler` answers calls that have passed all filters."""
        self._authentication, self._sign_in = shared.authentication, shared.sign_in()
        self._clusters, self._authorization = own.clusters, own.authorization
        self._outside, self._inside = build_chain(handler, shared, own)
        self._parse = parse

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._clusters.is_forwarded(request.path)  # its body is passed on as it comes

    def handle(self, exchange: Exchange) -> Pending:
        started = time.perf_counter()
        request = exchange.request
        info = self._parse(request.method, request.path, request.query)
        return self._outside(Call(exchange, info, started))

    def serve(self, call: Call) -> Pending:
        """Answer a request that is understood already."""
        return self._outside(call)

    def take_over(self, call: Call, user: User) -> Pending:
        """Go on with a call of another server of this process, which has authenticated its user."""
        call.user, call.has_trusted_user = user, True
        return self._inside(call)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        request = exchange.request
        if self._authentication.peek(request) is not None:
            return True
        try:
            info = self._parse(request.method, request.path, request.query)
        except StatusError:
            return False  # it is refused whatever its body
        return self.identify_caller(Call(exchange, info))

    async def identify_caller(self, call: Call) -> bool:
        """Whether the caller is authenticated, or the request is open to anonymous users."""
        try:
            forwarded = self._clusters.resolve(call)
            if forwarded is not None:
                forwarded.close()
                return True  # the server behind a mount decides
            call.user = (await self._sign_in.authenticate(call)).user
            if UNAUTHENTICATED in call.user.groups:
                await self._authorization.check(call)
        except (StatusError, HiddenDenial):
            return False
        return True
