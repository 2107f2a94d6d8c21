"""APIBindings: checks the permission to bind the export, and sets the label of the export."""

from __future__ import annotations

from pykcp.admission.field_errors import listed
from pykcp.admission.plugins.kcp.export_access import ExportAccessPlugin
from pykcp.admission.refusing import denial, refusal
from pykcp.apis.kcp.binding_rules import bad_binding_round_trip, binding_errors, export_reference
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import EXPORT_LABEL, export_label_value
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.status import Forbidden, go_quote, invalid
from pykcp.machinery.untyped import mapping, mappings
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class APIBindingRules:
    name = "apis.kcp.io/APIBinding"
    kind = API_BINDINGS

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        """By callables: both are made after admission."""
        self._access = ExportAccessPlugin(lookup, authorizer)

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        obj = request.obj
        assert obj is not None
        if request.resource.version != API_BINDINGS.version:
            error = bad_binding_round_trip(obj)
            if error is not None:
                raise refusal(request, error.text())
        else:
            _complete_selectors(obj)
        path, name = export_reference(obj)
        if not name or not _is_new_reference(obj, request.old):
            return
        cluster = self._export_cluster(request, path, name)
        if cluster is None:
            raise _no_permission(request, path, name)
        metadata = obj["metadata"]
        labels = {**(metadata.get("labels") or {}), EXPORT_LABEL: export_label_value(cluster, name)}
        metadata["labels"] = labels

    async def validate(self, request: AdmissionRequest) -> None:
        obj, old = request.obj, request.old
        assert obj is not None
        has_selectors = request.resource.version == API_BINDINGS.version
        errors = binding_errors(obj, old, has_selectors=has_selectors)
        if errors:
            raise refusal(request, listed(errors))
        if not _is_new_reference(obj, old):
            return
        path, name = export_reference(obj)
        cluster = self._export_cluster(request, path, name)
        if cluster is None or not await self._access.may_bind(request, cluster, name):
            raise _no_permission(request, path, name)
        given, due = _label(obj), export_label_value(cluster, name)
        if given != due:
            at = f"metadata.labels[{EXPORT_LABEL}]"
            raise refusal(request, invalid(at, given, f"must be set to {go_quote(due)}").text())

    def _export_cluster(self, request: AdmissionRequest, path: str, name: str) -> str | None:
        own = request.context.cluster
        return self._access.cluster_of(own, path, name, may_wait_for_root=True)


def _complete_selectors(binding: Object) -> None:
    """A claim without a selector has an empty one, which is refused for what it is."""
    for claim in mappings(mapping(binding.get("spec")).get("permissionClaims")):
        if claim.get("selector") is None:
            claim["selector"] = {}


def _label(binding: Object) -> str:
    return str((binding["metadata"].get("labels") or {}).get(EXPORT_LABEL) or "")


def _is_new_reference(new: Object, old: Object | None) -> bool:
    if old is None:
        return True
    return export_reference(new) != export_reference(old) or _label(new) != _label(old)


def _no_permission(request: AdmissionRequest, path: str, name: str) -> Forbidden:
    """The same error for missing exports, so that it does not disclose which exist."""
    action = "create" if request.old is None else "update"
    export = clusters.join(path, name)
    return denial(
        request, f"unable to {action} APIBinding: no permission to bind to export {export}"
    )
