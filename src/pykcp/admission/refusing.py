"""Rejections by plug-ins: 403, naming the object as in upstream."""

from __future__ import annotations

from pykcp.machinery.status import Denied, Forbidden
from pykcp.registry.verbs.admitting import AdmissionRequest


def refusal(request: AdmissionRequest, why: str) -> Forbidden:
    """`<resource>.<group> "<name>" is forbidden: <why>`; a name yet to be made, by its beginning."""
    return Forbidden.resource(*_subject(request), why)


def denial(request: AdmissionRequest, why: str) -> Denied:
    """The same for a missing permission in another cluster; sent at a constant time, to disclose nothing."""
    return Denied.resource(*_subject(request), why)


def _subject(request: AdmissionRequest) -> tuple[str, str, str]:
    resource, name = request.resource, request.name
    if not name:
        metadata = request.metadata
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return resource.group, resource.plural, name
