"""The permission claims that the bindings of a logical cluster accept, for labelling its objects.

Bindings are read on first use and again when they change, one at a time and in slices: there
may be many, each with thousands of claims. A cluster that accepts no claims costs an entry of
one shared value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pykcp.aio.slices import in_slices
from pykcp.apis.kcp.binding_rules import export_reference
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.claims import BoundExport
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_BINDINGS = kind_prefix(API_BINDINGS)
_CLAIMS = b'"permissionClaims"'
_KEEP_CLUSTERS = 16384


class _Accepting(NamedTuple):
    """A binding with accepted claims."""

    path: str
    name: str
    accepted: claims.ByResource


class _Cluster:
    """The bindings of one logical cluster: the decoded ones, and the names of the others."""

    __slots__ = ("accepting", "unread")

    def __init__(self, unread: Iterable[str] = ()) -> None:
        self.accepting: dict[str, _Accepting] = {}
        self.unread = set(unread)


_NONE = _Cluster()
"""Of all clusters that accept no claims."""


class AcceptedClaims:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: BoundedCache[str, _Cluster] = BoundedCache("accepted-claims", _KEEP_CLUSTERS)
        store.listen(self._follow, (_BINDINGS,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_BINDINGS):
                parts = split_key(event.key)
                self._changed(parts.cluster, parts.name, event)

    def _changed(self, cluster: str, name: str, event: Event) -> None:
        known = self._known.get(cluster)
        may_accept = not event.deleted and _CLAIMS in event.value
        if known is None or (known is _NONE and not may_accept):
            return
        if known is _NONE:
            known = self._known.put(cluster, _Cluster())
        known.accepting.pop(name, None)
        known.unread.discard(name)
        if may_accept:
            known.unread.add(name)

    def may_have_any(self, cluster: str) -> bool:
        """Whether any claim may be accepted in a cluster."""
        known = self._of(cluster)
        return bool(known.accepting or known.unread)

    def _of(self, cluster: str) -> _Cluster:
        known = self._known.get(cluster)
        if known is None:
            unread = list(self._names(cluster))
            known = self._known.put(cluster, _Cluster(unread) if unread else _NONE)
        return known

    def _names(self, cluster: str) -> Iterator[str]:
        for key in self._store.keys(f"{_BINDINGS}{cluster}/"):
            entry = self._store.get(key)
            if entry is not None and _CLAIMS in entry.value:
                yield split_key(key).name

    async def read(self, cluster: str) -> None:
        """Read the bindings that were not read yet or changed, before `labels_due`."""
        if self._of(cluster).unread:
            await in_slices(self._read(cluster), cluster)

    def _read(self, cluster: str) -> Steps[None]:
        while (known := self._of(cluster)).unread:
            name = known.unread.pop()
            entry = self._store.get(object_key(_BINDINGS, cluster, "", name))
            binding = decode(entry.value) if entry is not None else {}
            accepted = claims.accepted(binding)
            if accepted:
                path, export = export_reference(binding)
                found = _Accepting(path or cluster, export, claims.by_resource(accepted))
                known.accepting[name] = found
            yield

    def labels_due(
        self, lookup: ObjectLookup, cluster: str, group: str, resource: str, obj: Object
    ) -> dict[str, str]:
        """The claim labels that an object of a cluster has to have; call `read` first."""
        exports: list[BoundExport] = []
        for path, name, accepted in self._of(cluster).accepting.values():
            at = _export_cluster(lookup, path, name)
            if at is not None:
                exports.append(BoundExport(at, name, accepted))
        labels = (obj.get("metadata") or {}).get("labels")
        due = claims.labels_due(exports, group, resource, labels)
        if (group, resource) == (API_BINDINGS.group, API_BINDINGS.resource):
            path, name = export_reference(obj)
            at = _export_cluster(lookup, path or cluster, name) if name else None
            if at is not None:
                key, value = claims.reflexive_label(at, name)
                due.setdefault(key, value)
        return due


def _export_cluster(lookup: ObjectLookup, path: str, name: str) -> str | None:
    """The logical cluster of an export that exists."""
    cluster = lookup.cluster_of(path)
    if cluster is None or lookup.get(API_EXPORTS, cluster, name) is None:
        return None
    return cluster
