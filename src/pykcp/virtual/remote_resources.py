"""Virtual resources of a virtual workspace in another process.

The owner of an export chooses the server, and need not be trusted. So the user's credentials do
not pass, and nothing is sent to a server without a certificate of the operator's authority for
virtual workspaces.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from pykcp.auth.authn.bearer import without_token_protocol
from pykcp.auth.user import User, global_name
from pykcp.clients.forwarder import Forwarder
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.machinery.kcp.endpoints import HOPS_HEADER
from pykcp.server.call import Call
from pykcp.server.forwarding import BadGateway, RequestHeaderIdentity, forward, without
from pykcp.wire.exchange import Header, IncomingRequest

_log = logging.getLogger(__name__)

_PROTOCOLS = "sec-websocket-protocol"


class RemoteVirtualResources:
    """Forwards requests for virtual resources, and names their user."""

    def __init__(self, outbound: Outbound, authority: str, certificate: str, key: str) -> None:
        """`authority`: the file with the authority of virtual workspaces; "": none is trusted."""
        self._is_trusting = bool(authority)
        self._forwarder = Forwarder(outbound, Trust.of_files(authority, certificate, key))
        self._policy = RequestHeaderIdentity(is_believed=bool(certificate))

    async def forward(self, call: Call, target: str, hops: int) -> None:
        """`hops`: how often the request has been forwarded by then."""
        if not self._is_trusting or urlsplit(target).scheme != "https":
            _log.warning(
                "a request for virtual resources is not sent: "
                "it needs an https address and --shard-virtual-workspace-ca-file"
            )
            raise BadGateway
        headers = [*self.headers(call.exchange.request, call.user), (HOPS_HEADER, str(hops))]
        tenant = Tenant(call.cluster, global_name(call.user, call.cluster))
        await forward(call, self._forwarder, target, headers, tenant)

    def headers(self, request: IncomingRequest, user: User) -> list[Header]:
        headers = without(self._policy.headers(request, user), HOPS_HEADER, _PROTOCOLS)
        # Browsers put their token into the list of WebSocket protocols.
        offered = without_token_protocol(",".join(request.header_all(_PROTOCOLS)))
        return [*headers, (_PROTOCOLS, offered)] if offered else headers
