"""APIExportEndpointSlices: checks the permission to bind the export."""

from __future__ import annotations

from pykcp.admission.field_errors import listed
from pykcp.admission.plugins.kcp.export_access import ExportAccessPlugin
from pykcp.admission.refusing import denial, refusal
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import API_EXPORT_ENDPOINT_SLICES
from pykcp.machinery.status import required
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class APIExportEndpointSliceRules:
    name = "apis.kcp.io/APIExportEndpointSlice"
    kind = API_EXPORT_ENDPOINT_SLICES

    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer) -> None:
        """By callables: both are made after admission."""
        self._access = ExportAccessPlugin(lookup, authorizer)

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        path, name = _reference(request.obj)
        if request.old is not None and (path, name) == _reference(request.old):
            return
        if not name:
            raise refusal(request, listed([required("spec.export.name")]))
        cluster = self._access.cluster_of(request.context.cluster, path, name)
        if cluster is None or not await self._access.may_bind(request, cluster, name):
            # also for missing exports, so that the error does not disclose which exist
            raise denial(
                request,
                "unable to create APIExportEndpointSlice: no permission to bind to export "
                f"{clusters.join(path, name)}",
            )


def _reference(obj: Object) -> tuple[str, str]:
    export = (obj.get("spec") or {}).get("export") or {}
    return export.get("path") or "", export.get("name") or ""
