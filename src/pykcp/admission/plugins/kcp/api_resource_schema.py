"""APIResourceSchemas must be good CRDs, and are never changed: others have bound them."""

from __future__ import annotations

from pykcp.admission.field_errors import listed
from pykcp.admission.refusing import refusal
from pykcp.apis.kcp.resource_schema import resource_schema_errors, resource_schema_update_errors
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS
from pykcp.registry.admitting import AdmissionRequest
from pykcp.registry.create import facts_of


class APIResourceSchemaRules:
    name = "tenancy.kcp.io/APIResourceSchema"
    kind = API_RESOURCE_SCHEMAS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        facts = facts_of(request.resource, request.context)
        if request.old is None:
            errors = resource_schema_errors(request.obj, facts)
        else:
            errors = resource_schema_update_errors(request.obj, request.old, facts)
        if errors:
            raise refusal(request, listed(errors))
