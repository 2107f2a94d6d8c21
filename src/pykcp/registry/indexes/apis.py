"""Index entries of exports, bindings and endpoint slices.

They find an export's bindings, the exports of a schema or an identity, the users of a bound
schema, and unfinished objects. Callers must still check the objects that a lookup returns.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.apis.kcp_catalog import is_exported
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.kcp.hashes import EXPORT_LABEL
from pykcp.types import Object

OPEN_BINDINGS = "binding-open"
"""Bindings that are not bound, or of which a condition is not True."""
OPEN_EXPORTS = "export-open"
"""Exports without a valid identity."""

_SETTLED = frozenset(
    (
        "Ready",
        "APIExportValid",
        "BindingUpToDate",
        "InitialBindingCompleted",
        "PermissionClaimsApplied",
        "PermissionClaimsValid",
    )
)


def bindings_of(export_label: str) -> str:
    """Finds the bindings of an export, by the value of their label."""
    return f"binding-of:{export_label}"


def bindings_to_schema(uid: str) -> str:
    """Finds the bindings of a bound schema; kcp's own kinds are not indexed, as they are not looked up."""
    return f"binding-uid:{uid}"


def bindings_claiming(identity: str, group: str, resource: str) -> str:
    """Finds the bindings that accepted a claim on a resource of this identity."""
    return f"binding-claim:{identity}:{resource}.{group}"


def exports_with_identity(identity: str) -> str:
    return f"export-identity:{identity}"


def exports_with_schema(cluster: str, schema: str) -> str:
    return f"export-schema:{cluster}:{schema}"


def exports_with_secret(cluster: str, namespace: str, name: str) -> str:
    return f"export-secret:{cluster}:{namespace}/{name}"


def slices_of(path: str, export: str) -> str:
    """Finds endpoint slices by the reference to their export, as it is written."""
    return f"slice-of:{path}:{export}"


def slices_with_partition(cluster: str, partition: str) -> str:
    return f"slice-partition:{cluster}:{partition}"


def binding_entries(_cluster: str, binding: Object) -> Iterator[str]:
    label = (binding["metadata"].get("labels") or {}).get(EXPORT_LABEL)
    if label:
        yield bindings_of(label)
    status = binding.get("status") or {}
    for bound in status.get("boundResources") or ():
        if not is_exported(bound.get("group") or "", bound.get("resource") or ""):
            yield bindings_to_schema(bound["schema"]["UID"])
    for claim in (binding.get("spec") or {}).get("permissionClaims") or ():
        if claim.get("state") == "Accepted" and claim.get("identityHash"):
            yield bindings_claiming(
                claim["identityHash"], claim.get("group") or "", claim["resource"]
            )
    if not is_settled(binding):
        yield OPEN_BINDINGS


def is_settled(binding: Object) -> bool:
    """Whether a binding is bound and every condition is there and True."""
    if (binding.get("status") or {}).get("phase") != "Bound":
        return False
    true = {c["type"] for c in conditions_of(binding) if c.get("status") == "True"}
    return true >= _SETTLED and len(true) == len(conditions_of(binding))


def export_entries(cluster: str, export: Object) -> Iterator[str]:
    spec = export.get("spec") or {}
    for resource in spec.get("resources") or ():
        yield exports_with_schema(cluster, resource["schema"])
    secret = (spec.get("identity") or {}).get("secretRef")
    if secret:
        yield exports_with_secret(cluster, secret.get("namespace") or "", secret.get("name") or "")
    identity = (export.get("status") or {}).get("identityHash")
    if identity:
        yield exports_with_identity(identity)
    if not is_valid(export):
        yield OPEN_EXPORTS


def is_valid(export: Object) -> bool:
    """Whether the export has an identity that is in order."""
    return any(
        c["type"] == "IdentityValid" and c["status"] == "True" for c in conditions_of(export)
    )


def slice_entries(cluster: str, endpoint_slice: Object) -> Iterator[str]:
    spec = endpoint_slice.get("spec") or {}
    export = spec.get("export") or {}
    yield slices_of(export.get("path") or cluster, export.get("name") or "")
    if spec.get("partition"):
        yield slices_with_partition(cluster, spec["partition"])


MAINTAIN = "Maintain"


def types_maintaining(path: str, export: str) -> str:
    """Finds the workspace types that keep an export bound, by how they refer to it."""
    return f"type-maintains:{path}:{export}"


def type_entries(cluster: str, workspace_type: Object) -> Iterator[str]:
    spec = workspace_type.get("spec") or {}
    if spec.get("defaultAPIBindingLifecycle") == MAINTAIN:
        for given in spec.get("defaultAPIBindings") or ():
            yield types_maintaining(given.get("path") or cluster, given["export"])


BY_KIND = {
    ("tenancy.kcp.io", "workspacetypes"): type_entries,
    ("apis.kcp.io", "apibindings"): binding_entries,
    ("apis.kcp.io", "apiexports"): export_entries,
    ("apis.kcp.io", "apiexportendpointslices"): slice_entries,
}
