"""OpenAPI v3 schema JSON to `Schema` and back.

`from_json` reads what a CRD carries; `to_json` writes a node as it is published,
references to components included. The two are inverse for everything that a
structural schema can say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

_SIMPLE = {
    "type": "type",
    "format": "format",
    "description": "description",
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_items",
    "maxItems": "max_items",
    "uniqueItems": "unique_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
    "nullable": "nullable",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "x-kubernetes-embedded-resource": "embedded_resource",
    "x-kubernetes-int-or-string": "int_or_string",
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-strategy": "patch_strategy",
    "x-kubernetes-patch-merge-key": "patch_merge_key",
}
"""Keywords that are one attribute each."""

_TUPLES = {
    "required": "required",
    "enum": "enum",
    "x-kubernetes-list-map-keys": "list_keys",
    "x-kubernetes-validations": "rules",
}

_BRANCHES = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}


def apply_keywords(schema: Schema, keywords: Object) -> None:
    """Set on `schema` what the JSON says; unknown keywords are kept as extensions."""
    for keyword, value in keywords.items():
        if value is None:
            continue
        simple = _SIMPLE.get(keyword)
        if simple is not None:
            setattr(schema, simple, value)
        elif keyword in _TUPLES:
            setattr(schema, _TUPLES[keyword], tuple(value))
        elif keyword in _BRANCHES:
            setattr(schema, _BRANCHES[keyword], tuple(from_json(branch) for branch in value))
        else:
            _apply_nested(schema, keyword, value)


def _apply_nested(schema: Schema, keyword: str, value: Any) -> None:
    if keyword == "properties":
        schema.properties = {name: from_json(child) for name, child in value.items()}
    elif keyword == "items":
        schema.items = from_json(value)
    elif keyword == "additionalProperties":
        if isinstance(value, dict):
            schema.additional = from_json(value)
        else:
            schema.additional_allowed = bool(value)
    elif keyword == "not":
        schema.not_ = from_json(value)
    elif keyword == "default":
        schema.default, schema.has_default = value, True
    else:
        schema.extensions[keyword] = value


def from_json(json: Object) -> Schema:
    """The schema node that this OpenAPI v3 JSON describes."""
    schema = Schema()
    apply_keywords(schema, json)
    return schema


_EMITTED = (*_SIMPLE.items(), *_TUPLES.items())

ReferenceWriter = Callable[[str, Object], Object]
"""Points at a component by name; the second argument is what the field says beside it."""


def v3_reference(ref: str, beside: Object) -> Object:
    """In v3 nothing may stand beside a reference, so it is wrapped if something has to."""
    pointer = {"$ref": f"#/components/schemas/{ref}"}
    return {"allOf": [pointer], **beside} if beside else pointer


def v2_reference(ref: str, beside: Object) -> Object:
    """In v2 readers take a description beside a reference, and a default."""
    return {"$ref": f"#/definitions/{ref}", **beside}


def to_json(
    schema: Schema, reference: ReferenceWriter | None = v3_reference, *, root: bool = False
) -> Object:
    """The node as published.

    `reference` writes a pointer to a component; with None everything is written in
    place (only for schemas without cycles). `root` asks for the component itself
    rather than for a pointer to it.
    """
    if schema.ref and reference is not None and not root:
        return _pointer(schema, reference)
    out: Object = {}
    for keyword, attribute in _EMITTED:
        value = getattr(schema, attribute)
        if value is None or value is False or value in ("", ()):
            continue
        out[keyword] = list(value) if type(value) is tuple else value
    _write_nested(schema, out, reference)
    return out


def _pointer(schema: Schema, reference: ReferenceWriter) -> Object:
    beside: Object = {}
    if schema.description:
        beside["description"] = schema.description
    if schema.has_default:
        beside["default"] = schema.default
    if schema.nullable:
        beside["nullable"] = True
    return reference(schema.ref, beside)


def _write_nested(schema: Schema, out: Object, reference: ReferenceWriter | None) -> None:
    if schema.properties:
        out["properties"] = {n: to_json(c, reference) for n, c in schema.properties.items()}
    if schema.items is not None:
        out["items"] = to_json(schema.items, reference)
    if schema.additional is not None:
        out["additionalProperties"] = to_json(schema.additional, reference)
    elif schema.additional_allowed is not None:
        out["additionalProperties"] = schema.additional_allowed
    if schema.not_ is not None:
        out["not"] = to_json(schema.not_, reference)
    for keyword, attribute in _BRANCHES.items():
        branches = getattr(schema, attribute)
        if branches:
            out[keyword] = [to_json(branch, reference) for branch in branches]
    if schema.has_default:
        out["default"] = schema.default
    if schema.extensions:
        out.update(schema.extensions)
