"""What the consumers of an export let it do: their bindings, found by cluster."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import claims
from pykcp.machinery.resources import API_BINDINGS
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.stored import Event
from pykcp.types import Object

BINDINGS = kind_prefix(API_BINDINGS)
_KEEP = 8192
_MISSING = object()


class ClaimGrant:
    """One binding, as far as it says what its provider may do."""

    __slots__ = ("_binding", "bound", "is_complete")

    def __init__(self, binding: Object) -> None:
        status = binding.get("status") or {}
        self.bound = frozenset(
            (b.get("group") or "", b["resource"]) for b in status.get("boundResources") or ()
        )
        self.is_complete = status.get("phase") == "Bound"
        """Everything that the export had was bound once: nothing was in the way."""
        given = (binding.get("spec") or {}).get("permissionClaims") or []
        self._binding: Object = {"spec": {"permissionClaims": given}}

    def allows(self, export: Object, verb: str, group: str, resource: str) -> bool:
        """Whether a claim that both sides made covers this."""
        verbs = claims.allowed_verbs(self._binding, export, group, resource)
        return claims.is_allowed(verbs, verb)

    def selector(self, group: str, resource: str) -> Object | None:
        """What objects of a claimed resource must look like; None if anything goes."""
        claim = claims.accepted_claim(self._binding, group, resource)
        selector: Object = (claim or {}).get("selector") or {}
        return None if claim is None or selector.get("matchAll") else selector


class Grants:
    """Made when first asked for, kept within bounds, forgotten as bindings change."""

    def __init__(self, lookup: ObjectLookup) -> None:
        self._lookup = lookup
        self._known: BoundedCache[str, dict[tuple[str, str], ClaimGrant]] = BoundedCache(
            "claim-grants", _KEEP
        )

    def follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(BINDINGS):
                self._known.pop(split_key(event.key).cluster)

    def of(self, consumer: str, export_cluster: str, export: str) -> ClaimGrant | None:
        """The consumer's binding to an export; None if it has none."""
        known = self._known.get(consumer)
        if known is None:
            known = self._known.put(consumer, self._read(consumer))
        return known.get((export_cluster, export))

    def _read(self, consumer: str) -> dict[tuple[str, str], ClaimGrant]:
        found: dict[tuple[str, str], ClaimGrant] = {}
        for binding in self._lookup.all(API_BINDINGS, consumer):
            reference = ((binding.get("spec") or {}).get("reference") or {}).get("export") or {}
            # While the binding is new only its spec says where the export is.
            cluster = (binding.get("status") or {}).get("apiExportClusterName") or reference.get(
                "path"
            )
            if cluster:
                found.setdefault((cluster, reference.get("name") or ""), ClaimGrant(binding))
        return found
