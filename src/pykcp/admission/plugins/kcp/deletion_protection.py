"""Deletion protection of workspaces, and of the workspaces that contain them.

Annotation `tenancy.pykcp.io/deletion-protection: "true"`; not in kcp. Anyone who can update the
workspace can remove it: it prevents mistakes, it is not access control.

Protection is checked when a deletion starts. The content of a terminating workspace is deleted
with it, so an annotation that is added later has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import Forbidden
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import PROTECTED_WORKSPACES, PROTECTION, is_protected
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_PREFIX = kind_prefix(WORKSPACES)
_MARK = PROTECTION.encode()
_HOW = f"remove the annotation {PROTECTION} from it first"


class ProtectedWorkspaces:
    """Where the protected ones are. It holds those and nothing else, and reads them once."""

    def __init__(self, store: Store, lookup: ObjectLookup) -> None:
        self._store, self._lookup = store, lookup
        self._is_loaded = False
        self._fresh: set[str] = set()
        """Keys that have not been sorted in yet."""
        self._above: dict[str, tuple[str, ...]] = {}
        """By key: the logical clusters that it is in, the nearest first."""
        self._below: dict[str, set[str]] = {}
        """By logical cluster: the keys in it, however deep."""
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if not event.key.startswith(_PREFIX):
                continue
            if _MARK in event.value and not event.deleted:
                self._fresh.add(event.key)
            elif event.key in self._above or event.key in self._fresh:
                self._forget(event.key)

    def _forget(self, key: str) -> None:
        self._fresh.discard(key)
        for cluster in self._above.pop(key, ()):
            held = self._below[cluster]
            held.discard(key)
            if not held:
                del self._below[cluster]

    def below(self, cluster: str) -> list[str]:
        """The paths of those in a logical cluster, by name."""
        if not self._is_loaded:
            self._is_loaded = True
            self._fresh.update(self._store.lookup(PROTECTED_WORKSPACES))
        while self._fresh:
            self._sort_in(self._fresh.pop())
        return sorted(map(self._path, self._below.get(cluster, ())))

    def _sort_in(self, key: str) -> None:
        self._forget(key)
        entry = self._store.get(key)
        if entry is None or not is_protected(decode(entry.value)):
            return
        above = tuple(self._ancestors(split_key(key).cluster))
        self._above[key] = above
        for cluster in above:
            self._below.setdefault(cluster, set()).add(key)

    def _ancestors(self, cluster: str) -> Iterator[str]:
        seen: set[str] = set()
        while cluster and cluster not in seen:
            yield cluster
            seen.add(cluster)
            found = self._lookup.logical_cluster(cluster) or {}
            cluster = ((found.get("spec") or {}).get("owner") or {}).get("cluster") or ""

    def _path(self, key: str) -> str:
        parts = split_key(key)
        return clusters.join(self._lookup.canonical_path(parts.cluster), parts.name)

    def is_going(self, cluster: str) -> bool:
        """Whether a logical cluster is being deleted, with all that is in it."""
        found = self._lookup.logical_cluster(cluster)
        return found is not None and meta.is_deleting(found)

    def owner(self, logical_cluster: Object) -> Object | None:
        """The Workspace that stands for a logical cluster."""
        owner = (logical_cluster.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource:
            return None
        found = self._lookup.get(WORKSPACES, owner.get("cluster", ""), owner.get("name", ""))
        return found if found is not None and meta.uid(found) == owner.get("uid") else None


class WorkspaceProtection:
    name = "tenancy.pykcp.io/DeletionProtection"
    kind = WORKSPACES

    def __init__(self, protected: ProtectedWorkspaces) -> None:
        self._protected = protected

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.old is not None
        if self._protected.is_going(request.context.cluster):
            return
        self._check(request.old)
        for value in request.collection or ():
            self._check(decode(value))

    def _check(self, workspace: Object) -> None:
        if meta.is_deleting(workspace):
            return
        name = meta.name(workspace)
        if is_protected(workspace):
            raise _refused(WORKSPACES.group, WORKSPACES.resource, name, [])
        cluster = (workspace.get("spec") or {}).get("cluster")
        held = self._protected.below(cluster) if cluster else []
        if held:
            raise _refused(WORKSPACES.group, WORKSPACES.resource, name, held)


class LogicalClusterProtection:
    """Deleting the LogicalCluster itself also deletes the workspace, so it is checked as well."""

    name = "tenancy.pykcp.io/DeletionProtection"
    kind = LOGICAL_CLUSTERS

    def __init__(self, protected: ProtectedWorkspaces) -> None:
        self._protected = protected

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.old is not None
        if meta.is_deleting(request.old):
            return
        owner = self._protected.owner(request.old)
        if owner is not None and meta.is_deleting(owner):
            return
        held = self._protected.below(request.context.cluster)
        if held or (owner is not None and is_protected(owner)):
            name = meta.name(request.old)
            raise _refused(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource, name, held)


def _refused(group: str, resource: str, name: str, held: list[str]) -> Forbidden:
    """`held`: what is protected; none: it is the object itself."""
    if not held:
        return Forbidden.resource(group, resource, name, f"it is protected from deletion, {_HOW}")
    more = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
    why = f"workspace {held[0]}{more} in it is protected from deletion, {_HOW}"
    return Forbidden.resource(group, resource, name, why)
