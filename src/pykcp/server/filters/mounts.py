"""Mounted workspaces: requests to them go to the address that the mount says, as they are.

Nobody is asked who they are here; that is up to whoever answers. So the client's credentials
travel along, and we show a certificate of our own if we are given one. Headers in which a
proxy names a user do not travel with that certificate unless a proxy of ours sent them:
the other end would believe them.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.clients.direct import verified
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.clients.trust import unverified
from pykcp.machinery.kcp import clusters
from pykcp.server.call import Call
from pykcp.server.filters.forwarding import (
    Forwarder,
    offered_protocols,
    sent_headers,
    without,
)
from pykcp.wire.exchange import Header, IncomingRequest

_IDENTITY = "x-remote-"


class MountProxy:
    def __init__(
        self,
        outbound: Outbound,
        certificate: str = "",
        key: str = "",
        authority: str = "",
        is_proxied: Callable[[IncomingRequest], bool] = lambda _: False,
    ) -> None:
        """`authority`: who signs the certificates of mounts; without it anybody may, as in kcp.

        `is_proxied`: whether a trusted proxy sent a request, and so names its user.
        """
        self._outbound = outbound
        self._certificate, self._key, self._authority = certificate, key, authority
        self._is_proxied = is_proxied
        self._forwarder: Forwarder | None = None

    async def forward(self, call: Call, target: str) -> None:
        request = call.exchange.request
        chosen_in = clusters.split(call.info.cluster)[0]
        await self._open().forward(
            call, target, self.headers(request), offered_protocols(request), Tenant(chosen_in)
        )

    def headers(self, request: IncomingRequest) -> list[Header]:
        headers = sent_headers(request)
        if self._certificate and not self._is_proxied(request):
            return without(headers, _IDENTITY)
        return headers

    def _open(self) -> Forwarder:
        if self._forwarder is None:
            if self._authority:
                tls = verified(self._authority, self._certificate, self._key)
            else:
                tls = unverified()
                if self._certificate:
                    tls.load_cert_chain(self._certificate, self._key)
            self._forwarder = Forwarder(self._outbound, tls)
        return self._forwarder
