"""Which export a stored APIBinding has bound, read without decoding its claims, which may be long."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class BindingSource(NamedTuple):
    name: str
    cluster: str
    """Its logical cluster; "" if the export has not been found yet."""


class _Export(msgspec.Struct):
    name: str = ""


class _Reference(msgspec.Struct):
    export: _Export | None = None


class _Spec(msgspec.Struct):
    reference: _Reference | None = None


class _Status(msgspec.Struct, rename="camel"):
    api_export_cluster_name: str | None = None


class _Binding(msgspec.Struct):
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Binding).decode


def source_of(binding: bytes) -> BindingSource:
    spec, status = (found := _decode(binding)).spec, found.status
    reference = spec.reference if spec is not None else None
    export = reference.export if reference is not None else None
    cluster = status.api_export_cluster_name if status is not None else None
    return BindingSource(export.name if export is not None else "", cluster or "")
