"""How a plug-in refuses: 403, naming the object as upstream does."""

from __future__ import annotations

from pykcp.machinery.status import Forbidden
from pykcp.registry.admitting import AdmissionRequest


def refusal(request: AdmissionRequest, why: str) -> Forbidden:
    """`<resource>.<group> "<name>" is forbidden: <why>`; a name yet to be made, by its beginning."""
    resource, name = request.resource, request.name
    if not name:
        metadata = (request.obj or {}).get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return Forbidden.resource(resource.group, resource.plural, name, why)
