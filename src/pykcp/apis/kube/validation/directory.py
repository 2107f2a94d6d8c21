"""Which rules belong to which kind. Modules are imported when first asked for.

Reviews and token requests are not here: they are answered and not stored, and judged where
they are answered.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from pykcp.apis.kube.validation.rules import KindRules

_RBAC = "rbac.authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

_WHERE: dict[tuple[str, str], tuple[str, str]] = {
    ("", "namespaces"): ("core", "NAMESPACE"),
    ("", "configmaps"): ("core", "CONFIG_MAP"),
    ("", "secrets"): ("core", "SECRET"),
    ("", "serviceaccounts"): ("core", "SERVICE_ACCOUNT"),
    ("", "events"): ("events", "EVENT"),
    ("", "resourcequotas"): ("quota", "RESOURCE_QUOTA"),
    ("events.k8s.io", "events"): ("events", "NEW_EVENT"),
    (_RBAC, "roles"): ("rbac", "ROLE"),
    (_RBAC, "clusterroles"): ("rbac", "CLUSTER_ROLE"),
    (_RBAC, "rolebindings"): ("rbac", "ROLE_BINDING"),
    (_RBAC, "clusterrolebindings"): ("rbac", "CLUSTER_ROLE_BINDING"),
    ("coordination.k8s.io", "leases"): ("coordination", "LEASE"),
    (_CERTIFICATES, "certificatesigningrequests"): ("certificates", "CERTIFICATE_SIGNING_REQUEST"),
    (_ADMISSION, "validatingwebhookconfigurations"): ("admission_webhooks", "VALIDATING"),
    (_ADMISSION, "mutatingwebhookconfigurations"): ("admission_webhooks", "MUTATING"),
    (_ADMISSION, "validatingadmissionpolicies"): ("admission_policies", "VALIDATING_POLICY"),
    (_ADMISSION, "validatingadmissionpolicybindings"): (
        "admission_bindings",
        "VALIDATING_POLICY_BINDING",
    ),
    (_ADMISSION, "mutatingadmissionpolicies"): ("admission_policies", "MUTATING_POLICY"),
    (_ADMISSION, "mutatingadmissionpolicybindings"): (
        "admission_bindings",
        "MUTATING_POLICY_BINDING",
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (
        "crd.definition",
        "CUSTOM_RESOURCE_DEFINITION",
    ),
    ("core.kcp.io", "logicalclusters"): ("logicalcluster", "LOGICAL_CLUSTER"),
}


@cache
def strategy_for(group: str, resource: str) -> KindRules:
    """The rules of a built-in kind; raises KeyError for one that is not built in."""
    module, name = _WHERE[group, resource]
    rules = getattr(import_module(f"pykcp.apis.kube.validation.{module}"), name)
    assert isinstance(rules, KindRules)
    return rules
