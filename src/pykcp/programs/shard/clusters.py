"""Which logical clusters exist on this shard, at which paths, and whether they are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pykcp.auth.authz.attributes import forbidden
from pykcp.auth.user import MASTERS
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import Expired, StatusError
from pykcp.registry.keys import cluster_of_prefix, kind_prefix, object_key
from pykcp.registry.moving.moves import ClusterMoves
from pykcp.registry.paths import PathIndex, ResolvedStep
from pykcp.registry.watch.hub import WatchHub
from pykcp.server.call import Call
from pykcp.server.filters.authorization import attributes_of
from pykcp.server.media.answers import PlainError
from pykcp.storage.interface import Event, Store

_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_REMEMBER = 16384
_INACTIVE = ("core.kcp.io/inactive", "internal.kcp.io/inactive")
_BRINGING = frozenset(("create", "update", "patch"))
"""Verbs that could leave something in a logical cluster."""
_DELETING = b'"phase":"Deleting"'


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _LogicalCluster(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_LogicalCluster).decode


def is_inactive(value: bytes) -> bool:
    """Whether a stored LogicalCluster is marked as inaccessible."""
    if b'.kcp.io/inactive":"true"' not in value:
        return False  # nearly all of them, at the price of a search
    annotations = _decode(value).metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in _INACTIVE)


class ClusterMoved(PlainError):
    """The logical cluster is on another shard, or about to be on this one."""

    code = 503

    def __init__(self, shard: str = "") -> None:
        super().__init__("logical cluster is being migrated", retry_after=1)
        self.moved_to = shard


def _moved(call: Call, shard: str) -> StatusError:
    """Clients try again, or list anew; a front-proxy sends the request to the named shard."""
    info = call.info
    if shard and info.verb in ("list", "watch") and info.param("resourceVersion") not in ("", "0"):
        expired = Expired("logical cluster is being migrated to another shard; relist required")
        expired.moved_to = shard
        return expired
    return ClusterMoved(shard)


class ShardClusters:
    """A logical cluster exists if it holds a LogicalCluster named `cluster`.

    Lookups are cached within bounds and invalidated by events. When a cluster becomes
    inaccessible, its open watches end.
    """

    def __init__(
        self,
        store: Store,
        paths: PathIndex,
        hub: WatchHub,
        shard_name: str,
        moves: ClusterMoves,
    ) -> None:
        self._store, self._paths, self._hub = store, paths, hub
        self.shard_name = shard_name
        self.known: dict[str, bool] = {}
        """Names that exist, and whether they are inactive."""
        self.walks: Mapping[str, ResolvedStep] = paths.walks
        self.moves = moves
        store.listen(self._follow, (_PREFIX,))
        hub.refuse_when(self._is_closed)

    def _is_closed(self, prefix: str) -> bool:
        """Whether watches below a prefix have to end: its cluster is inactive."""
        return self.known.get(cluster_of_prefix(prefix), False) and not prefix.startswith(_PREFIX)

    def exists(self, name: str) -> bool:
        return self.inactive(name) is not None

    def serves(self, name: str) -> bool:
        """Whether it exists here and is not on its way from or to another shard."""
        moves = self.moves
        if moves and (moves.is_arriving(name) or moves.shard_of(name)):
            return False
        return self.exists(name)

    def inactive(self, name: str) -> bool | None:
        """Whether a logical cluster is marked inactive; None if there is none of that name."""
        known = self.known.get(name)
        if known is None:
            entry = self._store.get(object_key(_PREFIX, name, "", "cluster"))
            if entry is not None:
                known = self._remember(name, is_inactive(entry.value))
        return known

    def _remember(self, name: str, inactive: bool) -> bool:
        if len(self.known) >= _REMEMBER:
            self.known.clear()
        self.known[name] = inactive
        return inactive

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX):
                self._changed(event)

    def _changed(self, event: Event) -> None:
        name = event.key[len(_PREFIX) :].partition("/")[0]
        was_inactive = self.known.pop(name, False)
        if event.deleted:
            self._hub.end_cluster(name)
        elif is_inactive(event.value):
            self._remember(name, True)
            if not was_inactive:
                # Watches over all clusters show its objects, too. Who follows logical clusters
                # as such has to see this one come back.
                self._hub.end_cluster(name, keeping=_PREFIX)
                self._hub.end_cluster("", keeping=_PREFIX)
        elif _DELETING in event.value:
            self._hub.end_cluster(name, keeping=_PREFIX)

    def walk(self, path: str) -> ResolvedStep | None:
        """Where a path of several segments leads."""
        return self._paths.walk(path)

    def nearest(self, path: str) -> tuple[str, str]:
        """The last logical cluster on the way to a path, and the Workspace that is next in it."""
        return self._paths.nearest(path)

    def check(self, call: Call) -> None:
        """Reject a request to a logical cluster that does not exist.

        Only system:masters get a 404, can delete leftover objects, and can create the cluster by
        creating its LogicalCluster.
        """
        name = call.cluster
        if self.moves:
            self._check_moves(call, name)
        if name not in self.known:
            if not name or name == clusters.WILDCARD or clusters.is_system(name):
                return
            if not self.exists(name):
                self._refuse_missing(call)

    def _check_moves(self, call: Call, name: str) -> None:
        """Arriving comes first: a cluster that comes back has departed from here before."""
        if self.moves.is_arriving(name):
            raise _moved(call, "")
        shard = self.moves.shard_of(name)
        if shard:
            raise _moved(call, shard)

    def _refuse_missing(self, call: Call) -> None:
        info = call.info
        is_first = (info.group, info.resource) == LOGICAL_CLUSTERS[::2]
        may_be = info.verb not in _BRINGING or (is_first and info.verb == "create")
        if not may_be or MASTERS not in call.user.groups:
            raise forbidden(attributes_of(call), "access denied")
