"""Definitions as upstream's internal types show them in errors: Go's field names, all of them."""

from __future__ import annotations

from typing import Any

from pykcp.types import Object

_NULL, _TEXT, _FLAG = None, "", False
# Go's name, the JSON name, and what stands there when the field is absent.
_SCHEMA_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("ID", "id", _TEXT), ("Schema", "$schema", _TEXT), ("Ref", "$ref", _NULL),
    ("Description", "description", _TEXT), ("Type", "type", _TEXT),
    ("Nullable", "nullable", _FLAG), ("Format", "format", _TEXT), ("Title", "title", _TEXT),
    ("Default", "default", _NULL), ("Maximum", "maximum", _NULL),
    ("ExclusiveMaximum", "exclusiveMaximum", _FLAG), ("Minimum", "minimum", _NULL),
    ("ExclusiveMinimum", "exclusiveMinimum", _FLAG), ("MaxLength", "maxLength", _NULL),
    ("MinLength", "minLength", _NULL), ("Pattern", "pattern", _TEXT),
    ("MaxItems", "maxItems", _NULL), ("MinItems", "minItems", _NULL),
    ("UniqueItems", "uniqueItems", _FLAG), ("MultipleOf", "multipleOf", _NULL),
    ("Enum", "enum", _NULL), ("MaxProperties", "maxProperties", _NULL),
    ("MinProperties", "minProperties", _NULL), ("Required", "required", _NULL),
    ("Items", "items", _NULL), ("AllOf", "allOf", _NULL), ("OneOf", "oneOf", _NULL),
    ("AnyOf", "anyOf", _NULL), ("Not", "not", _NULL), ("Properties", "properties", _NULL),
    ("AdditionalProperties", "additionalProperties", _NULL),
    ("PatternProperties", "patternProperties", _NULL), ("Dependencies", "dependencies", _NULL),
    ("AdditionalItems", "additionalItems", _NULL), ("Definitions", "definitions", _NULL),
    ("ExternalDocs", "externalDocs", _NULL), ("Example", "example", _NULL),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _NULL),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _FLAG),
    ("XIntOrString", "x-kubernetes-int-or-string", _FLAG),
    ("XListMapKeys", "x-kubernetes-list-map-keys", _NULL),
    ("XListType", "x-kubernetes-list-type", _NULL), ("XMapType", "x-kubernetes-map-type", _NULL),
    ("XValidations", "x-kubernetes-validations", _NULL),
)  # fmt: skip
ALLOWED_AT_ROOT = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum",
    "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems",
    "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
    "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""What a schema's root may say when there is a status subresource."""


def fields_set(schema: Object) -> list[str]:
    """Go's names of the fields that say something, in the order of the type."""
    return [go for go, name, zero in _SCHEMA_FIELDS if schema.get(name, zero) != zero]


def go_schema(schema: Object | None) -> Object | None:
    if schema is None:
        return None
    return {go: _go_value(name, schema.get(name, zero)) for go, name, zero in _SCHEMA_FIELDS}


def _go_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in {"allOf", "oneOf", "anyOf"}:
        return [go_schema(item) for item in value]
    if name in {"properties", "patternProperties", "definitions"}:
        return {key: go_schema(value[key]) for key in sorted(value)}
    if name == "not":
        return go_schema(value)
    if name in {"additionalProperties", "additionalItems"}:
        if isinstance(value, bool):
            return {"Allows": value, "Schema": None}
        return {"Allows": True, "Schema": go_schema(value)}
    if name == "items":
        return go_items(value)
    if name == "dependencies":
        return {key: _go_dependency(value[key]) for key in sorted(value)}
    if name == "externalDocs":
        return {"Description": value.get("description", ""), "URL": value.get("url", "")}
    return [go_rule(rule) for rule in value] if name == "x-kubernetes-validations" else value


def go_items(value: Any) -> Object:
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": [go_schema(item) for item in value]}
    return {"Schema": go_schema(value), "JSONSchemas": None}


def _go_dependency(value: Any) -> Object:
    if isinstance(value, list):
        return {"Schema": None, "Property": value}
    return {"Schema": go_schema(value), "Property": None}


def go_rule(rule: Object) -> Object:
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def go_version(version: Object) -> Object:
    """One of `spec.versions`."""
    schema = version.get("schema")
    columns, fields = version.get("additionalPrinterColumns"), version.get("selectableFields")
    return {
        "Name": version.get("name", ""),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": schema and {"OpenAPIV3Schema": go_schema(schema.get("openAPIV3Schema"))},
        "Subresources": _go_subresources(version.get("subresources")),
        "AdditionalPrinterColumns": columns and [_go_column(column) for column in columns],
        "SelectableFields": fields and [{"JSONPath": f.get("jsonPath", "")} for f in fields],
    }


def _go_subresources(subresources: Object | None) -> Object | None:
    if subresources is None:
        return None
    scale = subresources.get("scale")
    return {
        "Status": None if subresources.get("status") is None else {},
        "Scale": None if scale is None else {
            "SpecReplicasPath": scale.get("specReplicasPath", ""),
            "StatusReplicasPath": scale.get("statusReplicasPath", ""),
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }  # fmt: skip


def _go_column(column: Object) -> Object:
    names = {"Name": "name", "Type": "type", "Format": "format", "Description": "description"}
    shown: Object = {go: column.get(name, "") for go, name in names.items()}
    return {**shown, "Priority": column.get("priority", 0), "JSONPath": column.get("jsonPath", "")}
