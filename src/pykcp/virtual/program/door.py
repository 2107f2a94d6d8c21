"""Who asks, and asking the shard for them.

Credentials in headers travel on: the shard knows best whose they are. A certificate cannot
travel, nor can the word of a proxy that we trust; for those users the shard is asked with
our own credentials, as them.
"""

from __future__ import annotations

import ssl
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.impersonation import is_requested
from pykcp.auth.user import MASTERS, User
from pykcp.auth.webhook_client import Endpoint, make_context
from pykcp.machinery.status import Forbidden, StatusError, Unauthorized
from pykcp.server.answers import PageNotFound, send_status, send_text
from pykcp.server.call import Call
from pykcp.server.health import Health
from pykcp.server.request_info import RequestInfo, parse_query
from pykcp.virtual.forwarding import ANSWER_HERE, Elsewhere, without
from pykcp.virtual.serving import ROOT
from pykcp.wire.exchange import Exchange, Header, Request

_HEALTH = ("healthz", "livez", "readyz")
_IMPERSONATE = "impersonate-"
_asking: ContextVar[User] = ContextVar("asking")
"""For whom the task at hand asks."""


class Door:
    """The application of the program."""

    def __init__(self, endpoint: Endpoint, authentication: Authentication, health: Health) -> None:
        self._authentication = authentication
        self._health = health
        url = _origin(endpoint.url)
        self.passing_on = PassingOn(url, _without_certificate(endpoint))
        self.vouching = Vouching(url, make_context(endpoint), endpoint.token)

    def wants_streaming(self, request: Request) -> bool:
        return False

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        root = request.path.strip("/").partition("/")[0]
        info = RequestInfo(request.method, unquote(request.path), verb=request.method.lower())
        call = Call(exchange, info)
        if root in _HEALTH:
            info.query = parse_query(request.query)
            self._answer_health(call)
            return None
        if not request.path.startswith(ROOT):
            send_text(call, "404 page not found\n", 404)
            return None
        if request.peer.certificate is None:
            return self.passing_on.handle(exchange)
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
            await self.passing_on.answer(call)  # a token, over a connection with any certificate
            return
        try:
            await self.vouching.ask_for(call, user)
        except StatusError as error:
            if call.exchange.responded:
                raise
            send_status(call, error)


class PassingOn(Elsewhere):
    """Requests with credentials of their own, or none."""

    def _headers(self, request: Request, url: str) -> list[Header]:
        headers = without(super()._headers(request, url), "x-remote-", ANSWER_HERE)
        return [*headers, (ANSWER_HERE, "true")]


class Vouching(Elsewhere):
    """Requests of users whom only we can know, with our credentials."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str) -> None:
        super().__init__(url, tls)
        self._token = token

    async def ask_for(self, call: Call, user: User) -> None:
        request = call.exchange.request
        if is_requested(request.headers) and MASTERS not in user.groups:
            raise Forbidden("impersonation is not allowed for the requestor")
        _asking.set(user)
        await self.forward(call, self._url)

    def _headers(self, request: Request, url: str) -> list[Header]:
        headers = without(super()._headers(request, url), "x-remote-", "authorization", ANSWER_HERE)
        headers.append((ANSWER_HERE, "true"))
        if self._token:
            headers.append(("authorization", f"Bearer {self._token}"))
        if is_requested(request.headers):
            return headers  # a master, who wants to be somebody else
        return [*without(headers, _IMPERSONATE), *impersonation(_asking.get())]


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


def _without_certificate(endpoint: Endpoint) -> ssl.SSLContext:
    """Our certificate would speak louder than the client's token."""
    bare = replace(endpoint, certificate=b"", certificate_file="", key=b"", key_file="")
    return make_context(bare)
