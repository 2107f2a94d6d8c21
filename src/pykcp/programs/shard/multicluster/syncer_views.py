"""`/services/syncer/<logical cluster>/<Cluster>/<UID>/clusters/…`: what one syncer may see.

Nothing of multi-cluster is imported before the first visit.
"""

from __future__ import annotations

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Lister
from pykcp.machinery.object_keys import ObjectKey
from pykcp.programs.shard.multicluster.pods import PodsOnDemand
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand, TunnelView
from pykcp.virtual.framework import Parts, VirtualView, Visit, split_clusters, split_head

_KEEP = 256
_TUNNEL = "/tunnel"
_CLUSTER = "/cluster/"


class SyncerWorkspace:
    name = "syncer"
    checks: tuple[str, ...] = ()

    def __init__(
        self, parts: Parts, lister: Lister, tunnels: TunnelsOnDemand, pods: PodsOnDemand
    ) -> None:
        self._parts, self._lister, self._tunnels = parts, lister, tunnels
        self._pods = pods
        self._views: BoundedCache[tuple[str, ...], VirtualView] = BoundedCache("syncer", _KEEP)

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 3)
        if head is None:
            return None
        if head[3] == _TUNNEL:
            return Visit(TunnelView(self._tunnels, head[2], self._view(head[:3])), head[0], head[3])
        if head[3].startswith(_CLUSTER):
            return Visit(self._proxied(*head[:3]), head[0], head[3])
        place = split_clusters(head[3])
        if place is None:
            return None
        return Visit(self._view(head[:3]), *place)

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
