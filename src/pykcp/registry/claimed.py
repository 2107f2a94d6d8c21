"""Which claims the bindings of a logical cluster accept, for whoever labels its objects.

Read on first use, forgotten when a binding of the cluster changes, and bounded. A cluster
that accepts no claims costs an entry of one shared value.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pykcp.apis.kcp.binding_rules import export_reference
from pykcp.machinery import claims
from pykcp.machinery.claims import BoundExport, ClaimKey
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.lookup import Lookup
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_BINDINGS = kind_prefix(API_BINDINGS)
_CLAIMS = b'"permissionClaims"'
_KEEP_CLUSTERS = 16384


class _Accepting(NamedTuple):
    """A binding with accepted claims."""

    path: str
    name: str
    accepted: Mapping[ClaimKey, Object]


class AcceptedClaims:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[_Accepting, ...]] = OrderedDict()
        store.listen(self._follow)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_BINDINGS):
                cluster = split_key(event.key).cluster
                # Where nothing is accepted, bindings without claims change nothing.
                if self._known.get(cluster) or _CLAIMS in event.value:
                    self._known.pop(cluster, None)

    def has_any(self, cluster: str) -> bool:
        """Whether any claim is accepted in a cluster."""
        return bool(self._of(cluster))

    def _of(self, cluster: str) -> tuple[_Accepting, ...]:
        known = self._known.get(cluster)
        if known is None:
            known = self._known[cluster] = tuple(self._read(cluster))
            if len(self._known) > _KEEP_CLUSTERS:
                self._known.popitem(last=False)
        return known

    def _read(self, cluster: str) -> Iterator[_Accepting]:
        for key in self._store.keys(f"{_BINDINGS}{cluster}/"):
            entry = self._store.get(key)
            if entry is None or _CLAIMS not in entry.value:
                continue
            binding = decode(entry.value)
            accepted = claims.accepted(binding)
            if accepted:
                path, name = export_reference(binding)
                yield _Accepting(path or cluster, name, accepted)

    def labels_due(
        self, lookup: Lookup, cluster: str, group: str, resource: str, obj: Object
    ) -> dict[str, str]:
        """The claim labels that an object of a cluster has to have."""
        exports: list[BoundExport] = []
        for path, name, accepted in self._of(cluster):
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


def _export_cluster(lookup: Lookup, path: str, name: str) -> str | None:
    """The logical cluster of an export that exists."""
    cluster = lookup.cluster_of(path)
    if cluster is None or lookup.get(API_EXPORTS, cluster, name) is None:
        return None
    return cluster
