"""Groups, versions and resources as small values."""

from __future__ import annotations

from typing import NamedTuple


class GroupVersionResource(NamedTuple):
    group: str
    version: str
    resource: str

    def __str__(self) -> str:
        return ".".join(part for part in (self.resource, self.version, self.group) if part)


def split_api_version(api_version: str) -> tuple[str, str]:
    """`apps/v1` → (`apps`, `v1`); `v1` → (``, `v1`)."""
    group, _, version = api_version.rpartition("/")
    return group, version


NAMESPACES = GroupVersionResource("", "v1", "namespaces")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
EVENTS = GroupVersionResource("", "v1", "events")
CLUSTER_ROLES = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterroles")
CLUSTER_ROLE_BINDINGS = GroupVersionResource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings"
)
ROLES = GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "rolebindings")
CUSTOM_RESOURCE_DEFINITIONS = GroupVersionResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions"
)
LOGICAL_CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")


def _kcp(group: str, resource: str, version: str = "v1alpha1") -> GroupVersionResource:
    return GroupVersionResource(f"{group}.kcp.io", version, resource)


SHARDS = _kcp("core", "shards")
WORKSPACES = _kcp("tenancy", "workspaces")
WORKSPACE_TYPES = _kcp("tenancy", "workspacetypes")
WORKLOAD_CLUSTERS = GroupVersionResource("workload.kcp.dev", "v1alpha1", "clusters")
WORKSPACE_AUTHENTICATION_CONFIGURATIONS = _kcp("tenancy", "workspaceauthenticationconfigurations")
API_EXPORTS = _kcp("apis", "apiexports", "v1alpha2")
API_BINDINGS = _kcp("apis", "apibindings", "v1alpha2")
API_RESOURCE_SCHEMAS = _kcp("apis", "apiresourceschemas")
API_EXPORT_ENDPOINT_SLICES = _kcp("apis", "apiexportendpointslices")
API_CONVERSIONS = _kcp("apis", "apiconversions")
PARTITIONS = _kcp("topology", "partitions")
PARTITION_SETS = _kcp("topology", "partitionsets")
CACHED_OBJECTS = _kcp("cache", "cachedobjects")
CLUSTER_CACHED_RESOURCES = _kcp("cache", "clustercachedresources")
CLUSTER_CACHED_RESOURCE_ENDPOINT_SLICES = _kcp("cache", "clustercachedresourceendpointslices")
LOGICAL_CLUSTER_MIGRATIONS = _kcp("migration", "logicalclustermigrations")
MOVE_PLANS = GroupVersionResource("moving.pykcp.io", "v1alpha1", "moveplans")
