"""Parts of stored objects, for listeners: they run for every change, while all others wait."""

from __future__ import annotations

from typing import Any

import msgspec

from pykcp.types import Object


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[dict[str, Any]] | None = None


class _WithStatus(msgspec.Struct):
    status: _Status | None = None


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    reference: dict[str, Any] | None = None


class _WithReference(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec | None = None


_decode_status = msgspec.json.Decoder(_WithStatus).decode
_decode_reference = msgspec.json.Decoder(_WithReference).decode


def with_state(value: bytes) -> Object:
    """An object with nothing but the phase and the conditions of its status."""
    status = _decode_status(value).status or _Status()
    return {"status": {"phase": status.phase, "conditions": status.conditions or []}}


def with_reference(value: bytes) -> Object:
    """An object with nothing but its annotations and the export that it refers to."""
    found = _decode_reference(value)
    annotations = found.metadata.annotations or {}
    reference = found.spec.reference if found.spec is not None else None
    return {"metadata": {"annotations": annotations}, "spec": {"reference": reference or {}}}
