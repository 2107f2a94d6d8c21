"""The permission claims that the bindings of a logical cluster accept, for labelling its objects.

Bindings are read on first use and again when they change, one at a time and in slices: there
may be many, each with thousands of claims. A cluster that accepts no claims costs an entry of
one shared value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from pykcp.aio.slices import in_slices
from pykcp.apis.kcp.binding_rules import export_reference
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.claims import BoundExport
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS
from pykcp.registry.codec import items_in_steps
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.steps import Steps, at_once
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

_BINDINGS = kind_prefix(API_BINDINGS)
_CLAIMS = b'"permissionClaims"'
_KEEP_CLUSTERS = 16384
_KEEP_CLAIMS = 1 << 18
_FEW = 64
"""Claims on one resource that are looked through at once."""


class _Spec(msgspec.Struct, rename="camel"):
    reference: Any = None
    permission_claims: list[msgspec.Raw] | None = None


class _Binding(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Binding).decode


class _Accepting(NamedTuple):
    """A binding with accepted claims."""

    path: str
    name: str
    accepted: claims.CoveringBy
    size: int


class _Cluster:
    """The bindings of one logical cluster that may accept claims, by name."""

    __slots__ = ("accepting", "unread")

    def __init__(self, unread: Iterable[str] = ()) -> None:
        self.accepting: dict[str, None] = {}
        """Those that do, in order; what they accept is kept within bounds of its own."""
        self.unread = set(unread)


_NONE = _Cluster()
"""Of all clusters that accept no claims."""


class AcceptedClaims:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: BoundedCache[str, _Cluster] = BoundedCache("accepted-claims", _KEEP_CLUSTERS)
        self._bindings: BoundedCache[tuple[str, str], _Accepting] = BoundedCache(
            "accepted-claims", _KEEP_CLAIMS, cost=lambda binding: binding.size
        )
        """By cluster and name."""
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
        self._bindings.pop((cluster, name))
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

    async def labels_due(
        self, lookup: ObjectLookup, cluster: str, group: str, resource: str, obj: Object
    ) -> dict[str, str]:
        """The claim labels that an object of a cluster has to have."""
        known = self._of(cluster)
        found = self._kept(cluster, known)
        if found is None:
            found = await in_slices(self._read(cluster), cluster)
        exports: list[BoundExport] = []
        count, wanted = 0, claims.normalized(group, resource)
        for path, name, accepted, _ in found:
            at = _export_cluster(lookup, path, name)
            if at is not None:
                exports.append(BoundExport(at, name, accepted))
                count += len(accepted.get(wanted, ()))
        labels = (obj.get("metadata") or {}).get("labels")
        steps = claims.labels_due(exports, group, resource, labels)
        due = at_once(steps) if count <= _FEW else await in_slices(steps, cluster)
        if (group, resource) == (API_BINDINGS.group, API_BINDINGS.resource):
            path, name = export_reference(obj)
            at = _export_cluster(lookup, path or cluster, name) if name else None
            if at is not None:
                key, value = claims.reflexive_label(at, name)
                due.setdefault(key, value)
        return due

    def _kept(self, cluster: str, known: _Cluster) -> list[_Accepting] | None:
        """What the bindings of a cluster accept; None if some must be read first."""
        if known.unread:
            return None
        found = []
        for name in known.accepting:
            binding = self._bindings.get((cluster, name))
            if binding is None:
                return None
            found.append(binding)
        return found

    def _read(self, cluster: str) -> Steps[list[_Accepting]]:
        known, found = self._of(cluster), []
        for name in sorted({*known.unread, *known.accepting}):
            binding = yield from self._binding(cluster, name)
            if binding is not None:
                found.append(binding)
            yield
        return found

    def _binding(self, cluster: str, name: str) -> Steps[_Accepting | None]:
        made = self._bindings.get((cluster, name))
        if made is not None:
            return made
        key = object_key(_BINDINGS, cluster, "", name)
        entry = self._store.get(key)
        made = (yield from _accepting(cluster, entry.value)) if entry is not None else None
        now, known = self._store.get(key), self._of(cluster)
        is_current = (now and now.revision) == (entry and entry.revision)
        if is_current and known is not _NONE:  # otherwise it is read again
            known.unread.discard(name)
            if made is not None:
                known.accepting = dict.fromkeys(sorted({*known.accepting, name}))
                self._bindings.put((cluster, name), made)
            else:
                known.accepting.pop(name, None)
        return made


def _accepting(cluster: str, value: bytes) -> Steps[_Accepting | None]:
    binding = _decode(value)
    yield
    given = yield from items_in_steps(binding.spec.permission_claims or ())
    accepted = [claim for claim in given if claim.get("state") == claims.ACCEPTED]
    if not accepted:
        return None
    path, name = export_reference({"spec": {"reference": binding.spec.reference}})
    covering = yield from claims.covering(accepted)
    return _Accepting(path or cluster, name, covering, 1 + len(accepted))


def _export_cluster(lookup: ObjectLookup, path: str, name: str) -> str | None:
    """The logical cluster of an export that exists."""
    cluster = lookup.cluster_of(path)
    if cluster is None or not lookup.has(API_EXPORTS, cluster, name):
        return None
    return cluster
