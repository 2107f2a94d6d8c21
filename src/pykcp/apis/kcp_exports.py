"""The exports of `root`: kcp's own kinds, as API resource schemas.

The names of the schemas are kcp's, so that references to them work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pykcp.apis.kcp_catalog import column_rows, kcp_definitions
from pykcp.machinery.schema.definition import ResourceDefinition, ResourceVersion
from pykcp.machinery.schema.openapi_json import to_json
from pykcp.types import Object

_PREFIXES: Mapping[str, str] = {
    "shards.core.kcp.io": "v260302-ae9fdd9c1",
    "logicalclusters.core.kcp.io": "v260522-2bf05df66",
    "workspaces.tenancy.kcp.io": "v260522-2bf05df66",
    "workspacetypes.tenancy.kcp.io": "v260519-96f2749",
    "workspaceauthenticationconfigurations.tenancy.kcp.io": "v250827-717cfea84",
    "partitions.topology.kcp.io": "v240903-d6797056a",
    "partitionsets.topology.kcp.io": "v240903-d6797056a",
    "cachedobjects.cache.kcp.io": "v250523-2b8c1d3c5",
    "clustercachedresources.cache.kcp.io": "v250920-de0c8484d",
    "clustercachedresourceendpointslices.cache.kcp.io": "v260804-b35f3bb61",
    "logicalclustermigrations.migration.kcp.io": "v260702-7381341f5",
    "logicalclusterdumps.migration.kcp.io": "v260702-7381341f5",
    "moveplans.moving.pykcp.io": "v261116-1",
    "clusters.workload.kcp.dev": "v261116-1",
    "placements.workload.kcp.dev": "v261116-2",
    "workloadbindings.workload.kcp.dev": "v261116-1",
    "apiresourceimports.apiresource.kcp.dev": "v261116-1",
    "negotiatedapiresources.apiresource.kcp.dev": "v261116-1",
}

EXPORTS: Mapping[str, tuple[str, ...]] = {
    "shards.core.kcp.io": ("shards.core.kcp.io",),
    "tenancy.kcp.io": (
        "workspaceauthenticationconfigurations.tenancy.kcp.io",
        "workspaces.tenancy.kcp.io",
        "workspacetypes.tenancy.kcp.io",
    ),
    "topology.kcp.io": ("partitions.topology.kcp.io", "partitionsets.topology.kcp.io"),
    "cache.kcp.io": (
        "clustercachedresourceendpointslices.cache.kcp.io",
        "clustercachedresources.cache.kcp.io",
    ),
    "migration.kcp.io": (
        "logicalclusterdumps.migration.kcp.io",
        "logicalclustermigrations.migration.kcp.io",
    ),
    "moving.pykcp.io": ("moveplans.moving.pykcp.io",),
    "workload.kcp.dev": (
        "apiresourceimports.apiresource.kcp.dev",
        "clusters.workload.kcp.dev",
        "negotiatedapiresources.apiresource.kcp.dev",
        "placements.workload.kcp.dev",
        "workloadbindings.workload.kcp.dev",
    ),
}
"""The resources of each export."""

ADDED_EXPORTS = frozenset({"moving.pykcp.io", "workload.kcp.dev"})
"""Exports that a root shard of kcp, or of an older version, does not have."""


def schema_name(resource: str) -> str:
    """The name of the schema of `workspaces.tenancy.kcp.io` and the like."""
    return f"{_PREFIXES[resource]}.{resource}"


def resource_names() -> tuple[str, ...]:
    """All that have a schema in `root`; some are exported nowhere."""
    return tuple(_PREFIXES)


def export(name: str) -> Object:
    """One of the exports of `root`."""
    resources = []
    for resource in EXPORTS[name]:
        plural, _, group = resource.partition(".")
        resources.append(
            {
                "name": plural,
                "group": group,
                "schema": schema_name(resource),
                "storage": {"crd": {}},
            }
        )
    spec: Object = {"resources": resources}
    if name == "tenancy.kcp.io":
        spec["maximalPermissionPolicy"] = {"local": {}}
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": name},
        "spec": spec,
    }


@cache
def _definitions() -> Mapping[str, ResourceDefinition]:
    return {d.name: d for d in kcp_definitions()}


def resource_schema(resource: str) -> Object:
    """The APIResourceSchema of one of kcp's kinds."""
    definition = _definitions()[resource]
    names: Object = {
        "plural": definition.plural,
        "singular": definition.singular,
        "kind": definition.kind,
        "listKind": definition.list_kind,
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    if definition.categories:
        names["categories"] = list(definition.categories)
    return {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": schema_name(resource)},
        "spec": {
            "group": definition.group,
            "names": names,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [_version(definition, v) for v in definition.all_versions],
        },
    }


def _version(definition: ResourceDefinition, version: ResourceVersion) -> Object:
    made: Object = {
        "name": version.name,
        "served": True,
        "storage": version.name == definition.storage_version,
        "schema": _schema(version),
        "subresources": {"status": {}} if version.subresources else {},
    }
    rows = column_rows(definition.group, definition.plural, version.name)
    if rows:
        made["additionalPrinterColumns"] = [
            {"name": name, "type": kind, "jsonPath": path} for name, kind, path in rows
        ]
    return made


def _schema(version: ResourceVersion) -> Object:
    written = to_json(version.load_schema(), None, root=True)
    written.pop("x-kubernetes-group-version-kind", None)
    metadata = written["properties"]["metadata"]
    restricted = {
        name: schema
        for name, schema in (metadata.get("properties") or {}).items()
        if name == "name" and set(schema) - {"type", "description"}
    }
    written["properties"]["metadata"] = {"type": "object"}
    if restricted:
        written["properties"]["metadata"]["properties"] = restricted
    return written
