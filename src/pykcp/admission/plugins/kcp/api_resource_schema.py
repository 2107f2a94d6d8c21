"""APIResourceSchemas: validated like CRDs; immutable, because bindings depend on them."""

from __future__ import annotations

from pykcp.admission.field_errors import listed
from pykcp.admission.refusing import refusal
from pykcp.apis.kcp.resource_schema import resource_schema_errors, resource_schema_update_errors
from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.create import facts_of
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object


class APIResourceSchemaRules:
    name = "tenancy.kcp.io/APIResourceSchema"
    kind = API_RESOURCE_SCHEMAS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        if isinstance(request, LargeRequest):
            why = request.finding  # the worker process that judged the object has looked
        else:
            assert request.obj is not None
            facts = facts_of(request.resource, request.context)
            why = schema_finding(request.obj, request.old, facts)
        if why:
            raise refusal(request, why)


def schema_finding(obj: Object, old: Object | None, facts: Facts) -> str:
    """What is wrong with a new or changed schema; "" if nothing is."""
    if old is None:
        errors = resource_schema_errors(obj, facts)
    else:
        errors = resource_schema_update_errors(obj, old, facts)
    return listed(errors) if errors else ""
