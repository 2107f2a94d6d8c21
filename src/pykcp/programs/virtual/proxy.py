"""Who asks, and asking the shard for them.

Credentials in headers travel on: the shard knows best whose they are. A certificate cannot
travel, nor can the word of a proxy that we trust; for those users the shard is asked with
our own credentials, as them.
"""

from __future__ import annotations

import ssl
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.impersonation import is_requested
from pykcp.auth.user import MASTERS, User
from pykcp.auth.webhook_client import WebhookEndpoint, make_context
from pykcp.machinery.status import Forbidden, Unauthorized
from pykcp.server.call import Call
from pykcp.server.filters.forwarding import sent_headers, without
from pykcp.server.health import Health
from pykcp.server.media.answers import PageNotFound, send_status, send_text
from pykcp.server.mount import SERVICES
from pykcp.server.request_info import RequestInfo, parse_query
from pykcp.virtual.forwarding import ANSWER_HERE, RemoteServer
from pykcp.wire.exchange import Exchange, Header, IncomingRequest

_HEALTH = ("healthz", "livez", "readyz")
_IMPERSONATE = "impersonate-"


class VirtualWorkspaceProxy:
    """The application of the program."""

    def __init__(
        self, endpoint: WebhookEndpoint, authentication: Authentication, health: Health
    ) -> None:
        self._authentication = authentication
        self._health = health
        url = _origin(endpoint.url)
        self._token = endpoint.token
        self.passing_on = RemoteServer(url, _without_certificate(endpoint))
        self.vouching = RemoteServer(url, make_context(endpoint))

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool:
        return True  # the shard judges its callers

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        root = request.path.strip("/").partition("/")[0]
        info = RequestInfo(request.method, unquote(request.path), verb=request.method.lower())
        call = Call(exchange, info)
        if root in _HEALTH:
            info.query = parse_query(request.query)
            self._answer_health(call)
            return None
        if not request.path.startswith(SERVICES):
            send_text(call, "404 page not found\n", 404)
            return None
        if request.peer.certificate is None:
            return self.passing_on.answer(call, passed_on(request))
        return self._vouch(call)

    def _answer_health(self, call: Call) -> None:
        try:
            self._health.handle(call)
        except PageNotFound as error:
            send_status(call, error)

    async def _vouch(self, call: Call) -> None:
        request = call.exchange.request
        try:
            user = (await self._authentication.authenticate(request)).user
        except Unauthorized as error:
            if request.header("authorization") is None:
                send_status(call, error)
                return
            # a token, over a connection with any certificate
            await self.passing_on.answer(call, passed_on(request))
            return
        if is_requested(request.headers) and MASTERS not in user.groups:
            send_status(call, Forbidden("impersonation is not allowed for the requestor"))
            return
        await self.vouching.answer(call, vouched_for(request, user, self._token))


def passed_on(request: IncomingRequest) -> list[Header]:
    """Headers of a request with credentials of its own, or none."""
    headers = without(sent_headers(request), "x-remote-", ANSWER_HERE)
    return [*headers, (ANSWER_HERE, "true")]


def vouched_for(request: IncomingRequest, user: User, token: str) -> list[Header]:
    """Headers of a request of a user whom only we can know, with our credentials."""
    headers = without(passed_on(request), "authorization")
    if token:
        headers.append(("authorization", f"Bearer {token}"))
    if is_requested(request.headers):
        return headers  # a master, who wants to be somebody else
    return [*without(headers, _IMPERSONATE), *impersonation(user)]


def impersonation(user: User) -> list[Header]:
    """The headers that make a request this user's."""
    headers = [("impersonate-user", user.name)]
    if user.uid:
        headers.append(("impersonate-uid", user.uid))
    headers += [("impersonate-group", group) for group in user.groups]
    for key, values in user.extra.items():
        name = f"impersonate-extra-{quote(key, safe='').lower()}"
        headers += [(name, value) for value in values]
    return headers


def _origin(url: str) -> str:
    """Without the path of a logical cluster, if the kubeconfig has one."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _without_certificate(endpoint: WebhookEndpoint) -> ssl.SSLContext:
    """Our certificate would speak louder than the client's token."""
    bare = replace(endpoint, certificate=b"", certificate_file="", key=b"", key_file="")
    return make_context(bare)
