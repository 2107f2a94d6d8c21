"""Validation of APIExports beyond their schema."""

from __future__ import annotations

from pykcp.apis.kcp.conversion import BadSchemaName, schema_entry
from pykcp.apis.kcp.round_trip import (
    PERMISSION_CLAIMS,
    RESOURCE_SCHEMAS,
    BadAnnotation,
    read_annotation,
)
from pykcp.machinery.kcp.claims import key_of, needs_identity
from pykcp.machinery.status import FieldError, invalid
from pykcp.machinery.untyped import mappings
from pykcp.types import Object


def export_error(export: Object) -> FieldError | None:
    """The first thing that is wrong with an export in v1alpha2."""
    spec = export.get("spec") or {}
    for index, claim in enumerate(spec.get("permissionClaims") or ()):
        key = key_of(claim)
        if not key.identity and needs_identity(key.group, key.resource):
            path = f"spec.permissionClaims[{index}].identityHash"
            return invalid(path, "", "identityHash is required for API types that are not built-in")
    for index, entry in enumerate(spec.get("resources") or ()):
        ending = f".{entry.get('name') or ''}.{entry.get('group') or 'core'}"
        schema = entry.get("schema") or ""
        if not schema.endswith(ending):
            return invalid(f"spec.resources[{index}].schema", schema, f"must end in {ending}")
    return None


def bad_round_trip(export: Object) -> FieldError | None:
    """What is wrong with the annotations in which v1alpha1 keeps what only v1alpha2 knows."""
    annotations = (export.get("metadata") or {}).get("annotations") or {}
    spec = export.get("spec") or {}
    if RESOURCE_SCHEMAS in annotations:
        error = _bad_schemas(annotations[RESOURCE_SCHEMAS], spec)
        if error is not None:
            return error
    if PERMISSION_CLAIMS in annotations:
        return bad_claims(PERMISSION_CLAIMS, annotations[PERMISSION_CLAIMS], spec)
    return None


def _bad_schemas(text: str, spec: Object) -> FieldError | None:
    path = f"metadata.annotations[{RESOURCE_SCHEMAS}]"
    try:
        schemas = read_annotation(RESOURCE_SCHEMAS, text)
    except BadAnnotation:
        return invalid(path, text, "failed to decode overhanging resource schemas")
    latest = spec.get("latestResourceSchemas") or []
    try:
        schemas += [schema_entry(name) for name in latest]
    except BadSchemaName:
        why = "failed to convert spec.LatestResourceSchema"
        return invalid("spec.latestResourceSchemas", latest, why)
    seen = [entry.get("schema") for entry in schemas]
    if len(set(seen)) < len(seen):
        return invalid(path, text, "duplicate resource schema")
    return None


def bad_claims(name: str, text: str, spec: Object) -> FieldError | None:
    """What is wrong with claims that an annotation adds to: they must be in the spec, too."""
    path = f"metadata.annotations[{name}]"
    try:
        claims = read_annotation(name, text)
    except BadAnnotation:
        return invalid(path, text, "failed to decode overhanging permission claims")
    known = {key_of(claim) for claim in mappings(spec.get("permissionClaims"))}
    if any(key_of(claim) not in known for claim in claims):
        why = (
            "permission claims defined in annotation do not match permission claims defined in spec"
        )
        return invalid(path, text, why)
    return None
