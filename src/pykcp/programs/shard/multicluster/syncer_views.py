"""`/services/syncer/<logical cluster>/<Cluster>/<UID>/clusters/…`: what one syncer may see.

Nothing of multi-cluster is imported before the first visit.
"""

from __future__ import annotations

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Lister
from pykcp.programs.shard.multicluster.tunnels import TunnelsOnDemand, TunnelView
from pykcp.virtual.framework import Parts, VirtualView, Visit, split_clusters, split_head

_KEEP = 256
_TUNNEL = "/tunnel"


class SyncerWorkspace:
    name = "syncer"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, lister: Lister, tunnels: TunnelsOnDemand) -> None:
        self._parts, self._lister, self._tunnels = parts, lister, tunnels
        self._views: BoundedCache[tuple[str, ...], VirtualView] = BoundedCache("syncer", _KEEP)

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 3)
        if head is None:
            return None
        if head[3] == _TUNNEL:
            return Visit(TunnelView(self._tunnels, head[2], self._view(head[:3])), head[0], head[3])
        place = split_clusters(head[3])
        if place is None:
            return None
        return Visit(self._view(head[:3]), *place)

    def _view(self, key: tuple[str, ...]) -> VirtualView:
        view = self._views.get(key)
        if view is None:
            from pykcp.programs.shard.multicluster.syncer_view import SyncerView

            view = self._views.put(key, SyncerView(self._parts, self._lister, *key))
        return view
