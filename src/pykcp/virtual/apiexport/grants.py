"""What the consumers of an export let it do: their bindings, found by cluster.

A consumer may have many bindings, each with thousands of claims. Of every binding the name of
its export is kept; of those that are asked for also what they grant, within bounds. A changed
binding is read again, the others are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pykcp.aio.slices import in_slices
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import claims
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry.codec import items_in_steps
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.stored import Event, StoreReader
from pykcp.steps import Steps
from pykcp.types import Object

BINDINGS = kind_prefix(API_BINDINGS)
_KEEP = 8192
_KEEP_CLAIMS = 1 << 18

ExportKey = tuple[str, str]
"""Cluster and name."""


class _Export(msgspec.Struct):
    name: str = ""
    path: str | None = None


class _Reference(msgspec.Struct):
    export: _Export | None = None


class _Spec(msgspec.Struct, rename="camel"):
    reference: _Reference | None = None
    permission_claims: list[msgspec.Raw] | None = None


class _Bound(msgspec.Struct):
    resource: str
    group: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    api_export_cluster_name: str | None = None
    phase: str | None = None
    bound_resources: list[_Bound] | None = None


class _Binding(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _HeadSpec(msgspec.Struct):
    reference: _Reference | None = None


class _HeadStatus(msgspec.Struct, rename="camel"):
    api_export_cluster_name: str | None = None


class _Head(msgspec.Struct):
    spec: _HeadSpec = msgspec.field(default_factory=_HeadSpec)
    status: _HeadStatus = msgspec.field(default_factory=_HeadStatus)


_decode_binding = msgspec.json.Decoder(_Binding).decode
_decode_head = msgspec.json.Decoder(_Head).decode


class ClaimGrant:
    """One binding, as far as it says what its provider may do."""

    __slots__ = ("_allowed", "_asked", "_given", "bound", "is_complete", "size")

    def __init__(self, bound: frozenset[tuple[str, str]], given: claims.Sides, phase: str) -> None:
        self.bound = bound
        self.is_complete = phase == "Bound"
        """Everything that the export had was bound once: nothing was in the way."""
        self._given = given
        self._asked: claims.Sides | None = None
        self._allowed: dict[tuple[str, str], frozenset[str]] = {}
        """Of what was asked last: thousands of claims may be on one resource."""
        self.size = 1 + len(bound) + given.size

    def allows(self, asked: claims.Sides, verb: str, group: str, resource: str) -> bool:
        """Whether a claim that both sides made covers this."""
        if (group, resource) not in self._given.verbs and not self._is_event(resource):
            return False
        if self._asked is not asked:
            self._asked = asked
            self._allowed = {}
        verbs = self._allowed.get((group, resource))
        if verbs is None:
            verbs = claims.allowed_verbs(self._given, asked, group, resource)
            self._allowed[group, resource] = verbs
        return claims.is_allowed(verbs, verb)

    def _is_event(self, resource: str) -> bool:
        return resource == "events"  # of two groups, which claims do not tell apart

    def selector(self, group: str, resource: str) -> Object | None:
        """What objects of a claimed resource must look like; None if anything goes."""
        wanted = claims.normalized(group, resource)
        if wanted not in self._given.selectors:
            return None
        selector: Object = self._given.selectors[wanted] or {}
        return None if selector.get("matchAll") else selector


class _Consumer:
    """The bindings of one logical cluster."""

    __slots__ = ("exports", "names", "unread")

    def __init__(self, unread: set[str]) -> None:
        self.unread = unread
        self.names: dict[ExportKey, set[str]] = {}
        """Of the bindings to an export."""
        self.exports: dict[str, ExportKey] = {}
        """By binding."""

    def forget(self, name: str) -> ExportKey | None:
        export = self.exports.pop(name, None)
        if export is not None:
            self.names[export].discard(name)
        return export


class Grants:
    """Made when first asked for, kept within bounds, forgotten as bindings change."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._consumers: BoundedCache[str, _Consumer] = BoundedCache("claim-grants", _KEEP)
        self._known: BoundedCache[tuple[str, ExportKey], ClaimGrant] = BoundedCache(
            "claim-grants", _KEEP_CLAIMS, cost=lambda grant: grant.size
        )

    def follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if not event.key.startswith(BINDINGS):
                continue
            parts = split_key(event.key)
            known = self._consumers.get(parts.cluster)
            if known is None:
                continue
            export = known.forget(parts.name)
            if export is not None:
                self._known.pop((parts.cluster, export))
            known.unread.discard(parts.name)
            if not event.deleted:
                known.unread.add(parts.name)

    def known(self, consumer: str, export: ExportKey) -> ClaimGrant | None:
        """The consumer's binding to an export; None if it has none, or is not read yet."""
        known = self._consumers.get(consumer)
        return self._known.get((consumer, export)) if known and not known.unread else None

    async def of(self, consumer: str, export: ExportKey) -> ClaimGrant | None:
        """The consumer's binding to an export; None if it has none."""
        known = self.known(consumer, export)
        return known if known is not None else await in_slices(self._find(consumer, export))

    def _find(self, consumer: str, export: ExportKey) -> Steps[ClaimGrant | None]:
        while True:
            known = yield from self._read(consumer)
            names = known.names.get(export)
            if not names:
                return None
            kept = self._known.get((consumer, export))
            if kept is not None:
                return kept
            entry = self._store.get(object_key(BINDINGS, consumer, "", min(names)))
            if entry is None:
                return None
            grant = yield from _grant(entry.value)
            if not known.unread and self._consumers.get(consumer) is known:
                return self._known.put((consumer, export), grant)

    def _read(self, consumer: str) -> Steps[_Consumer]:
        """Find out which exports the new bindings are for."""
        known = self._consumers.get(consumer)
        if known is None:
            keys = self._store.keys(f"{BINDINGS}{consumer}/")
            known = self._consumers.put(consumer, _Consumer({split_key(k).name for k in keys}))
        while known.unread:
            name = known.unread.pop()
            entry = self._store.get(object_key(BINDINGS, consumer, "", name))
            export = _export_of(entry.value) if entry is not None else None
            if export is not None:
                known.exports[name] = export
                known.names.setdefault(export, set()).add(name)
                self._known.pop((consumer, export))  # there may be two bindings to it
            yield
        return known


def _export_of(value: bytes) -> ExportKey | None:
    binding = _decode_head(value)
    reference = binding.spec.reference
    export = reference.export if reference is not None else None
    # While the binding is new only its spec says where the export is.
    cluster = binding.status.api_export_cluster_name or (export.path if export else "")
    return (cluster, export.name if export else "") if cluster else None


def _grant(value: bytes) -> Steps[ClaimGrant]:
    binding = _decode_binding(value)
    yield
    given = yield from items_in_steps(binding.spec.permission_claims or ())
    accepted = yield from claims.sides(c for c in given if c.get("state") == claims.ACCEPTED)
    bound = frozenset((b.group or "", b.resource) for b in binding.status.bound_resources or ())
    return ClaimGrant(bound, accepted, binding.status.phase or "")
