"""APIBindings: checks the permission to bind the export, and sets the label of the export."""

from __future__ import annotations

from pykcp.admission.plugins.kcp.binding_parts import (
    ExportTarget,
    complete_selectors,
    finding_of,
    old_target,
    shown_binding,
    target_of,
    whole_binding,
)
from pykcp.admission.plugins.kcp.export_access import ExportAccessPlugin
from pykcp.admission.refusing import denial, refusal
from pykcp.apis.kcp.binding_rules import bad_binding_round_trip
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import EXPORT_LABEL, export_label_value
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.status import Forbidden, go_quote, invalid
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest


class APIBindingRules:
    name = "apis.kcp.io/APIBinding"
    kind = API_BINDINGS

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        """By callables: both are made after admission."""
        self._access = ExportAccessPlugin(lookup, authorizer)

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        obj = await whole_binding(request)
        if obj is not None:
            if request.resource.version == API_BINDINGS.version:
                complete_selectors(obj)
            elif (error := bad_binding_round_trip(obj)) is not None:
                raise refusal(request, error.text())
        target = target_of(obj if obj is not None else await shown_binding(request))
        if not target.name or target == await old_target(request):
            return
        cluster = self._export_cluster(request, target)
        if cluster is None:
            raise _no_permission(request, target)
        metadata, due = request.metadata, export_label_value(cluster, target.name)
        metadata["labels"] = {**(metadata.get("labels") or {}), EXPORT_LABEL: due}

    async def validate(self, request: AdmissionRequest) -> None:
        why, target, old = finding_of(request)
        if why:
            raise refusal(request, why)
        if target == old:
            return
        cluster = self._export_cluster(request, target)
        if cluster is None or not await self._access.may_bind(request, cluster, target.name):
            raise _no_permission(request, target)
        due = export_label_value(cluster, target.name)
        if target.label != due:
            at = f"metadata.labels[{EXPORT_LABEL}]"
            wrong = invalid(at, target.label, f"must be set to {go_quote(due)}")
            raise refusal(request, wrong.text())

    def _export_cluster(self, request: AdmissionRequest, target: ExportTarget) -> str | None:
        own = request.context.cluster
        return self._access.cluster_of(own, target.path, target.name, may_wait_for_root=True)


def _no_permission(request: AdmissionRequest, target: ExportTarget) -> Forbidden:
    """The same error for missing exports, so that it does not disclose which exist."""
    action = "create" if request.operation == "CREATE" else "update"
    export = clusters.join(target.path, target.name)
    return denial(
        request, f"unable to {action} APIBinding: no permission to bind to export {export}"
    )
