"""The application of `virtual-workspaces`: requests are forwarded to the shard.

Credentials in headers pass: the shard authenticates them. A certificate cannot pass, nor can the
word of a trusted proxy; for those users the shard is asked with the credentials of this program,
impersonating them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.impersonation import is_requested
from pykcp.auth.user import MASTERS
from pykcp.clients.http.trust import Trust
from pykcp.clients.kubeconfig import KubeconfigServer, make_context
from pykcp.machinery.status import Forbidden, Unauthorized
from pykcp.server.call import Call
from pykcp.server.forwarding import Impersonate, PassCredentials, without
from pykcp.server.health import Health
from pykcp.server.media.answers import PageNotFound, send_status, send_text
from pykcp.server.mount import SERVICES
from pykcp.server.request_info import parse_query
from pykcp.virtual.remote import ANSWER_HERE, RemoteServer, forwarded_call
from pykcp.wire.exchange import Exchange, Header, IncomingRequest

_HEALTH = ("healthz", "livez", "readyz")


class VirtualWorkspaceProxy:
    """The application of the program."""

    def __init__(
        self, endpoint: KubeconfigServer, authentication: Authentication, health: Health
    ) -> None:
        self._authentication = authentication
        self._health = health
        url = _origin(endpoint.url)
        name = endpoint.server_name
        self.anonymous = RemoteServer(url, _without_certificate(endpoint), name)
        """The shard, to which this program does not show its certificate."""
        self.privileged = RemoteServer(
            url, Trust(lambda: make_context(endpoint), endpoint.files), name
        )
        self._pass_credentials = PassCredentials()
        self._impersonate = Impersonate(endpoint.token)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return request.path.startswith(SERVICES)

    def identify(self, exchange: Exchange) -> bool:
        return True  # the shard judges its callers

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        root = request.path.strip("/").partition("/")[0]
        call = forwarded_call(exchange)
        if root in _HEALTH:
            call.info.query = parse_query(request.query)
            self._answer_health(call)
            return None
        if not request.path.startswith(SERVICES):
            send_text(call, "404 page not found\n", 404)
            return None
        if request.peer.certificate is None:
            return self.anonymous.answer(call, _marked(self._pass_credentials.headers(request)))
        return self._authenticate(call)

    def _answer_health(self, call: Call) -> None:
        try:
            self._health.handle(call)
        except PageNotFound as error:
            send_status(call, error)

    async def _authenticate(self, call: Call) -> None:
        request = call.exchange.request
        try:
            user = (await self._authentication.authenticate(request)).user
        except Unauthorized as error:
            if request.header("authorization") is None:
                send_status(call, error)
                return
            # a token, over a connection with any certificate
            headers = self._pass_credentials.headers(request)
            await self.anonymous.forward(call, _marked(headers))
            return
        if is_requested(request.headers) and MASTERS not in user.groups:
            send_status(call, Forbidden("impersonation is not allowed for the requestor"))
            return
        await self.privileged.forward(call, _marked(self._impersonate.headers(request, user)))


def _marked(headers: list[Header]) -> list[Header]:
    """The shard shall answer, not send the request back."""
    return [*without(headers, ANSWER_HERE), (ANSWER_HERE, "true")]


def _origin(url: str) -> str:
    """Without the path of a logical cluster, if the kubeconfig has one."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _without_certificate(endpoint: KubeconfigServer) -> Trust:
    """A certificate would take precedence over the client's token."""
    bare = replace(endpoint, certificate=b"", certificate_file="", key=b"", key_file="")
    return Trust(lambda: make_context(bare), bare.files)
