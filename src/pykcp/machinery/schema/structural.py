"""Structural schemas: the rules that an OpenAPI v3 schema has to keep to be usable.

Every value must have a known shape: `type` at each node, nothing of the shape inside
`allOf`, `anyOf`, `oneOf` and `not`, and whatever those mention must also exist outside.
The JSON is what a CRD carries, already decoded as JSONSchemaProps.
"""

from __future__ import annotations

from typing import Any

from pykcp.machinery.cel.regex import RegexError, compiled
from pykcp.machinery.status import FieldError, forbidden, invalid, required
from pykcp.types import Object

ROOT, ITEM, FIELD = "root", "item", "field"

_NO_TYPE = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]

_JUNCTORS = ("anyOf", "allOf", "oneOf")

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"


def structural_errors(schema: Object, path: str) -> list[FieldError]:
    """What keeps the schema from being structural, sorted by text."""
    errors = _invariants(schema, ROOT, path)
    errors += _value_completeness(schema, schema, path, path)
    return sorted(errors, key=FieldError.text)


def _invariants(schema: Object, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    items = schema.get("items")
    if schema.get("type") == "array" and items is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        errors += _invariants(items, ITEM, f"{path}.items")
    for name, child in _properties(schema).items():
        errors += _invariants(child, FIELD, f"{path}.properties[{name}]")
    errors += _additional(schema, level, path)
    errors += _extensions(schema, path)
    errors += _value_rules(schema, _skips(schema), level, path)
    errors += _type(schema, level, path)
    errors += _metadata(schema, level, path)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not _properties(schema):
        errors.append(
            required(
                f"{path}.properties",
                f"must not be empty if {EMBEDDED} is true without {PRESERVE}",
            )
        )
    return errors


def _properties(schema: Object) -> Object:
    return schema.get("properties") or {}


def _additional(schema: Object, level: str, path: str) -> list[FieldError]:
    additional = schema.get("additionalProperties")
    if additional is None:
        return []
    here = f"{path}.additionalProperties"
    errors = []
    if level == ROOT:
        errors.append(forbidden(here, "must not be used at the root"))
    if isinstance(additional, dict):
        errors += _invariants(additional, FIELD, here)
    if schema.get(EMBEDDED):
        errors.append(forbidden(here, f"must not be used if {EMBEDDED} is set"))
    return errors


def _extensions(schema: Object, path: str) -> list[FieldError]:
    if not schema.get(INT_OR_STRING):
        return []
    return [
        invalid(f"{path}.{keyword}", True, f"must be false if {INT_OR_STRING} is true")
        for keyword in (PRESERVE, EMBEDDED)
        if schema.get(keyword)
    ]


def _type(schema: Object, level: str, path: str) -> list[FieldError]:
    kind = schema.get("type", "")
    here = f"{path}.type"
    errors = []
    if schema.get(EMBEDDED) and kind != "object":
        message = f"must be object if {EMBEDDED} is true"
        errors.append(invalid(here, kind, message) if kind else required(here, message))
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        errors.append(required(here, _NO_TYPE[level]))
    if level == ROOT and kind and kind != "object":
        errors.append(invalid(here, kind, "must be object at the root"))
    return errors


def _metadata(schema: Object, level: str, path: str) -> list[FieldError]:
    """apiVersion, kind and metadata are what they are; a root may only restrict names."""
    checked = level == ROOT or bool(schema.get(EMBEDDED))
    properties = _properties(schema)
    errors = []
    for name in ("kind", "apiVersion"):
        child = properties.get(name)
        if child is not None and checked and child.get("type", "") != "string":
            here = f"{path}.properties[{name}].type"
            errors.append(invalid(here, child.get("type", ""), "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return errors
    here = f"{path}.properties[metadata]"
    if checked and metadata.get("type", "") != "object":
        errors.append(invalid(f"{here}.type", metadata.get("type", ""), "must be object"))
    if level == ROOT and not _restricts_only_names(metadata):
        errors.append(
            forbidden(
                here,
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )
        )
    return errors


def _restricts_only_names(metadata: Object) -> bool:
    if set(_properties(metadata)) - {"name", "generateName"}:
        return False
    return not {k for k, v in metadata.items() if v} - {"type", "properties", "default"}


def _skips(schema: Object) -> tuple[bool, bool]:
    """Whether the types in anyOf, or in the first allOf's anyOf, only say int-or-string."""
    all_of = schema.get("allOf") or [{}]
    return schema.get("anyOf") == _INT_OR_STRING, all_of[0].get("anyOf") == _INT_OR_STRING


def _value_rules(
    schema: Object, skips: tuple[bool, bool], level: str, path: str
) -> list[FieldError]:
    """What stands in anyOf, allOf, oneOf and not, and the pattern."""
    skip_any, skip_first = skips
    errors: list[FieldError] = []
    for junctor in _JUNCTORS:
        if junctor == "anyOf" and skip_any:
            continue
        for index, branch in enumerate(schema.get(junctor) or ()):
            skip = junctor == "allOf" and skip_first and index == 0
            errors += _nested(branch, skip, level, f"{path}.{junctor}[{index}]")
    if schema.get("not") is not None:
        errors += _nested(schema["not"], False, level, f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compiled(pattern)
        except RegexError as error:
            message = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{path}.pattern", pattern, message))
    return errors


_MUST_BE_EMPTY = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def _nested(schema: Object, skip_any: bool, level: str, path: str) -> list[FieldError]:
    """Inside a junctor only values may be restricted, not shapes."""
    errors = _value_rules(schema, (skip_any, False), level, path)
    if isinstance(schema.get("items"), dict):
        errors += _nested(schema["items"], False, level, f"{path}.items")
    for name, child in _properties(schema).items():
        errors += _nested(child, False, FIELD, f"{path}.properties[{name}]")
    if schema.get("additionalProperties"):
        errors.append(
            forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
        )
    errors += (
        forbidden(f"{path}.{keyword}", message)
        for keyword, message in _MUST_BE_EMPTY.items()
        if _is_set(schema, keyword)
    )
    if "metadata" in _properties(schema):
        errors.append(
            forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")
        )
    return errors


def _is_set(schema: Object, keyword: str) -> bool:
    value = schema.get(keyword)
    return value is not None if keyword == "default" else bool(value)


def _value_completeness(
    value: Object, schema: Object | None, path: str, value_path: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    branches: list[tuple[Any, str]] = [(value.get("not"), f"{value_path}.not")]
    for junctor in _JUNCTORS:
        branches += (
            (branch, f"{value_path}.{junctor}[{index}]")
            for index, branch in enumerate(value.get(junctor) or ())
        )
    for branch, here in branches:
        if branch is not None:
            errors += _completeness(branch, schema, path, here)
    return errors


def _completeness(
    value: Object, schema: Object | None, path: str, value_path: str
) -> list[FieldError]:
    """Whatever a junctor mentions has to exist outside of it as well."""
    if schema is None:
        return [required(path, f"because it is defined in {value_path}")]
    errors = _value_completeness(value, schema, path, value_path)
    if isinstance(value.get("items"), dict):
        items = schema.get("items")
        outside = items if isinstance(items, dict) else None
        errors += _completeness(value["items"], outside, f"{path}.items", f"{value_path}.items")
    for name, child in _properties(value).items():
        here, there = f"{path}.properties[{name}]", f"{value_path}.properties[{name}]"
        errors += _completeness(child, _properties(schema).get(name), here, there)
    return errors
