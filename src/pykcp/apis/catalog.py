"""The catalogue of built-in resources: Kubernetes' own and kcp's.

Names, scopes, verbs and short names are the facts that clients see in discovery; types
and texts are in the kinds files beside this module and are read when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pykcp.apis import columns
from pykcp.apis.kcp_catalog import kcp_definitions, system_definitions
from pykcp.apis.loader import library, shared_type
from pykcp.machinery.schema.definition import (
    Column,
    ResourceDefinition,
    ResourceVersion,
    Subresource,
)
from pykcp.machinery.schema.model import Schema

__all__ = [
    "Column",
    "ResourceDefinition",
    "ResourceVersion",
    "Subresource",
    "all_definitions",
    "builtin_definitions",
    "definition_of",
]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
WITHOUT_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
STATUS_VERBS = ("get", "patch", "update")

Columns = Callable[[], tuple[Column, ...]]


def _schema(path: str, kind: str) -> Callable[[], Schema]:
    return lambda: library().kind(path, kind)


def native(
    group: str,
    kind: str,
    plural: str,
    path: str,
    table: Columns,
    *,
    namespaced: bool = False,
    short: tuple[str, ...] = (),
    verbs: tuple[str, ...] = VERBS,
    subresources: tuple[Subresource, ...] = (),
    selectable: tuple[str, ...] = (),
    **more: Any,
) -> ResourceDefinition:
    """A kind of Kubernetes itself. All of them are served in v1 only."""
    ephemeral = verbs == CREATE_ONLY
    version = ResourceVersion.lazy(
        "v1",
        _schema(path, kind),
        table,
        load_list_schema=None if ephemeral else _schema(path, f"{kind}List"),
        subresources=subresources,
        selectable_fields=frozenset(selectable),
    )
    return ResourceDefinition(
        group=group,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        namespaced=namespaced,
        all_versions=(version,),
        verbs=verbs,
        storage_version="v1",
        short_names=short,
        strategy=plural,
        ephemeral=ephemeral,
        shared=shared_type,
        **more,
    )


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, STATUS_VERBS)


_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

_EVENTS_GROUP_FIELDS = (
    "reason",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reportingController",
    "type",
)


def _core() -> list[ResourceDefinition]:
    path = "kube/core_v1"
    return [
        native(
            "", "ConfigMap", "configmaps", path, columns.config_map, namespaced=True, short=("cm",)
        ),
        native(
            "",
            "Event",
            "events",
            path,
            columns.event,
            namespaced=True,
            short=("ev",),
            selectable=_EVENT_FIELDS,
        ),
        native(
            "",
            "Namespace",
            "namespaces",
            path,
            columns.namespace,
            short=("ns",),
            verbs=WITHOUT_COLLECTION,
            subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
            selectable=("status.phase",),
        ),
        native(
            "",
            "ResourceQuota",
            "resourcequotas",
            path,
            columns.resource_quota,
            namespaced=True,
            short=("quota",),
            subresources=(_status("ResourceQuota"),),
            returns_deleted=True,
        ),
        native(
            "", "Secret", "secrets", path, columns.secret, namespaced=True, selectable=("type",)
        ),
        native(
            "",
            "ServiceAccount",
            "serviceaccounts",
            path,
            columns.name_and_age,
            namespaced=True,
            short=("sa",),
            subresources=(
                Subresource("token", "TokenRequest", CREATE_ONLY, "authentication.k8s.io", "v1"),
            ),
            returns_deleted=True,
        ),
    ]


def _reviews() -> list[ResourceDefinition]:
    authentication, authorization = "kube/authentication_v1", "kube/authorization_v1"
    return [
        *(
            native(
                "authentication.k8s.io",
                kind,
                plural,
                authentication,
                columns.plain,
                verbs=CREATE_ONLY,
            )
            for kind, plural in (
                ("SelfSubjectReview", "selfsubjectreviews"),
                ("TokenReview", "tokenreviews"),
            )
        ),
        *(
            native(
                "authorization.k8s.io",
                kind,
                plural,
                authorization,
                columns.plain,
                namespaced=kind.startswith("Local"),
                verbs=CREATE_ONLY,
            )
            for kind, plural in (
                ("LocalSubjectAccessReview", "localsubjectaccessreviews"),
                ("SelfSubjectAccessReview", "selfsubjectaccessreviews"),
                ("SelfSubjectRulesReview", "selfsubjectrulesreviews"),
                ("SubjectAccessReview", "subjectaccessreviews"),
            )
        ),
    ]


def _rbac() -> list[ResourceDefinition]:
    group, path = "rbac.authorization.k8s.io", "kube/rbac_v1"
    return [
        native(group, "ClusterRoleBinding", "clusterrolebindings", path, columns.role_binding),
        native(group, "ClusterRole", "clusterroles", path, columns.plain),
        native(group, "RoleBinding", "rolebindings", path, columns.role_binding, namespaced=True),
        native(group, "Role", "roles", path, columns.plain, namespaced=True),
    ]


def _others() -> list[ResourceDefinition]:
    return [
        native(
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            "kube/certificates_v1",
            columns.certificate_signing_request,
            short=("csr",),
            subresources=(
                Subresource("approval", "CertificateSigningRequest", STATUS_VERBS),
                _status("CertificateSigningRequest"),
            ),
            selectable=("spec.signerName",),
        ),
        native(
            "coordination.k8s.io",
            "Lease",
            "leases",
            "kube/coordination_v1",
            columns.lease,
            namespaced=True,
        ),
    ]


def _events() -> list[ResourceDefinition]:
    return [
        native(
            "events.k8s.io",
            "Event",
            "events",
            "kube/events_v1",
            columns.event_of_events_group,
            namespaced=True,
            short=("ev",),
            selectable=_EVENTS_GROUP_FIELDS,
            stored_as=("", "events"),
        )
    ]


def _admission() -> list[ResourceDefinition]:
    group, path = "admissionregistration.k8s.io", "kube/admissionregistration_v1"
    more: dict[str, Any] = {"categories": ("api-extensions",)}
    return [
        native(
            group,
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            path,
            columns.mutating_policy,
            hash_version="v1beta1",
            **more,
        ),
        native(
            group,
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            path,
            columns.policy_binding,
            hash_version="v1beta1",
            **more,
        ),
        native(
            group,
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            path,
            columns.webhooks,
            **more,
        ),
        native(
            group,
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            path,
            columns.validating_policy,
            subresources=(_status("ValidatingAdmissionPolicy"),),
            **more,
        ),
        native(
            group,
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            path,
            columns.policy_binding,
            **more,
        ),
        native(
            group,
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            path,
            columns.webhooks,
            **more,
        ),
    ]


def _extensions() -> list[ResourceDefinition]:
    return [
        native(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "kube/apiextensions_v1",
            columns.plain,
            short=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(_status("CustomResourceDefinition"),),
            hash_version="v1beta1",
        )
    ]


@cache
def builtin_definitions() -> tuple[ResourceDefinition, ...]:
    """What every logical cluster serves, groups in the order in which discovery lists them."""
    return (
        *_core(),
        *_reviews(),
        *_others(),
        *_rbac(),
        *_admission(),
        *_events(),
        *_extensions(),
        *system_definitions(),
    )


@cache
def all_definitions() -> tuple[ResourceDefinition, ...]:
    """The built-in definitions and all of kcp's, including those that clusters get through exports."""
    builtin = builtin_definitions()
    return (*builtin, *(d for d in kcp_definitions() if d not in builtin))


@cache
def _by_resource() -> dict[tuple[str, str], ResourceDefinition]:
    return {(d.group, d.plural): d for d in all_definitions()}


def definition_of(group: str, plural: str) -> ResourceDefinition:
    """The definition of a resource of Kubernetes or kcp; KeyError if there is none."""
    return _by_resource()[group, plural]
