"""Requests for pods of workspaces with Clusters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pykcp.clients.interface import Client, Lister
from pykcp.clients.outbound import Outbound
from pykcp.programs.shard.multicluster.known import (
    CLUSTERS,
    allowed_addresses,
    has_clusters,
    providers_of,
)
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand

if TYPE_CHECKING:
    from pykcp.server.call import Call, Handler
    from pykcp.server.handlers.placed_pods import PlacedPods


class PodsOnDemand:
    """For workspaces without Clusters a request costs a lookup."""

    def __init__(
        self, lister: Lister, client: Client, egress: Outbound, tunnels: TunnelsOnDemand
    ) -> None:
        self._lister, self._client, self._egress = lister, client, egress
        self._tunnels = tunnels
        self._placed: PlacedPods | None = None

    def find(self, call: Call) -> Handler | None:
        """The handler of a request for pods; None if they are all stored."""
        if not (has_clusters(self._lister, call.cluster) or self._is_served(call.cluster)):
            return None
        if self._placed is None:
            from pykcp.multicluster.through.clusters import WorkspaceClusters
            from pykcp.server.handlers.placed_pods import PlacedPods

            resolve = partial(allowed_addresses, self._egress)
            has = partial(has_clusters, self._lister)
            reached = WorkspaceClusters(self._client, has, resolve, self._tunnels.http)
            self._placed = PlacedPods(reached)
        return self._placed.find(call)

    def _is_served(self, cluster: str) -> bool:
        """Whether the logical cluster binds an API of one that has Clusters."""
        if not self._lister.keys(CLUSTERS, limit=1):
            return False
        return any(has_clusters(self._lister, one) for one in providers_of(self._lister, cluster))
