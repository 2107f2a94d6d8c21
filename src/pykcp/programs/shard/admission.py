"""The admission of a shard: all plug-ins, in the order in which kcp has them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pykcp.admission.chain import Mutating, Validating
from pykcp.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from pykcp.admission.plugins.kcp.api_binding import APIBindingRules
from pykcp.admission.plugins.kcp.api_binding_finalizer import APIBindingDeletionFinalizer
from pykcp.admission.plugins.kcp.api_export import APIExportRules
from pykcp.admission.plugins.kcp.api_export_endpoint_slice import APIExportEndpointSliceRules
from pykcp.admission.plugins.kcp.api_resource_schema import APIResourceSchemaRules
from pykcp.admission.plugins.kcp.cached_resource_slice import CachedResourceSliceRules
from pykcp.admission.plugins.kcp.cluster_assignment import ClusterAssignment
from pykcp.admission.plugins.kcp.cluster_cached_resource import ClusterCachedResourceRules
from pykcp.admission.plugins.kcp.cluster_count import LogicalClusterLimit
from pykcp.admission.plugins.kcp.deletion_protection import (
    LogicalClusterProtection,
    OtherShards,
    ProtectedWorkspaces,
    WorkspaceProtection,
    shards_below,
)
from pykcp.admission.plugins.kcp.logical_cluster import LogicalClusterRules
from pykcp.admission.plugins.kcp.logical_cluster_finalizer import LogicalClusterDeletionFinalizer
from pykcp.admission.plugins.kcp.path_annotation import PathAnnotation
from pykcp.admission.plugins.kcp.permission_claims import PermissionClaims
from pykcp.admission.plugins.kcp.reserved_names import ReservedNames
from pykcp.admission.plugins.kcp.shard import ShardAddresses
from pykcp.admission.plugins.kcp.workspace import WorkspaceRules
from pykcp.admission.plugins.kcp.workspace_type import WorkspaceTypeRules
from pykcp.admission.plugins.kcp.workspace_type_exists import WorkspaceTypeExists
from pykcp.admission.plugins.kubernetes.defaults import (
    DefaultClass,
    NodeTaints,
    PodPriority,
    PodRuntime,
    VolumeProtection,
)
from pykcp.admission.plugins.kubernetes.limits import LimitRanger
from pykcp.admission.plugins.kubernetes.pod_security import PodSecurity
from pykcp.admission.plugins.kubernetes.services import ServiceAddresses
from pykcp.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from pykcp.admission.plugins.object_count import ObjectCountLimit
from pykcp.admission.plugins.reserved_crds import ReservedCRDAnnotations, ReservedCRDGroups
from pykcp.admission.plugins.resource_quota import Quotas, ResourceQuota
from pykcp.admission.plugins.role_escalation import RoleEscalation
from pykcp.admission.tenants import TenantAdmission
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.shard.stages.access import AccessStage
from pykcp.programs.shard.stages.catalog import CatalogStage
from pykcp.programs.shard.stages.foundation import Foundation
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.registry.catalog.claimed import AcceptedClaims
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.cluster_room import ClusterRoom
from pykcp.storage.interface import Store

if TYPE_CHECKING:
    from pykcp.admission.policies.remote_params import RemoteParams

_CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
_INGRESSES = GroupVersionResource("networking.k8s.io", "v1", "ingresses")


def install_admission(
    base: Foundation,
    stores: StoresStage,
    catalog: CatalogStage,
    access: AccessStage,
    room: ClusterRoom,
) -> Quotas:
    """Give the chain of the catalog its plug-ins; returns what quotas and their controller share."""
    store, lookup = stores.store, catalog.lookup
    quotas = Quotas(store)
    object_count = ObjectCountLimit(
        store, catalog.directory, base.settings.tenancy.total_object_limit
    )
    object_count.show(base.metrics, base.settings.shard.shard_name)
    tenants = TenantAdmission(
        store,
        catalog.directory,
        access.authorizer,
        base.egress.webhooks,
        provider_of=catalog.bound.provider,
        replica=lookup.replica,
        remote_params=partial(_remote_params, store, catalog),
    )
    both = _InBothPhases(
        WorkspaceRules(lookup),
        LogicalClusterDeletionFinalizer(),
        ShardAddresses(),
        WorkspaceTypeExists(lookup, access.authorizer),
        LogicalClusterRules(keeps_object_limit=not base.settings.tenancy.tenant_object_limits),
        APIBindingRules(lookup, access.authorizer),
        APIBindingDeletionFinalizer(),
        PermissionClaims(AcceptedClaims(store), lookup),
        PathAnnotation(lookup),
        PodPriority(store),
        LimitRanger(store),
        ServiceAddresses(store, base.settings.generic.service_ranges),
    )
    limits: list[Validating] = [
        object_count,
        LogicalClusterLimit(room),
        ResourceQuota(store, quotas),
    ]
    catalog.admission.install(
        _mutating(store, tenants, both, _bare(base)),
        _validating(store, catalog, access.authorizer, tenants, both, limits),
    )
    return quotas


class _InBothPhases(NamedTuple):
    workspaces: WorkspaceRules
    cluster_finalizer: LogicalClusterDeletionFinalizer
    shards: ShardAddresses
    type_exists: WorkspaceTypeExists
    clusters: LogicalClusterRules
    bindings: APIBindingRules
    binding_finalizer: APIBindingDeletionFinalizer
    claims: PermissionClaims
    paths: PathAnnotation
    priorities: PodPriority
    limit_ranges: LimitRanger
    addresses: ServiceAddresses


def _bare(base: Foundation) -> list[Mutating]:
    """What is for a server without the controllers of Kubernetes only."""
    return [] if base.settings.generic.run_kubernetes_controllers else [VolumeProtection()]


def _mutating(
    store: Store, tenants: TenantAdmission, both: _InBothPhases, more: Sequence[Mutating]
) -> list[Mutating]:
    return [
        NamespaceLifecycle(store),
        both.workspaces,
        both.cluster_finalizer,
        both.shards,
        both.type_exists,
        both.clusters,
        both.bindings,
        both.binding_finalizer,
        both.limit_ranges,
        both.priorities,
        PodRuntime(store),
        NodeTaints(),
        *more,
        DefaultClass(store, "DefaultStorageClass", _CLAIMS),
        DefaultClass(store, "DefaultIngressClass", _INGRESSES),
        tenants.mutating_webhooks,
        tenants.mutating_policies,
        ReservedNames(),
        both.claims,
        both.paths,
        both.addresses,
    ]


def _pods_of(catalog: CatalogStage, cluster: str) -> Resource | None:
    return catalog.directory.find(cluster, "", "v1", "pods")


def _remote_params(store: Store, catalog: CatalogStage) -> RemoteParams | None:
    if catalog.peers is None:
        return None
    from pykcp.admission.policies.remote_params import RemoteParams

    return RemoteParams(store, catalog.lookup.replica, catalog.peers)


def _validating(
    store: Store,
    catalog: CatalogStage,
    authorizer: Authorizer,
    tenants: TenantAdmission,
    both: _InBothPhases,
    limits: Sequence[Validating],
) -> list[Validating]:
    lookup = catalog.lookup
    protected, others = (
        ProtectedWorkspaces(store, lookup),
        OtherShards(catalog.peers, partial(shards_below, store, lookup)),
    )
    return [
        RoleEscalation(authorizer),
        CertificateApproval(authorizer),
        CertificateSigning(authorizer),
        CertificateSubjectRestriction(),
        APIResourceSchemaRules(),
        both.workspaces,
        both.cluster_finalizer,
        both.shards,
        WorkspaceTypeRules(lookup, authorizer),
        both.type_exists,
        both.clusters,
        APIExportRules(),
        both.bindings,
        both.binding_finalizer,
        both.limit_ranges,
        PodSecurity(store, partial(_pods_of, catalog)),
        both.priorities,
        APIExportEndpointSliceRules(lookup, authorizer),
        tenants.validating_policies,
        tenants.validating_webhooks,
        ReservedCRDAnnotations(),
        ReservedCRDGroups(),
        both.claims,
        both.paths,
        *limits,
        ClusterCachedResourceRules(lookup, catalog.directory),
        CachedResourceSliceRules(lookup, authorizer),
        WorkspaceProtection(protected, others),
        LogicalClusterProtection(protected, others),
        ClusterAssignment(authorizer),
        both.addresses,  # the last one: what it claims is written next
    ]
