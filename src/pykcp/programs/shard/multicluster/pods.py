"""Requests for pods of workspaces with Clusters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pykcp.clients.interface import Client
from pykcp.clients.outbound import Outbound
from pykcp.programs.shard.multicluster.known import (
    CLUSTERS,
    ShardsWithClusters,
    allowed_addresses,
    has_clusters,
    providers_of,
)
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand
from pykcp.registry.local_lister import LocalLister

if TYPE_CHECKING:
    from pykcp.multicluster.through.clusters import WorkspaceClusters
    from pykcp.server.call import Call, Handler
    from pykcp.server.handlers.placed_pods import PlacedPods


class PodsOnDemand:
    """For workspaces without Clusters a request costs a lookup."""

    def __init__(
        self,
        lister: LocalLister,
        client: Client,
        egress: Outbound,
        tunnels: TunnelsOnDemand,
        others: ShardsWithClusters | None = None,
    ) -> None:
        """`others`: None if there are no other shards."""
        self._lister, self._client, self._egress = lister, client, egress
        self._tunnels, self._others = tunnels, others
        self._clusters: WorkspaceClusters | None = None
        self._placed: PlacedPods | None = None

    def find(self, call: Call) -> Handler | None:
        """The handler of a request for pods; None if they are all stored."""
        if not (has_clusters(self._lister, call.cluster) or self._is_served(call.cluster)):
            return None
        if self._placed is None:
            from pykcp.server.handlers.placed_pods import PlacedPods

            self._placed = PlacedPods(self.clusters)
        return self._placed.find(call)

    @property
    def clusters(self) -> WorkspaceClusters:
        """Connections to the clusters of this shard."""
        if self._clusters is None:
            from pykcp.multicluster.through.clusters import WorkspaceClusters

            self._clusters = WorkspaceClusters(
                self._client,
                partial(has_clusters, self._lister),
                partial(allowed_addresses, self._egress),
                self._tunnels.http,
                self._others.clusters(self._lister) if self._others is not None else None,
            )
        return self._clusters

    def has_clusters(self) -> bool:
        """Whether any workspace has pods that run elsewhere."""
        if self._others is not None and self._others.have_clusters():
            return True
        return bool(self._lister.keys(CLUSTERS, limit=1))

    def _is_served(self, cluster: str) -> bool:
        """Whether the logical cluster binds an API of one that has Clusters, on any shard."""
        if not self.has_clusters():
            return False
        others = self._others
        return any(
            has_clusters(self._lister, one) or (others is not None and others.have_clusters(one))
            for one in providers_of(self._lister, cluster)
        )
