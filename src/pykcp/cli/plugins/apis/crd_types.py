"""CustomResourceDefinitions read field by field, as programs with typed structures read them.

Fields that are not known are dropped, empty ones as well (unless empty means something), keys come
in the order of the structures: two programs that read the same CRD get the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Object = dict[str, Any]
Reader = Callable[[Any, "DocumentPath"], Any]


class DocumentPath(NamedTuple):
    """Path of a value in the document, for error messages."""

    struct: str
    path: str

    def below(self, name: str) -> DocumentPath:
        return DocumentPath(self.struct, f"{self.path}.{name}" if self.path else name)


class BadField(ValueError):
    """A value of the wrong type."""


class Field(NamedTuple):
    name: str
    read: Reader
    keeps_empty: bool


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "number", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _wrong(value: Any, place: DocumentPath, wanted: str) -> BadField:
    return BadField(
        f"json: cannot unmarshal {_type_name(value)} into Go struct field "
        f"{place.struct}.{place.path} of type {wanted}"
    )


def _scalar(kind: type | tuple[type, ...], wanted: str) -> Reader:
    def read(value: Any, place: DocumentPath) -> Any:
        is_wrong_bool = isinstance(value, bool) and kind is not bool
        if is_wrong_bool or not isinstance(value, kind):
            raise _wrong(value, place, wanted)
        return value

    return read


text = _scalar(str, "string")
boolean = _scalar(bool, "bool")
integer = _scalar(int, "int64")
_float = _scalar((int, float), "float64")


def number(value: Any, place: DocumentPath) -> Any:
    """Whole numbers become integers: JSON does not distinguish 1 from 1.0."""
    found = _float(value, place)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def raw(value: Any, place: DocumentPath) -> Any:
    """Any JSON, with its keys in order."""
    if isinstance(value, dict):
        return {key: raw(value[key], place) for key in sorted(value)}
    if isinstance(value, list):
        return [raw(item, place) for item in value]
    return value


def list_of(read: Reader) -> Reader:
    def read_list(value: Any, place: DocumentPath) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, place, "[]")
        return [read(item, place) for item in value]

    return read_list


def map_of(read: Reader) -> Reader:
    def read_map(value: Any, place: DocumentPath) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, place, "map")
        return {key: read(value[key], place) for key in sorted(value)}

    return read_map


def one_or_other(of_object: Reader, otherwise: Reader) -> Reader:
    """A schema, or something simpler in its place."""
    return lambda value, place: (of_object if isinstance(value, dict) else otherwise)(value, place)


class StructType:
    """A structure whose fields are known. An empty field is dropped, unless a `*` marks it."""

    def __init__(self, name: str, **readers: Reader) -> None:
        self.name = name
        self._fields = [_field(key, read) for key, read in readers.items()]

    def add(self, fields: dict[str, Reader]) -> None:
        """Fields whose readers need the structure itself, or whose names are no identifiers."""
        self._fields += [_field(key, read) for key, read in fields.items()]

    def __call__(self, value: Any, place: DocumentPath) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, place, self.name)
        here = DocumentPath(self.name, place.path)
        result: Object = {}
        for field in self._fields:
            given = value.get(field.name)
            if given is None:
                continue
            found = field.read(given, here.below(field.name))
            if field.keeps_empty or found not in ("", False, 0, [], {}):
                result[field.name] = found
        return result


def _field(key: str, read: Reader) -> Field:
    return Field(key.rstrip("*"), read, key.endswith("*"))


VALIDATION_RULE = StructType("ValidationRule")
VALIDATION_RULE.add(
    {
        "rule*": text,
        "message": text,
        "messageExpression": text,
        "reason*": text,
        "fieldPath": text,
        "optionalOldSelf*": boolean,
    }
)
EXTERNAL_DOCS = StructType("ExternalDocumentation", description=text, url=text)

SCHEMA = StructType("JSONSchemaProps")
_schema_or_bool = one_or_other(SCHEMA, boolean)
_schema_or_list = one_or_other(SCHEMA, list_of(SCHEMA))
_schema_or_names = one_or_other(SCHEMA, list_of(text))
SCHEMA.add(
    {
        "id": text,
        "$schema": text,
        "$ref*": text,
        "description": text,
        "type": text,
        "format": text,
        "title": text,
        "default*": raw,
        "maximum*": number,
        "exclusiveMaximum": boolean,
        "minimum*": number,
        "exclusiveMinimum": boolean,
        "maxLength*": integer,
        "minLength*": integer,
        "pattern": text,
        "maxItems*": integer,
        "minItems*": integer,
        "uniqueItems": boolean,
        "multipleOf*": number,
        "enum": list_of(raw),
        "maxProperties*": integer,
        "minProperties*": integer,
        "required": list_of(text),
        "items*": _schema_or_list,
        "allOf": list_of(SCHEMA),
        "oneOf": list_of(SCHEMA),
        "anyOf": list_of(SCHEMA),
        "not*": SCHEMA,
        "properties": map_of(SCHEMA),
        "additionalProperties*": _schema_or_bool,
        "patternProperties": map_of(SCHEMA),
        "dependencies": map_of(_schema_or_names),
        "additionalItems*": _schema_or_bool,
        "definitions": map_of(SCHEMA),
        "externalDocs*": EXTERNAL_DOCS,
        "example*": raw,
        "nullable": boolean,
        "x-kubernetes-preserve-unknown-fields*": boolean,
        "x-kubernetes-embedded-resource": boolean,
        "x-kubernetes-int-or-string": boolean,
        "x-kubernetes-list-map-keys": list_of(text),
        "x-kubernetes-list-type*": text,
        "x-kubernetes-map-type*": text,
        "x-kubernetes-validations": list_of(VALIDATION_RULE),
    }
)

NAMES = StructType("CustomResourceDefinitionNames")
NAMES.add(
    {
        "plural*": text,
        "singular": text,
        "shortNames": list_of(text),
        "kind*": text,
        "listKind": text,
        "categories": list_of(text),
    }
)
COLUMN = StructType("CustomResourceColumnDefinition")
COLUMN.add(
    {
        "name*": text,
        "type*": text,
        "format": text,
        "description": text,
        "priority": integer,
        "jsonPath*": text,
    }
)
SELECTABLE_FIELD = StructType("SelectableField")
SELECTABLE_FIELD.add({"jsonPath*": text})
SCALE = StructType("CustomResourceSubresourceScale")
SCALE.add({"specReplicasPath*": text, "statusReplicasPath*": text, "labelSelectorPath*": text})
SUBRESOURCES = StructType("CustomResourceSubresources")
SUBRESOURCES.add({"status*": StructType("CustomResourceSubresourceStatus"), "scale*": SCALE})
VERSION_SCHEMA = StructType("CustomResourceValidation")
VERSION_SCHEMA.add({"openAPIV3Schema*": SCHEMA})
VERSION = StructType("CustomResourceDefinitionVersion")
VERSION.add(
    {
        "name*": text,
        "served*": boolean,
        "storage*": boolean,
        "deprecated": boolean,
        "deprecationWarning*": text,
        "schema*": VERSION_SCHEMA,
        "subresources*": SUBRESOURCES,
        "additionalPrinterColumns": list_of(COLUMN),
        "selectableFields": list_of(SELECTABLE_FIELD),
    }
)
WEBHOOK_CLIENT = StructType("WebhookClientConfig")
WEBHOOK_CLIENT.add({"service*": raw, "url*": text, "caBundle": text})
WEBHOOK = StructType("WebhookConversion")
WEBHOOK.add({"clientConfig*": WEBHOOK_CLIENT, "conversionReviewVersions*": list_of(text)})
CONVERSION = StructType("CustomResourceConversion")
CONVERSION.add({"strategy*": text, "webhook*": WEBHOOK})
SPEC = StructType("CustomResourceDefinitionSpec")
SPEC.add(
    {
        "group*": text,
        "names*": NAMES,
        "scope*": text,
        "versions*": list_of(VERSION),
        "conversion*": CONVERSION,
    }
)


def read_spec(definition: Object) -> Object:
    """The spec of a CRD."""
    found: Object = SPEC(
        definition.get("spec") or {}, DocumentPath("CustomResourceDefinition", "spec")
    )
    return found
