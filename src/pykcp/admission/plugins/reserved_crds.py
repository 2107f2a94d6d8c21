"""Reserved groups and annotations of kcp in CustomResourceDefinitions."""

from __future__ import annotations

from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import Forbidden
from pykcp.registry.verbs.admitting import AdmissionRequest

BOUND_CRDS = "system:bound-crds"
SYSTEM_CRDS = "system:system-crds"
_RESERVED = "apis.kcp.io"


def _is_definition_write(request: AdmissionRequest) -> bool:
    resource = request.resource
    return (
        resource.plural == CUSTOM_RESOURCE_DEFINITIONS.resource
        and resource.group == CUSTOM_RESOURCE_DEFINITIONS.group
        and request.operation in ("CREATE", "UPDATE")
    )


def _refusal(request: AdmissionRequest, why: str) -> Forbidden:
    resource = request.resource
    return Forbidden.resource(resource.group, resource.plural, request.name, why)


class ReservedCRDAnnotations:
    """Annotations of `apis.kcp.io` say how a definition is bound; only bound ones have them."""

    name = "apis.kcp.io/ReservedCRDAnnotations"
    kind = CUSTOM_RESOURCE_DEFINITIONS

    def wants(self, request: AdmissionRequest) -> bool:
        return _is_definition_write(request) and request.context.cluster != BOUND_CRDS

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        annotations = request.obj["metadata"].get("annotations") or {}
        reserved = [
            f"{key} is a reserved annotation"
            for key in sorted(annotations)
            if f".{key.partition('/')[0]}".endswith(f".{_RESERVED}")
        ]
        if reserved:
            shown = reserved[0] if len(reserved) == 1 else f"[{', '.join(reserved)}]"
            raise _refusal(request, shown)


class ReservedCRDGroups:
    """Groups that end in `apis.kcp.io` are kcp's."""

    name = "kcp.io/ReservedCRDGroups"
    kind = CUSTOM_RESOURCE_DEFINITIONS

    def wants(self, request: AdmissionRequest) -> bool:
        return _is_definition_write(request) and request.context.cluster != SYSTEM_CRDS

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        group = request.obj["spec"].get("group", "")
        if group.endswith(_RESERVED):
            raise _refusal(request, f"{group} is a reserved group")
