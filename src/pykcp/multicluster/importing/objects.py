"""APIResourceImports and NegotiatedAPIResources as objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import orjson

from pykcp.machinery.negotiation.resource import ImportedResource
from pykcp.multicluster.names import (
    LOCATION_LABEL,
    RESOURCE_GROUP,
    VERSION,
    import_name,
    negotiated_name,
)
from pykcp.types import Object

API_VERSION = f"{RESOURCE_GROUP}/{VERSION}"
UPDATE_NEVER, UPDATE_UNPUBLISHED = "UpdateNever", "UpdateUnpublished"
UPDATE_PUBLISHED = "UpdatePublished"
COMPATIBLE, AVAILABLE = "Compatible", "Available"
SUBMITTED, PUBLISHED, ENFORCED = "Submitted", "Published", "Enforced"
CORE = "core"


_COLUMN = ("description", "format", "jsonPath", "name", "priority", "type")


def resource_spec(
    resource: ImportedResource, schema: Object, columns: Sequence[Object] = ()
) -> Object:
    """What an import and a negotiated resource have in common."""
    spec: Object = {
        "groupVersion": {"group": resource.group, "version": resource.version},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "plural": resource.plural,
        "singular": resource.singular or resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "openAPIV3Schema": schema,
    }
    if resource.short_names:
        spec["shortNames"] = list(resource.short_names)
    if resource.categories:
        spec["categories"] = list(resource.categories)
    if columns:
        spec["columnDefinitions"] = [
            {name: column[name] for name in _COLUMN if column.get(name)} for column in columns
        ]
    subresources = sorted(resource.subresources & {"status", "scale"})
    if subresources:
        spec["subResources"] = [{"name": name} for name in subresources]
    return spec


def resource_of(spec: Mapping[str, object]) -> ImportedResource:
    """The resource that a spec is about."""
    group_version: Object = spec["groupVersion"]  # type: ignore[assignment]
    subresources: list[Object] = spec.get("subResources") or []  # type: ignore[assignment]
    short_names: list[str] = spec.get("shortNames") or []  # type: ignore[assignment]
    categories: list[str] = spec.get("categories") or []  # type: ignore[assignment]
    return ImportedResource(
        group_version.get("group") or "",
        group_version["version"],
        str(spec["plural"]),
        str(spec.get("singular") or ""),
        str(spec["kind"]),
        spec["scope"] == "Namespaced",
        tuple(short_names),
        tuple(categories),
        frozenset(one["name"] for one in subresources),
    )


def import_object(
    resource: ImportedResource,
    schema: Object,
    location: str,
    owner_uid: str,
    strategy: str,
    columns: Sequence[Object] = (),
) -> Object:
    """A type of the Cluster `location`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "APIResourceImport",
        "metadata": {
            "name": import_name(resource.plural, location, resource.version, resource.group),
            "labels": {LOCATION_LABEL: location},
            "annotations": {"apiresource.kcp.dev/apiVersion": api_version(resource)},
            "ownerReferences": [
                {
                    "apiVersion": "workload.kcp.dev/v1alpha1",
                    "kind": "Cluster",
                    "name": location,
                    "uid": owner_uid,
                }
            ],
        },
        "spec": {
            **resource_spec(resource, schema, columns),
            "location": location,
            "schemaUpdateStrategy": strategy or UPDATE_UNPUBLISHED,
        },
    }


def negotiated_object(spec: Object, *, publish: bool) -> Object:
    resource = resource_of(spec)
    return {
        "apiVersion": API_VERSION,
        "kind": "NegotiatedAPIResource",
        "metadata": {
            "name": negotiated_name(resource.plural, resource.version, resource.group),
            "annotations": {"apiresource.kcp.dev/apiVersion": api_version(resource)},
        },
        "spec": {**spec, "publish": publish},
    }


def api_version(resource: ImportedResource) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def negotiated_of_import(imported: Object) -> str:
    """The name of the negotiated resource that an import takes part in."""
    resource = resource_of(imported["spec"])
    return negotiated_name(resource.plural, resource.version, resource.group)


def schema_hash(spec: Object) -> str:
    """Equal for types that are served alike; descriptions do not count."""
    counted = ("scope", "kind", "plural", "subResources")
    content = {name: spec.get(name) for name in counted}
    content["schema"] = _without_texts(spec["openAPIV3Schema"])
    return sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]


def _without_texts(node: object) -> object:
    if isinstance(node, dict):
        return {
            name: _without_texts(child)
            for name, child in node.items()
            if not (name == "description" and isinstance(child, str))
        }
    if isinstance(node, list):
        return [_without_texts(child) for child in node]
    return node
