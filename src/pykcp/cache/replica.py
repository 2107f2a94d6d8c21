"""The objects that other shards have published, read from the cache's store.

The store is local to the process, so reads do not wait. A remote cache server is mirrored
to a local store of the same layout, which this class reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pykcp.apis.catalog import definition_of
from pykcp.cache.indexes import content_entry, identity_entry, path_entry
from pykcp.cache.indexes import place_entry as _at
from pykcp.cache.scopes import split
from pykcp.caching import BoundedCache
from pykcp.controllers.cache.replication_plan import ORIGINAL_VERSION
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import API_EXPORTS, GroupVersionResource
from pykcp.registry.codec import decode
from pykcp.registry.keys import SHARD_END, resource_prefix, split_key
from pykcp.registry.stored import Entry, Event, StoreReader
from pykcp.types import Object

_KEEP_BYTES = 16 << 20
"""Octets of JSON of which decoded objects are kept; they take about eight times as much memory."""
_OBJECT = 1024
"""Octets that an object costs whatever it says."""


class _Decoded(NamedTuple):
    revision: int
    obj: Object
    size: int
    """Of its text."""


def _cost(decoded: _Decoded) -> int:
    return _OBJECT + decoded.size


class CacheReplica:
    def __init__(self, store: StoreReader, own_shard: str) -> None:
        """What is of `own_shard` is left out: it is here anyway, and newer."""
        self._store = store
        self._own = f"/{own_shard}{SHARD_END}"
        self._decoded: BoundedCache[str, _Decoded] = BoundedCache(
            "replica", _KEEP_BYTES, cost=_cost
        )

    def get(
        self, kind: GroupVersionResource, cluster: str, name: str, namespace: str = ""
    ) -> Object | None:
        """An object of a logical cluster on any shard; shared with other callers."""
        prefix = resource_prefix(kind.group, kind.resource)
        for entry in self._entries(self._store.lookup(_at(prefix, cluster, namespace, name))):
            return self._object(kind, entry)
        return None

    def all(self, kind: GroupVersionResource, cluster: str = WILDCARD) -> Iterator[Object]:
        """Everything of a kind, in one logical cluster or in all of them."""
        prefix = resource_prefix(kind.group, kind.resource)
        if cluster == WILDCARD:
            keys = self._store.keys(prefix)
        else:
            keys = self._store.lookup(content_entry(prefix, cluster))
        for entry in self._entries(keys):
            yield self._object(kind, entry)

    def exports_of(self, identity: str) -> Iterator[Object]:
        """The APIExports with an identity."""
        for entry in self._entries(self._store.lookup(identity_entry(identity))):
            yield self._object(API_EXPORTS, entry)

    def find(self, kind: GroupVersionResource, index: str) -> Iterator[Object]:
        """The objects of a kind with an index entry."""
        prefix = resource_prefix(kind.group, kind.resource)
        keys = [key for key in self._store.lookup(index) if key.startswith(prefix)]
        for entry in self._entries(keys):
            yield self._object(kind, entry)

    def _entries(self, keys: Sequence[str]) -> Iterator[Entry]:
        others = [key for key in keys if not self._is_own(key)]
        for key in self._newest(others) if len(others) > 1 else others:
            entry = self._store.get(key)
            if entry is not None:
                yield entry

    def _newest(self, keys: Sequence[str]) -> Iterator[str]:
        """One key for each object. A logical cluster that moved may be in the parts of two shards
        for a while, or for long if the one that it left is away."""
        by_place: dict[str, list[str]] = {}
        for key in keys:
            by_place.setdefault(key[key.index(SHARD_END) :], []).append(key)
        for same in by_place.values():
            yield same[0] if len(same) == 1 else max(same, key=self._original_version)

    def _original_version(self, key: str) -> int:
        entry = self._store.get(key)
        annotations = decode(entry.value)["metadata"]["annotations"] if entry is not None else {}
        version = annotations.get(ORIGINAL_VERSION, "")
        return int(version) if version.isdecimal() else 0

    def _is_own(self, key: str) -> bool:
        return key.startswith(self._own, key.index("/", key.index("/") + 1))

    def cluster_of(self, path: str) -> str | None:
        """The name of the published logical cluster with this canonical path."""
        for key in self._store.lookup(path_entry(path)):
            if not self._is_own(key):
                return split(split_key(key).cluster).cluster
        return None

    def listen(self, callback: Callable[[tuple[str, str], str], None]) -> None:
        """Register a callback for changes: group, resource and logical cluster."""

        def changed(events: Sequence[Event]) -> None:
            for event in events:
                parts = split_key(event.key)
                group, _, resource = parts.resource_prefix.partition("/")
                callback((group, resource.rstrip("/")), split(parts.cluster).cluster)

        self._store.listen(changed)

    def follow_values(
        self, kind: GroupVersionResource, callback: Callable[[str, bytes], None]
    ) -> None:
        """Register a callback for changes of a kind on other shards: logical cluster and value."""
        prefix = resource_prefix(kind.group, kind.resource)

        def changed(events: Sequence[Event]) -> None:
            for event in events:
                if event.key.startswith(prefix) and not self._is_own(event.key):
                    callback(split(split_key(event.key).cluster).cluster, event.value)

        self._store.listen(changed)

    def follow(self, kind: GroupVersionResource, callback: Callable[[str, str], None]) -> None:
        """Register a callback for changes of a kind on other shards: logical cluster and name."""
        prefix = resource_prefix(kind.group, kind.resource)

        def changed(events: Sequence[Event]) -> None:
            for event in events:
                if event.key.startswith(prefix) and not self._is_own(event.key):
                    parts = split_key(event.key)
                    callback(split(parts.cluster).cluster, parts.name)

        self._store.listen(changed)

    def _object(self, kind: GroupVersionResource, entry: Entry) -> Object:
        known = self._decoded.get(entry.key)
        if known is not None and known.revision == entry.revision:
            return known.obj
        api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        name = definition_of(kind.group, kind.resource).kind
        obj = {"kind": name, "apiVersion": api_version, **decode(entry.value)}
        return self._decoded.put(entry.key, _Decoded(entry.revision, obj, len(entry.value))).obj
