"""`/services/syncer/<logical cluster>/<Cluster>/<UID>/clusters/…`: what one syncer may see.

Nothing of multi-cluster is imported before the first visit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Lister
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.programs.shard.multicluster.pods import PodsOnDemand
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand, TunnelView
from pykcp.virtual.framework import Parts, VirtualView, Visit, split_clusters, split_head

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers
    from pykcp.programs.shard.multicluster.consumers import ConsumersElsewhere

_KEEP = 256
_TUNNEL = "/tunnel"
_CLUSTER = "/cluster/"
_CONSUMERS = "/consumers"


class SyncerWorkspace:
    name = "syncer"
    checks: tuple[str, ...] = ()

    def __init__(
        self,
        parts: Parts,
        lister: Lister,
        tunnels: TunnelsOnDemand,
        pods: PodsOnDemand,
        peers: Peers | None,
    ) -> None:
        self._parts, self._lister, self._tunnels = parts, lister, tunnels
        self._pods = pods
        self._peers = peers
        self._made_elsewhere: ConsumersElsewhere | None = None
        self._views: BoundedCache[tuple[str, ...], VirtualView] = BoundedCache("syncer", _KEEP)

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 3)
        if head is None:
            return None
        if head[3] == _TUNNEL:
            return Visit(TunnelView(self._tunnels, head[2], self._view(head[:3])), head[0], head[3])
        if head[3] == _CONSUMERS:
            return Visit(self._consumers(head[:3]), head[0], head[3])
        if head[3].startswith(_CLUSTER):
            return Visit(self._proxied(*head[:3]), head[0], head[3])
        place = split_clusters(head[3])
        if place is None:
            return None
        if not self._is_here(place[0], head[0]):
            return Visit(self._forwarded(place[0], head[:3]), head[0], head[3])
        return Visit(self._view(head[:3]), *place)

    def _is_here(self, cluster: str, home: str) -> bool:
        """Whether this shard answers for a logical cluster."""
        if self._peers is None or cluster in (home, WILDCARD):
            return True
        return self._lister.has(cluster, LOGICAL_CLUSTERS, "cluster")

    def _consumers(self, key: tuple[str, ...]) -> VirtualView:
        from pykcp.programs.shard.multicluster.consumers import SyncerConsumers

        return SyncerConsumers(self._lister, key[0], self._view(key), self._elsewhere())

    def _forwarded(self, consumer: str, key: tuple[str, ...]) -> VirtualView:
        from pykcp.programs.shard.multicluster.consumers import ForwardedView

        elsewhere = self._elsewhere()
        assert elsewhere is not None
        return ForwardedView(consumer, key[0], self._view(key), elsewhere)

    def _elsewhere(self) -> ConsumersElsewhere | None:
        """Consumers on other shards; None if there are no other shards."""
        if self._made_elsewhere is None and self._peers is not None:
            from pykcp.programs.shard.multicluster.consumers import ConsumersElsewhere

            self._made_elsewhere = ConsumersElsewhere(self._lister, self._peers)
        return self._made_elsewhere

    def _proxied(self, workspace: str, name: str, uid: str) -> VirtualView:
        from pykcp.programs.shard.multicluster.proxied import ProxiedCluster

        of = self._view((workspace, name, uid))
        return ProxiedCluster(self._pods.clusters, ObjectKey(workspace, "", name), uid, of)

    def _view(self, key: tuple[str, ...]) -> VirtualView:
        view = self._views.get(key)
        if view is None:
            from pykcp.programs.shard.multicluster.syncer_view import SyncerView

            view = self._views.put(key, SyncerView(self._parts, self._lister, *key))
        return view
