"""What all shards have published, read from the cache's store.

The store is this process' own, so every answer is at hand. A cache server elsewhere is
mirrored into a store of the same layout, and this class reads that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from pykcp.apis.catalog import definition_of
from pykcp.cache.indexes import content_entry, path_entry, place_entry
from pykcp.cache.scopes import split
from pykcp.machinery.clusters import WILDCARD
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.codec import decode
from pykcp.registry.keys import resource_prefix, split_key
from pykcp.storage.interface import Entry, Store
from pykcp.types import Object

_KEEP = 1024


class Replica:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._decoded: OrderedDict[str, tuple[int, Object]] = OrderedDict()

    def get(
        self, kind: GroupVersionResource, cluster: str, name: str, namespace: str = ""
    ) -> Object | None:
        """An object of a logical cluster on any shard; shared with other callers."""
        prefix = resource_prefix(kind.group, kind.resource)
        for key in self._store.lookup(place_entry(prefix, cluster, namespace, name), limit=1):
            entry = self._store.get(key)
            if entry is not None:
                return self._object(kind, entry)
        return None

    def all(self, kind: GroupVersionResource, cluster: str = WILDCARD) -> Iterator[Object]:
        """Everything of a kind, in one logical cluster or in all of them."""
        prefix = resource_prefix(kind.group, kind.resource)
        if cluster == WILDCARD:
            keys = self._store.keys(prefix)
        else:
            keys = self._store.lookup(content_entry(prefix, cluster))
        for key in keys:
            entry = self._store.get(key)
            if entry is not None:
                yield self._object(kind, entry)

    def cluster_of(self, path: str) -> str | None:
        """The name of the published logical cluster with this canonical path."""
        for key in self._store.lookup(path_entry(path), limit=1):
            return split(split_key(key).cluster).cluster
        return None

    def shard_of(self, cluster: str) -> str | None:
        """The shard that published a logical cluster."""
        prefix = resource_prefix("core.kcp.io", "logicalclusters")
        for key in self._store.lookup(place_entry(prefix, cluster, "", "cluster"), limit=1):
            return split(split_key(key).cluster).shard
        return None

    def _object(self, kind: GroupVersionResource, entry: Entry) -> Object:
        known = self._decoded.get(entry.key)
        if known is not None and known[0] == entry.revision:
            return known[1]
        api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        name = definition_of(kind.group, kind.resource).kind
        obj = {"kind": name, "apiVersion": api_version, **decode(entry.value)}
        self._decoded[entry.key] = (entry.revision, obj)
        if len(self._decoded) > _KEEP:
            self._decoded.popitem(last=False)
        return obj
