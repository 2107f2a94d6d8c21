"""APIExports: validates the identities of claims and the resources of schemas."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pykcp.admission.refusing import refusal
from pykcp.apis.kcp import conversion
from pykcp.apis.kcp.export_rules import bad_round_trip, export_error
from pykcp.machinery.resources import API_EXPORTS
from pykcp.machinery.status import FieldError, StatusError
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object


class ExportFinding(NamedTuple):
    """What is wrong with an export."""

    why: str = ""
    """Why it is refused; empty if it is not."""
    failure: str = ""
    """kcp's plug-in fails here rather than refuse, and so does the request."""

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


_decode_finding = msgspec.json.Decoder(ExportFinding).decode


def export_finding(obj: Object, version: str) -> ExportFinding:
    error: FieldError | None = None
    if version != API_EXPORTS.version:
        error = bad_round_trip(obj)
        if error is None:
            try:
                obj = conversion.export_to_v1alpha2(obj)
            except conversion.BadSchemaName as problem:
                text = f"failed to convert v1alpha1 APIExport to v1alpha2: {problem}"
                return ExportFinding(failure=text)
    error = error or export_error(obj)
    return ExportFinding(error.text()) if error is not None else _NOTHING


_NOTHING = ExportFinding()


class APIExportRules:
    name = "apis.kcp.io/APIExport"
    kind = API_EXPORTS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        if isinstance(request, LargeRequest):
            # The worker process that validated the export has looked.
            finding = _decode_finding(request.finding)
        else:
            assert request.obj is not None
            finding = export_finding(request.obj, request.resource.version)
        if finding.why:
            raise refusal(request, finding.why)
        if finding.failure:
            raise StatusError(finding.failure, reason="", details=False)
