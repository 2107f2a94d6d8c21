"""What admission has to know of a binding, without decoding a large one.

Its claims can be some megabytes. What is wrong with them is found out by the worker process that
validates the binding; here its reference and its label are read.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pykcp.admission.field_errors import listed
from pykcp.aio.turns import heavy_turn
from pykcp.apis.kcp.binding_rules import binding_errors, export_reference
from pykcp.apis.kcp.round_trip import BINDING_ANNOTATIONS
from pykcp.machinery.kcp.hashes import EXPORT_LABEL
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.untyped import mapping, mappings
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object


class ExportTarget(NamedTuple):
    """Which export a binding is for, and what its label says about that."""

    path: str
    name: str
    label: str


def target_of(binding: Object) -> ExportTarget:
    labels = mapping(mapping(binding.get("metadata")).get("labels"))
    return ExportTarget(*export_reference(binding), str(labels.get(EXPORT_LABEL) or ""))


class _Export(msgspec.Struct):
    name: str = ""
    path: str = ""


class _Reference(msgspec.Struct):
    export: _Export | None = None


class _Spec(msgspec.Struct):
    reference: _Reference | None = None


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Referring(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None


class _Claim(msgspec.Struct):
    selector: dict[str, msgspec.Raw] | None = None


class _ClaimingSpec(msgspec.Struct, rename="camel"):
    permission_claims: list[_Claim] | None = None


class _Claiming(msgspec.Struct):
    spec: _ClaimingSpec | None = None


_decode_referring = msgspec.json.Decoder(_Referring).decode
_decode_claiming = msgspec.json.Decoder(_Claiming).decode


def _with_reference(metadata: Object, value: bytes) -> Object:
    """A binding with these metadata and nothing but the reference of its text."""
    return _referring(metadata, _decode_referring(value))


def _referring(metadata: Object, decoded: _Referring) -> Object:
    spec = decoded.spec
    export = spec.reference.export if spec is not None and spec.reference is not None else None
    reference = {} if export is None else {"export": {"path": export.path, "name": export.name}}
    return {"metadata": metadata, "spec": {"reference": reference}}


async def shown_binding(request: AdmissionRequest) -> Object:
    """The binding of a request: all of it, or its metadata and its reference if it is large."""
    if isinstance(request, LargeRequest):
        async with heavy_turn(request.context.cluster):
            try:
                text = request.text()  # before its metadata is taken apart
                return _with_reference(request.metadata, text)
            except msgspec.ValidationError:  # of the wrong shape: its schema is going to say so
                _ = request.obj  # decoded
    assert request.obj is not None
    return request.obj


async def whole_binding(request: AdmissionRequest) -> Object | None:
    """The binding that a request sends, if its claims or annotations must be looked at.

    None if it is large and they need not be.
    """
    if not isinstance(request, LargeRequest):
        return request.obj
    async with heavy_turn(request.context.cluster):
        return request.obj if _is_to_be_decoded(request) else None


def _is_to_be_decoded(request: LargeRequest) -> bool:
    if request.resource.version != API_BINDINGS.version:
        return bool(BINDING_ANNOTATIONS & (request.metadata.get("annotations") or {}).keys())
    try:
        spec = _decode_claiming(request.text()).spec
    except msgspec.ValidationError:
        return True
    given = (spec.permission_claims if spec is not None else None) or ()
    return any(claim.selector is None for claim in given)


def complete_selectors(binding: Object) -> None:
    """A claim without a selector has an empty one, which is refused for what it is."""
    for claim in mappings(mapping(binding.get("spec")).get("permissionClaims")):
        if claim.get("selector") is None:
            claim["selector"] = {}


async def old_target(request: AdmissionRequest) -> ExportTarget | None:
    """What a binding was for before; None if it is new."""
    if request.operation == "CREATE":
        return None
    if not isinstance(request, LargeRequest):
        return target_of(request.old or {})
    # As it is stored now. If the update was not made from that, it is going to be made again.
    cluster = request.context.cluster
    async with heavy_turn(cluster):
        entry = request.resource.entry(cluster, request.namespace, request.name)
        if entry is None:
            return None
        stored = _decode_referring(entry.value)
    return target_of(_referring({"labels": stored.metadata.labels or {}}, stored))


class BindingFinding(NamedTuple):
    """What a worker process finds out about a binding that it validates."""

    why: str
    """What is wrong with it; empty if nothing is."""
    target: ExportTarget
    old: ExportTarget | None

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def binding_finding(obj: Object, old: Object | None, version: str) -> BindingFinding:
    errors = binding_errors(obj, old, has_selectors=version == API_BINDINGS.version)
    before = None if old is None else target_of(old)
    return BindingFinding(listed(errors) if errors else "", target_of(obj), before)


_decode_finding = msgspec.json.Decoder(BindingFinding).decode


def finding_of(request: AdmissionRequest) -> BindingFinding:
    """The same for a request, whose binding has been validated if it is large."""
    if isinstance(request, LargeRequest):
        return _decode_finding(request.finding)
    assert request.obj is not None
    return binding_finding(request.obj, request.old, request.resource.version)
