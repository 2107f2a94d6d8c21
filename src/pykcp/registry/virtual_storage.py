"""What exports say about resources whose objects are not stored with their consumers."""

from __future__ import annotations

from pykcp.machinery.resources import API_EXPORTS
from pykcp.registry.bound import BoundResource
from pykcp.registry.lookup import Lookup
from pykcp.types import Object


def find_storage(lookup: Lookup, bound: BoundResource, group: str, plural: str) -> Object | None:
    """The `storage.virtual` of an exported resource; None if it is stored as usual."""
    export = lookup.get(API_EXPORTS, bound.export_cluster, bound.export)
    for resource in ((export or {}).get("spec") or {}).get("resources") or ():
        if (resource.get("group") or "", resource["name"]) == (group, plural):
            storage: Object | None = (resource.get("storage") or {}).get("virtual")
            return storage
    return None
