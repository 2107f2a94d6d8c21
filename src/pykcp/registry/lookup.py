"""Lookup of objects on this shard first, then in the replica of the cache server.

Exports, schemas, workspace types, shards and replicated roles may be in a logical cluster
on another shard. Callers do not need to know where an object comes from.
Everything is synchronous: the replica is local, too, and updated in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

from pykcp.aio.slices import in_slices
from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_EXPORTS, LOGICAL_CLUSTERS, GroupVersionResource
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.indexes.apis import exports_with_identity
from pykcp.registry.indexes.entries import path_entry
from pykcp.registry.keys import object_key, split_key
from pykcp.registry.paths import PathIndex
from pykcp.registry.resource import Resource
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

CLUSTER_ANNOTATION = "kcp.io/cluster"
_KEEP_BYTES = 16 << 20
"""Octets of JSON of which decoded objects are kept; they take about eight times as much memory."""
_LARGE = 256 * 1024
"""Octets of an object that takes some milliseconds to decode."""
_OBJECT = 1024
"""Octets that an object costs whatever it says."""


class Replica(Protocol):
    """What other shards have published, as far as it has arrived here."""

    def get(
        self, kind: GroupVersionResource, cluster: str, name: str, namespace: str = ""
    ) -> Object | None: ...

    def cluster_of(self, path: str) -> str | None:
        """The name of a published logical cluster by its canonical path."""

    def all(self, kind: GroupVersionResource, cluster: str = clusters.WILDCARD) -> Iterator[Object]:
        """Everything of a kind, in one cluster or in all."""

    def exports_of(self, identity: str) -> Iterator[Object]:
        """The APIExports with an identity."""

    def find(self, kind: GroupVersionResource, index: str) -> Iterator[Object]:
        """The objects of a kind with an index entry."""

    def listen(self, callback: Callable[[tuple[str, str], str], None]) -> None:
        """Register a callback for changes: group, resource and logical cluster."""

    def follow_values(
        self, kind: GroupVersionResource, callback: Callable[[str, bytes], None]
    ) -> None:
        """Register a callback for changes of a kind on other shards: logical cluster and value."""

    def follow(self, kind: GroupVersionResource, callback: Callable[[str, str], None]) -> None:
        """Register a callback for changes of a kind on other shards: logical cluster and name."""


def _cost(decoded: tuple[Object, int]) -> int:
    return _OBJECT + decoded[1]


class ObjectLookup:
    def __init__(
        self, store: Store, directory: Directory, paths: PathIndex, replica: Replica | None = None
    ) -> None:
        self._store = store
        self._directory = directory
        self._paths = paths
        self.replica = replica
        self._decoded: BoundedCache[str, tuple[Object, int]] = BoundedCache(
            "objects", _KEEP_BYTES, cost=_cost
        )
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            self._decoded.pop(event.key)

    def get(
        self, kind: GroupVersionResource, cluster: str, name: str, namespace: str = ""
    ) -> Object | None:
        """The object, or None. It is shared with other callers: copy before changing it."""
        resource = self._resource(kind)
        key = object_key(resource.prefix, cluster, namespace, name)
        known = self._decoded.get(key)
        if known is not None:
            return known[0]
        entry = self._store.get(key)
        if entry is None:
            if self.replica is None:
                return None
            return self.replica.get(kind, cluster, name, namespace)
        decoded = resource.object_of(entry.value), len(entry.value)
        return self._decoded.put(key, decoded)[0]

    def has(self, kind: GroupVersionResource, cluster: str, name: str) -> bool:
        """Whether there is such an object, without decoding it."""
        key = object_key(self._resource(kind).prefix, cluster, "", name)
        if self._store.get(key) is not None:
            return True
        return self.replica is not None and self.replica.get(kind, cluster, name) is not None

    def get_in_steps(
        self, kind: GroupVersionResource, cluster: str, name: str
    ) -> Steps[Object | None]:
        """`get` for who can wait, since the object may be large."""
        resource = self._resource(kind)
        key = object_key(resource.prefix, cluster, "", name)
        entry = self._store.get(key) if self._decoded.get(key) is None else None
        if entry is None or len(entry.value) <= _LARGE:
            return self.get(kind, cluster, name)
        decoded = yield from resource.object_in_steps(entry.value)
        now = self._store.get(key)
        if now is not None and now.revision == entry.revision:
            self._decoded.put(key, (decoded, len(entry.value)))
        return decoded

    def spec_members(
        self, kind: GroupVersionResource, cluster: str, name: str, names: Collection[str]
    ) -> Object | None:
        """These members of an object's spec; None if there is no object.

        Of a large one the others are not decoded: many requests may ask at the same time.
        """
        key = object_key(self._resource(kind).prefix, cluster, "", name)
        entry = self._store.get(key)
        if entry is None or len(entry.value) <= _LARGE:
            found = self.get(kind, cluster, name)
            spec = (found.get("spec") or {}) if found is not None else {}
            return None if found is None else {n: spec[n] for n in names if n in spec}
        given = codec.outline(entry.value).get("spec")
        return {} if given is None or given == b"null" else codec.some_members(given, names)

    async def read(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        """An object of this shard that the caller may change; decoded in slices if it is large."""
        resource = self._resource(kind)
        entry = self._store.get(object_key(resource.prefix, cluster, "", name))
        if entry is None:
            return None
        if len(entry.value) <= _LARGE:
            return resource.object_of(entry.value)
        return await in_slices(resource.object_in_steps(entry.value), cluster)

    def all(self, kind: GroupVersionResource, cluster: str) -> list[Object]:
        """All objects of a kind in a cluster with few of them, from this shard or the replica."""
        resource = self._resource(kind)
        found: list[Object] = []
        for key in self._store.keys(f"{resource.prefix}{cluster}/"):
            entry = self._store.get(key)
            if entry is not None:
                found.append(resource.object_of(entry.value))
        if not found and self.replica is not None:
            found = list(self.replica.all(kind, cluster))
        return found

    def exports_of(self, identity: str) -> Steps[list[Object]]:
        """The exports with an identity, by name and cluster, wherever they are."""
        found: dict[tuple[str, str], Object] = {}
        for key in self._store.lookup(exports_with_identity(identity)):
            parts = split_key(key)
            export = yield from self.get_in_steps(API_EXPORTS, parts.cluster, parts.name)
            if export is not None:
                found[parts.name, parts.cluster] = export
            yield
        for export in self.replica.exports_of(identity) if self.replica is not None else ():
            metadata = export["metadata"]
            cluster = metadata["annotations"][CLUSTER_ANNOTATION]
            found.setdefault((metadata["name"], cluster), export)
            yield
        return [found[key] for key in sorted(found)]

    def _resource(self, kind: GroupVersionResource) -> Resource:
        resource = self._directory.find_system(*kind)
        assert resource is not None, f"{kind} is not one of Kubernetes' or kcp's"
        return resource

    def find(self, kind: GroupVersionResource, path: str, name: str) -> Object | None:
        """An object by the path, or the name, of its logical cluster."""
        cluster = self.cluster_of(path)
        return self.get(kind, cluster, name) if cluster is not None else None

    def cluster_of(self, path: str) -> str | None:
        """The name of the logical cluster at a path; a name stands for itself."""
        found = self._paths.find(path)
        if found is None:
            # Its parent may be on another shard.
            for key in self._store.lookup(path_entry(path), limit=1):
                return split_key(key).cluster
            if self.replica is not None:
                return self.replica.cluster_of(path)
        return found

    def nearest(self, path: str) -> tuple[str, str]:
        """The last logical cluster that is known on the way to a path that leads nowhere, and
        the Workspace that would be next in it."""
        segments = path.split(clusters.SEPARATOR, clusters.MAX_DEPTH)[: clusters.MAX_DEPTH]
        for depth in range(len(segments) - 1, 0, -1):
            found = self.cluster_of(clusters.SEPARATOR.join(segments[:depth]))
            if found is not None:
                return found, segments[depth]
        return segments[0], ""

    def logical_cluster(self, cluster: str) -> Object | None:
        return self.get(LOGICAL_CLUSTERS, cluster, "cluster")

    def canonical_path(self, cluster: str) -> str:
        """The path by which people know a logical cluster: its name if it has no other."""
        found = self.logical_cluster(cluster)
        annotations = (found["metadata"].get("annotations") or {}) if found else {}
        path: str = annotations.get(PATH_ANNOTATION) or cluster
        return path
