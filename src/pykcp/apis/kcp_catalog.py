"""kcp's own resources. Upstream they are custom resources, and they behave so here.

A definition's origin is the logical cluster that kcp keeps it in: system ones are seen
everywhere, the others reach a cluster through the exports of `root`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pykcp.apis.loader import library, shared_type
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.schema.definition import ResourceDefinition, ResourceVersion, Subresource
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.printer import custom_columns

SYSTEM_CRDS = "system:system-crds"
BOUND_CRDS = "system:bound-crds"
KCP_IDENTITY = "kcp"
"""Stands in keys for the identities of the exports in `root`, which differ from one
installation to the next: so the objects of tenancy and the like are always found at one place."""

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

WORKLOAD_GROUP = "workload.kcp.dev"
AGE = ("Age", "date", ".metadata.creationTimestamp")
READY = ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')

ColumnRow = tuple[str, str, str]
_ROWS: dict[tuple[str, str, str], tuple[ColumnRow, ...]] = {}
"""The columns of each version as they are written in CRDs and schemas."""


def _schema(path: str, kind: str) -> Callable[[], Schema]:
    return lambda: library().kind(path, kind)


def _version(
    group: str, name: str, kind: str, rows: tuple[ColumnRow, ...], *, status: bool
) -> ResourceVersion:
    path = f"kcp/{group.partition('.')[0]}_{name}"
    asked = [{"name": n, "type": t, "jsonPath": p} for n, t, p in rows]
    return ResourceVersion.lazy(
        name,
        _schema(path, kind),
        lambda: custom_columns(asked, joins=group == WORKLOAD_GROUP),
        load_list_schema=_schema(path, f"{kind}List"),
        subresources=(Subresource("status", kind, STATUS_VERBS),) if status else (),
    )


def custom(
    group: str,
    kind: str,
    plural: str,
    versions: Mapping[str, tuple[ColumnRow, ...]],
    *,
    origin: str,
    status: bool = True,
    **more: Any,
) -> ResourceDefinition:
    """One of kcp's kinds; `versions` maps each version to its columns, preferred first."""
    _ROWS.update({(group, plural, name): rows for name, rows in versions.items()})
    return ResourceDefinition(
        group=group,
        plural=plural,
        kind=kind,
        list_kind=f"{kind}List",
        all_versions=tuple(_version(group, v, kind, c, status=status) for v, c in versions.items()),
        verbs=VERBS,
        storage_version=next(iter(versions)),
        native=False,
        strategy=f"{plural}.{group}",
        origin=origin,
        identity=KCP_IDENTITY if origin == BOUND_CRDS else "",
        shared=shared_type,
        **{"singular": kind.lower(), "namespaced": False, "categories": ("kcp",), **more},
    )


def column_rows(group: str, plural: str, version: str) -> tuple[ColumnRow, ...]:
    """Name, type and JSON path of the columns of one of kcp's kinds."""
    kcp_definitions()
    return _ROWS[group, plural, version]


def system_definitions() -> tuple[ResourceDefinition, ...]:
    """What every logical cluster has from the start, groups in the order of discovery."""
    return tuple(d for d in kcp_definitions() if d.origin == SYSTEM_CRDS)


def exported_definitions() -> tuple[ResourceDefinition, ...]:
    """What reaches logical clusters through the exports of `root`."""
    return tuple(d for d in kcp_definitions() if d.origin == BOUND_CRDS)


@cache
def _exported_names() -> frozenset[tuple[str, str]]:
    return frozenset((d.group, d.plural) for d in exported_definitions())


def is_exported(group: str, plural: str) -> bool:
    """Whether a resource belongs to the exports of `root`."""
    return (group, plural) in _exported_names()


def kind_id(kind: GroupVersionResource) -> str:
    """The `resource_id` of a kind of Kubernetes or kcp, whichever way clusters get it."""
    identity = KCP_IDENTITY if is_exported(kind.group, kind.resource) else ""
    return resource_id(kind.group, kind.resource, identity)


@cache
def kcp_definitions() -> tuple[ResourceDefinition, ...]:
    """All of kcp's kinds, by group, in the order of discovery."""
    return (
        *_apis(),
        *_cache(),
        _logical_cluster(),
        _shard(),
        *_topology(),
        *_tenancy(),
        *_migration(),
        _move_plan(),
        *_workload(),
    )


@cache
def _logical_cluster() -> ResourceDefinition:
    columns = (("Phase", "string", ".status.phase"), ("URL", "string", ".status.URL"), AGE)
    return custom(
        "core.kcp.io",
        "LogicalCluster",
        "logicalclusters",
        {"v1alpha1": columns},
        origin=SYSTEM_CRDS,
    )


def _shard() -> ResourceDefinition:
    columns = (
        ("Region", "string", ".metadata.labels['region']"),
        ("URL", "string", ".spec.baseURL"),
        ("External URL", "string", ".spec.externalURL"),
        AGE,
    )
    return custom("core.kcp.io", "Shard", "shards", {"v1alpha1": columns}, origin=BOUND_CRDS)


def _apis() -> tuple[ResourceDefinition, ...]:
    group = "apis.kcp.io"
    system: dict[str, Any] = {"origin": SYSTEM_CRDS}
    urls_ready = '.status.conditions[?(@.type=="VirtualWorkspaceURLsReady")].status'
    slices = (
        ("Export", "string", ".spec.export.name"),
        ("Partition", "string", ".spec.partition"),
        AGE,
    )
    bindings = (AGE, READY)
    exports = {"v1alpha2": (AGE,), "v1alpha1": (AGE, ("Ready", "string", urls_ready))}
    plain = {"v1alpha1": (AGE,)}
    return (
        custom(
            group,
            "APIBinding",
            "apibindings",
            {"v1alpha2": bindings, "v1alpha1": bindings},
            **system,
        ),
        custom(group, "APIConversion", "apiconversions", plain, status=False, **system),
        custom(group, "APIExport", "apiexports", exports, **system),
        custom(
            group,
            "APIExportEndpointSlice",
            "apiexportendpointslices",
            {"v1alpha1": slices},
            **system,
        ),
        custom(group, "APIResourceSchema", "apiresourceschemas", plain, status=False, **system),
    )


def _cache() -> tuple[ResourceDefinition, ...]:
    group = "cache.kcp.io"
    resource = (("Resource", "string", ".spec.resource"), AGE)
    published = ("ClusterCachedResource", "string", ".spec.clusterCachedResource.name")
    return (
        custom(
            group,
            "ClusterCachedResource",
            "clustercachedresources",
            {"v1alpha1": resource},
            origin=SYSTEM_CRDS,
        ),
        custom(
            group,
            "ClusterCachedResourceEndpointSlice",
            "clustercachedresourceendpointslices",
            {"v1alpha1": (published, AGE)},
            origin=SYSTEM_CRDS,
        ),
        custom(group, "CachedObject", "cachedobjects", {"v1alpha1": (AGE,)}, origin=BOUND_CRDS),
    )


def _topology() -> tuple[ResourceDefinition, ...]:
    group = "topology.kcp.io"
    owner = ("Owner", "string", ".metadata.ownerReferences[*].name")
    count = ("Count", "string", ".status.count")
    return (
        custom(
            group,
            "Partition",
            "partitions",
            {"v1alpha1": (owner, AGE)},
            origin=BOUND_CRDS,
            status=False,
        ),
        custom(
            group, "PartitionSet", "partitionsets", {"v1alpha1": (count, AGE)}, origin=BOUND_CRDS
        ),
    )


def _tenancy() -> tuple[ResourceDefinition, ...]:
    group = "tenancy.kcp.io"
    workspaces = (
        ("Type", "string", ".spec.type.name"),
        ("Region", "string", ".metadata.labels['region']"),
        ("Phase", "string", ".status.phase"),
        ("URL", "string", ".spec.URL"),
        AGE,
    )
    return (
        custom(
            group,
            "WorkspaceAuthenticationConfiguration",
            "workspaceauthenticationconfigurations",
            {"v1alpha1": ()},
            origin=BOUND_CRDS,
            status=False,
        ),
        custom(
            group,
            "Workspace",
            "workspaces",
            {"v1alpha1": workspaces},
            origin=BOUND_CRDS,
            short_names=("ws",),
        ),
        custom(group, "WorkspaceType", "workspacetypes", {"v1alpha1": ()}, origin=BOUND_CRDS),
    )


def _migration() -> tuple[ResourceDefinition, ...]:
    group = "migration.kcp.io"
    migrations = (
        ("Logical Cluster", "string", ".spec.logicalCluster"),
        ("Phase", "string", ".status.phase"),
        ("Destination", "string", ".spec.destinationShard"),
        ("Entries Copied", "integer", ".status.entriesCopied"),
    )
    return (
        custom(
            group,
            "LogicalClusterDump",
            "logicalclusterdumps",
            {"v1alpha1": ()},
            origin=BOUND_CRDS,
            status=False,
            namespaced=True,
            categories=(),
        ),
        custom(
            group,
            "LogicalClusterMigration",
            "logicalclustermigrations",
            {"v1alpha1": migrations},
            origin=BOUND_CRDS,
        ),
    )


def _move_plan() -> ResourceDefinition:
    columns = (
        ("Phase", "string", ".status.phase"),
        ("Moved", "integer", ".status.moved"),
        ("Total", "integer", ".status.total"),
        ("Approved", "boolean", ".spec.approved"),
        AGE,
    )
    return custom(
        "moving.pykcp.io", "MovePlan", "moveplans", {"v1alpha1": columns}, origin=BOUND_CRDS
    )


def _workload() -> tuple[ResourceDefinition, ...]:
    group, types = WORKLOAD_GROUP, "apiresource.kcp.dev"
    bound: dict[str, Any] = {"origin": BOUND_CRDS}
    clusters = (
        ("Location", "string", ".metadata.name"),
        READY,
        ("Synced API resources", "string", ".status.syncedResources[*].resource"),
        ("Version", "string", ".status.version"),
        AGE,
    )
    bindings = (
        ("Kind", "string", ".spec.ref.kind"),
        ("Workload", "string", ".spec.ref.name"),
        ("Clusters", "string", ".spec.clusters[*].name"),
        AGE,
    )
    placements = (("Strategy", "string", ".spec.strategy"), AGE)
    compatible = '.status.conditions[?(@.type=="Compatible")].status'
    available = '.status.conditions[?(@.type=="Available")].status'
    published = '.status.conditions[?(@.type=="Published")].status'
    enforced = '.status.conditions[?(@.type=="Enforced")].status'
    imports = (
        ("Location", "string", ".spec.location"),
        ("Schema update strategy", "string", ".spec.schemaUpdateStrategy"),
        ("API Version", "string", ".spec.groupVersion.version"),
        ("API Resource", "string", ".spec.plural"),
        ("Compatible", "string", compatible),
        ("Available", "string", available),
    )
    negotiated = (
        ("Publish", "boolean", ".spec.publish"),
        ("API Version", "string", ".spec.groupVersion.version"),
        ("API Resource", "string", ".spec.plural"),
        ("Published", "string", published),
        ("Enforced", "string", enforced),
    )
    return (
        custom(group, "Cluster", "clusters", {"v1alpha1": clusters}, **bound),
        custom(
            group, "Placement", "placements", {"v1alpha1": placements}, namespaced=True, **bound
        ),
        custom(
            group,
            "Binding",
            "workloadbindings",
            {"v1alpha1": bindings},
            namespaced=True,
            singular="workloadbinding",
            **bound,
        ),
        custom(types, "APIResourceImport", "apiresourceimports", {"v1alpha1": imports}, **bound),
        custom(
            types,
            "NegotiatedAPIResource",
            "negotiatedapiresources",
            {"v1alpha1": negotiated},
            **bound,
        ),
    )
