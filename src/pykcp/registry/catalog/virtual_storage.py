"""What exports say about resources whose objects are not stored with their consumers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykcp.apis.catalog import ResourceDefinition
from pykcp.machinery.resources import API_EXPORTS
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.registry.catalog.bindings import BoundResource
    from pykcp.registry.lookup import ObjectLookup


def find_storage(
    lookup: ObjectLookup, bound: BoundResource, group: str, plural: str
) -> Object | None:
    """The `storage.virtual` of an exported resource; None if it is stored as usual."""
    export = lookup.get(API_EXPORTS, bound.export_cluster, bound.export)
    for resource in ((export or {}).get("spec") or {}).get("resources") or ():
        if (resource.get("group") or "", resource["name"]) == (group, plural):
            storage: Object | None = (resource.get("storage") or {}).get("virtual")
            return storage
    return None


def slice_kind(storage: Object) -> str:
    kind: str = (storage.get("reference") or {}).get("kind") or ""
    return kind


_READ_ONLY = frozenset(("ClusterCachedResourceEndpointSlice", "CachedResourceEndpointSlice"))
_READ_VERBS = ("get", "list", "watch")


def served_elsewhere(definition: ResourceDefinition, kind: str) -> ResourceDefinition:
    """A resource that a virtual workspace serves; `kind` is that of the slice that names it."""
    definition = replace(
        definition, is_virtual=True, fingerprint=f"{definition.fingerprint}:virtual:{kind}"
    )
    if kind not in _READ_ONLY:
        return definition
    versions = tuple(replace(v, subresources=()) for v in definition.all_versions)
    return replace(definition, verbs=_READ_VERBS, all_versions=versions)
