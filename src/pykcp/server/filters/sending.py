"""Requests sent on to a virtual workspace in another process, with the caller's name.

An export's owner says where the virtual workspace is, and need not be trusted. So credentials
do not travel, and nothing is sent to a server that does not show a certificate of the
operator's authority for virtual workspaces.
"""

from __future__ import annotations

import logging
from urllib.parse import quote, urlsplit

from pykcp.auth.authn.bearer import without_token_protocol
from pykcp.auth.user import User, global_name
from pykcp.clients.direct import verified
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.machinery.kcp.endpoints import HOPS_HEADER
from pykcp.server.call import Call
from pykcp.server.filters.forwarding import (
    BadGateway,
    Forwarder,
    offered_protocols,
    sent_headers,
    without,
)
from pykcp.wire.exchange import Header, IncomingRequest

_log = logging.getLogger(__name__)

_IDENTITY = ("x-remote-", "impersonate-", "authorization", "cookie")
"""Headers that say who asks: that is ours to say. Credentials are for us alone, and go no further."""


class Sender:
    """Sends requests for virtual resources, and vouches for the user."""

    def __init__(self, outbound: Outbound, authority: str, certificate: str, key: str) -> None:
        """`authority`: the file with the authority of virtual workspaces; "": none is trusted."""
        self._outbound, self._authority = outbound, authority
        self._certificate, self._key = certificate, key
        self._forwarder: Forwarder | None = None

    async def send(self, call: Call, target: str, hops: int) -> None:
        if not self._authority or urlsplit(target).scheme != "https":
            _log.warning(
                "a request for virtual resources is not sent: "
                "it needs an https address and --shard-virtual-workspace-ca-file"
            )
            raise BadGateway
        if self._forwarder is None:
            tls = verified(self._authority, self._certificate, self._key)
            self._forwarder = Forwarder(self._outbound, tls)
        request = call.exchange.request
        headers = [*self.headers(request, call.user), (HOPS_HEADER, str(hops))]
        tenant = Tenant(call.cluster, global_name(call.user, call.cluster))
        await self._forwarder.forward(call, target, headers, protocols(request), tenant)

    def headers(self, request: IncomingRequest, user: User) -> list[Header]:
        """Without a certificate nobody would believe who the user is, so nobody is told."""
        headers = without(sent_headers(request), *_IDENTITY, HOPS_HEADER, "sec-websocket")
        return [*headers, *identity_headers(user)] if self._certificate else headers


def protocols(request: IncomingRequest) -> list[str]:
    """Without the one in which browsers hide a token."""
    offered = without_token_protocol(",".join(offered_protocols(request)))
    return offered.split(",") if offered else []


def identity_headers(user: User) -> list[Header]:
    """A user as a trusted proxy tells a server."""
    headers = [("x-remote-user", user.name)]
    headers += [("x-remote-group", group) for group in user.groups]
    for key, values in user.extra.items():
        name = f"x-remote-extra-{quote(key.lower(), safe='')}"
        headers += [(name, value) for value in values]
    return headers
