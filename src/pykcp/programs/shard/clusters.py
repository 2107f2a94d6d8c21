"""Which logical clusters exist on this shard, at which paths, and whether they are in use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pykcp.auth.authz.attributes import forbidden
from pykcp.auth.user import MASTERS
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import Expired
from pykcp.registry.keys import cluster_of_prefix, kind_prefix, object_key
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
MIGRATING = "internal.kcp.io/migrating"
_MOVING = MIGRATING.encode()
EXTERNAL_ADMINS = "system:kcp:external-logical-cluster-admin"


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


def is_moving(value: bytes) -> bool:
    """Whether a stored LogicalCluster is being moved to another shard."""
    return _MOVING in value and bool((_decode(value).metadata.annotations or {}).get(MIGRATING))


class Moving(PlainError):
    code = 503

    def __init__(self) -> None:
        super().__init__("logical cluster is being migrated", retry_after=1)


def _refuse_moving(call: Call) -> None:
    """Only other shards may use it; clients try again, or list anew where versions differ."""
    if EXTERNAL_ADMINS in call.user.groups:
        return
    info = call.info
    if info.verb in ("list", "watch") and info.param("resourceVersion") not in ("", "0"):
        raise Expired("logical cluster is being migrated to another shard; relist required")
    raise Moving


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
        *,
        blocks_moving: bool = False,
    ) -> None:
        """`blocks_moving`: requests to clusters that are moved to another shard are refused."""
        self._store, self._paths, self._hub = store, paths, hub
        self.shard_name = shard_name
        self.known: dict[str, bool] = {}
        """Names that exist, and whether they are inactive."""
        self._moving: set[str] = set()
        """Logical clusters being migrated; few at a time."""
        self._blocks_moving = blocks_moving
        store.listen(self._follow)
        hub.refuse_when(self._is_closed)

    def _is_closed(self, prefix: str) -> bool:
        """Whether watches below a prefix have to end: its cluster is inactive."""
        return self.known.get(cluster_of_prefix(prefix), False) and not prefix.startswith(_PREFIX)

    def exists(self, name: str) -> bool:
        return self.inactive(name) is not None

    def inactive(self, name: str) -> bool | None:
        """Whether a logical cluster is marked inactive; None if there is none of that name."""
        known = self.known.get(name)
        if known is None:
            entry = self._store.get(object_key(_PREFIX, name, "", "cluster"))
            if entry is not None:
                known = self._remember(name, is_inactive(entry.value))
                if is_moving(entry.value):
                    self._moving.add(name)
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
        self._follow_move(name, event)
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

    def _follow_move(self, name: str, event: Event) -> None:
        if event.deleted or not is_moving(event.value):
            self._moving.discard(name)
        elif name not in self._moving:
            self._moving.add(name)
            if self._blocks_moving:
                self._hub.end_cluster(name)

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
        if name not in self.known:
            if not name or name == clusters.WILDCARD or clusters.is_system(name):
                return
            if not self.exists(name):
                self._refuse_missing(call)
        if self._moving and name in self._moving and self._blocks_moving:
            _refuse_moving(call)

    def _refuse_missing(self, call: Call) -> None:
        info = call.info
        is_first = (info.group, info.resource) == LOGICAL_CLUSTERS[::2]
        may_be = info.verb not in _BRINGING or (is_first and info.verb == "create")
        if not may_be or MASTERS not in call.user.groups:
            raise forbidden(attributes_of(call), "access denied")
