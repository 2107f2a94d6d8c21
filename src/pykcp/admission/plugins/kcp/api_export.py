"""APIExports: validates the identities of claims and the resources of schemas."""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.apis.kcp import conversion
from pykcp.apis.kcp.export_rules import bad_round_trip, export_error
from pykcp.machinery.resources import API_EXPORTS
from pykcp.machinery.status import StatusError
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object


class APIExportRules:
    name = "apis.kcp.io/APIExport"
    kind = API_EXPORTS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        obj = request.obj
        assert obj is not None
        if request.resource.version != API_EXPORTS.version:
            error = bad_round_trip(obj)
            if error is not None:
                raise refusal(request, error.text())
            obj = _converted(obj)
        error = export_error(obj)
        if error is not None:
            raise refusal(request, error.text())


def _converted(obj: Object) -> Object:
    try:
        return conversion.export_to_v1alpha2(obj)
    except conversion.BadSchemaName as error:
        # kcp's plug-in fails here rather than refuse, and so does the request.
        text = f"failed to convert v1alpha1 APIExport to v1alpha2: {error}"
        raise StatusError(text, reason="", details=False) from error
