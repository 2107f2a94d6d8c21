"""Reserved names of workspace types: `any` and `system`."""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.machinery.resources import WORKSPACE_TYPES
from pykcp.machinery.status import invalid
from pykcp.registry.verbs.admitting import AdmissionRequest

RESERVED = frozenset(("any", "system"))


class ReservedNames:
    """In the mutating round, before the schema has its say about the name."""

    name = "apis.kcp.io/ReservedNames"
    kind = WORKSPACE_TYPES

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE"

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.name in RESERVED:
            why = invalid("metadata.name", request.name, "name is reserved").text()
            raise refusal(request, why)
