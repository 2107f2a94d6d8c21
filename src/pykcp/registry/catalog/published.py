"""What exports of other shards define."""

from __future__ import annotations

from pykcp.machinery import meta
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object


def find_published(
    lookup: ObjectLookup, identity: str, group: str, plural: str
) -> tuple[Object, Object | None] | None:
    """The schema behind a resource of an identity, and its `storage.virtual` if it has any."""
    if lookup.replica is None:
        return None
    for export in lookup.replica.exports_of(identity):
        for resource in (export.get("spec") or {}).get("resources") or ():
            if (resource.get("group") or "", resource["name"]) != (group, plural):
                continue
            schema = lookup.get(API_RESOURCE_SCHEMAS, meta.cluster(export), resource["schema"])
            if schema is not None:
                return schema, (resource.get("storage") or {}).get("virtual")
    return None
