"""The canonical path of a logical cluster, as its LogicalCluster says it."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.caching import BoundedCache
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.registry.codec import decode
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.stored import Event, StoreError, StoreReader

_PREFIX = resource_prefix(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)
_MANY = 16384


class WorkspacePaths:
    """Looked up once, remembered within bounds, forgotten by events."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._known: BoundedCache[str, str] = BoundedCache("workspace-paths", _MANY)
        store.listen(self._follow, (_PREFIX,))

    def of(self, cluster: str) -> str:
        """Empty if the cluster is not here or has no path."""
        known = self._known.get(cluster)
        if known is None:
            known = self._known.put(cluster, self._read(cluster))
        return known

    def _read(self, cluster: str) -> str:
        try:
            entry = self._store.get(object_key(_PREFIX, cluster, "", "cluster"))
        except StoreError:
            return ""
        if entry is None:
            return ""
        annotations = decode(entry.value)["metadata"].get("annotations") or {}
        path: str = annotations.get(PATH_ANNOTATION, "")
        return path

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX):
                self._known.pop(event.key[len(_PREFIX) :].partition("/")[0])
