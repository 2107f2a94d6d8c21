"""Which logical clusters exist on this shard, and at which paths."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.auth.authz.attributes import forbidden
from pykcp.auth.user import MASTERS
from pykcp.machinery import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.paths import PathIndex
from pykcp.server.authorization import attributes_of
from pykcp.server.call import Call
from pykcp.storage.interface import Event, Store

_PREFIX = resource_prefix(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)
_REMEMBER = 16384


class LogicalClusters:
    """A logical cluster exists if it holds a LogicalCluster named `cluster`.

    Names that were seen to exist are remembered within bounds and forgotten by events.
    """

    def __init__(self, store: Store, paths: PathIndex) -> None:
        self._store = store
        self._paths = paths
        self._present: set[str] = set()
        store.listen(self._follow)

    def exists(self, name: str) -> bool:
        if name in self._present:
            return True
        if self._store.get(object_key(_PREFIX, name, "", "cluster")) is None:
            return False
        if len(self._present) >= _REMEMBER:
            self._present.clear()
        self._present.add(name)
        return True

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.deleted and event.key.startswith(_PREFIX):
                self._present.discard(event.key[len(_PREFIX) :].partition("/")[0])

    def find(self, path: str) -> str | None:
        """The name of the logical cluster at a path of several segments, if it is here."""
        return self._paths.find(path)

    def check(self, call: Call) -> None:
        """Refuse a request to a logical cluster that does not exist, whoever asks.

        The exception is how one begins: system:masters creates its LogicalCluster.
        """
        name = call.cluster
        if not name or name == clusters.WILDCARD or clusters.is_system(name) or self.exists(name):
            return
        info = call.info
        is_creating = (
            info.verb == "create"
            and (info.group, info.resource) == LOGICAL_CLUSTERS[::2]
            and MASTERS in call.user.groups
        )
        if not is_creating:
            raise forbidden(attributes_of(call), "access denied")
