"""The admission of a shard: all plug-ins, in the order in which kcp has them."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.admission.chain import AdmissionChain
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
from pykcp.admission.plugins.kcp.cluster_cached_resource import ClusterCachedResourceRules
from pykcp.admission.plugins.kcp.deletion_protection import (
    LogicalClusterProtection,
    ProtectedWorkspaces,
    WorkspaceProtection,
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
from pykcp.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from pykcp.admission.plugins.object_count import ObjectCountLimit
from pykcp.admission.plugins.reserved_crds import ReservedCRDAnnotations, ReservedCRDGroups
from pykcp.admission.plugins.resource_quota import Quotas, ResourceQuota
from pykcp.admission.plugins.role_escalation import RoleEscalation
from pykcp.admission.tenants import TenantAdmission
from pykcp.auth.authz.chain import Authorizer
from pykcp.registry.catalog.claimed import AcceptedClaims
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import ObjectLookup
from pykcp.storage.interface import Store


def make_admission(
    store: Store,
    tenants: TenantAdmission,
    quotas: Quotas,
    object_count: ObjectCountLimit,
    lookup: Callable[[], ObjectLookup],
    authorizer: Callable[[], Authorizer],
    directory: Callable[[], Directory],
    *,
    tenants_set_limits: bool = False,
) -> AdmissionChain:
    """By callables come those that are made after admission, and of it."""
    workspaces = WorkspaceRules(lookup)
    type_exists = WorkspaceTypeExists(lookup, authorizer)
    cluster_finalizer, clusters = (
        LogicalClusterDeletionFinalizer(),
        LogicalClusterRules(keeps_object_limit=not tenants_set_limits),
    )
    bindings = APIBindingRules(lookup, authorizer)
    binding_finalizer = APIBindingDeletionFinalizer()
    shards = ShardAddresses()
    claims = PermissionClaims(AcceptedClaims(store), lookup)
    paths = PathAnnotation(lookup)
    protected = ProtectedWorkspaces(store, lookup)
    return AdmissionChain(
        mutating=[
            NamespaceLifecycle(store),
            workspaces,
            cluster_finalizer,
            shards,
            type_exists,
            clusters,
            bindings,
            binding_finalizer,
            tenants.mutating_webhooks,
            tenants.mutating_policies,
            ReservedNames(),
            claims,
            paths,
        ],
        validating=[
            RoleEscalation(authorizer),
            CertificateApproval(authorizer),
            CertificateSigning(authorizer),
            CertificateSubjectRestriction(),
            APIResourceSchemaRules(),
            workspaces,
            cluster_finalizer,
            shards,
            WorkspaceTypeRules(lookup, authorizer),
            type_exists,
            clusters,
            APIExportRules(),
            bindings,
            binding_finalizer,
            APIExportEndpointSliceRules(lookup, authorizer),
            tenants.validating_policies,
            tenants.validating_webhooks,
            ReservedCRDAnnotations(),
            ReservedCRDGroups(),
            claims,
            paths,
            object_count,
            ResourceQuota(store, quotas),
            ClusterCachedResourceRules(lookup, directory),
            CachedResourceSliceRules(lookup, authorizer),
            WorkspaceProtection(protected),
            LogicalClusterProtection(protected),
        ],
    )
