"""Mounted workspaces: requests to them are forwarded to the URL of the mount, as they are.

They are not authenticated here; the server behind the mount does that, so the client's
credentials pass, and a certificate of our own is shown if there is one. Headers in which a proxy
names a user pass only if a trusted proxy sent them: the server would believe them.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.clients.forwarder import Forwarder
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.machinery.kcp import clusters
from pykcp.server.call import Call
from pykcp.server.forwarding import PassCredentials, forward
from pykcp.wire.exchange import IncomingRequest


class MountProxy:
    def __init__(
        self,
        outbound: Outbound,
        certificate: str = "",
        key: str = "",
        authority: str = "",
        is_proxied: Callable[[IncomingRequest], bool] = lambda _: False,
    ) -> None:
        """`authority`: the file with the issuer of mounts' certificates.

        Without it mounts are not verified: kcp has no flag for it, and its mounts are clusters
        with certificates of their own. `is_proxied`: whether a trusted proxy sent a request.
        """
        if authority:
            trust = Trust.of_files(authority, certificate, key)
        else:
            trust = Trust.unverified(certificate, key)
        self._forwarder = Forwarder(outbound, trust)
        self._policy = PassCredentials(is_proxied)

    async def forward(self, call: Call, target: str) -> None:
        chosen_in = clusters.split(call.info.cluster)[0]
        headers = self._policy.headers(call.exchange.request)
        await forward(call, self._forwarder, target, headers, Tenant(chosen_in))
