"""The tunnels of syncers that are connected with this process; nothing before the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.auth.authz.attributes import Decision
from pykcp.machinery.status import BadRequest
from pykcp.server.call import Call
from pykcp.virtual.framework import VirtualView

if TYPE_CHECKING:
    from pykcp.clients.http.client import HttpClient
    from pykcp.multicluster.tunnel.parked import SyncerTunnels
    from pykcp.storage.group import ServerGroup
    from pykcp.wire.exchange import Exchange, Tunnel


class TunnelsOnDemand:
    def __init__(self, group: ServerGroup | None) -> None:
        """`group`: the servers that share the store; each needs connections of its own."""
        self._group = group
        self._made: SyncerTunnels | None = None

    def http(self, uid: str) -> HttpClient | None:
        """Connections to the cluster behind the syncer of a Cluster; None if there are none."""
        return self._made.http(uid) if self._made is not None else None

    def park(self, uid: str, tenant: str, exchange: Exchange) -> Tunnel:
        if self._made is None:
            from pykcp.multicluster.tunnel.parked import SyncerTunnels

            self._made = SyncerTunnels(self._servers)
        return self._made.park(uid, tenant, exchange)

    def _servers(self) -> int:
        return 1 if self._group is None else self._group.members


class TunnelView(VirtualView):
    """Where the syncer of a Cluster opens its connections; open to the same users as `of`."""

    def __init__(self, tunnels: TunnelsOnDemand, uid: str, of: VirtualView) -> None:
        self._tunnels, self._uid, self._of = tunnels, uid, of
        self.paths = self

    def exists(self) -> bool:
        return self._of.exists()

    async def authorize(self, call: Call) -> Decision:
        return await self._of.authorize(call)

    def handle(self, call: Call) -> None:
        from pykcp.multicluster.tunnel import PROTOCOL

        if call.exchange.wanted_protocol != PROTOCOL:
            raise BadRequest(f"the connection must be upgraded to {PROTOCOL}")
        call.stream = self._tunnels.park(self._uid, call.cluster, call.exchange)
