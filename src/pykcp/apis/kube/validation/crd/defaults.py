"""Defaults in a schema: they must be valid values of their own schema, with nothing unknown.

Whether a value fits a schema is asked of the check that comes with the request's facts.
"""

from __future__ import annotations

from typing import Any

from pykcp.apis.kube.validation.objectmeta import name_is_path_segment, validate_object_meta
from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery import names
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

_META = frozenset(("apiVersion", "kind", "metadata"))
_EMBEDDED = "x-kubernetes-embedded-resource"


def default_errors(
    schema: Object, path: str, facts: Facts, *, require_known: bool
) -> list[FieldError]:
    """All defaults of a structural schema; its root is a resource."""
    return _errors({**schema, _EMBEDDED: True}, path, facts, require_known, inside_meta=False)


def has_unknown_fields(schema: Object) -> bool:
    """Whether any default says something that its schema does not know."""
    found = schema.get("default")
    if found is not None and not _is_known(found, schema):
        return True
    inner = [schema.get("items"), schema.get("additionalProperties")]
    inner += (schema.get("properties") or {}).values()
    return any(has_unknown_fields(child) for child in inner if isinstance(child, dict))


def _errors(
    schema: Object, path: str, facts: Facts, require_known: bool, *, inside_meta: bool
) -> list[FieldError]:
    if schema.get(_EMBEDDED):
        inside_meta = False
    errors: list[FieldError] = []
    if schema.get("default") is not None:
        errors += _value_errors(schema, path, facts, require_known and not inside_meta)
    items = schema.get("items")
    if isinstance(items, dict):
        errors += _errors(items, f"{path}.items", facts, require_known, inside_meta=inside_meta)
    for name, child in (schema.get("properties") or {}).items():
        meta = inside_meta or (bool(schema.get(_EMBEDDED)) and name in _META)
        errors += _errors(
            child, f"{path}.properties[{name}]", facts, require_known, inside_meta=meta
        )
    return errors


def _value_errors(schema: Object, path: str, facts: Facts, require_known: bool) -> list[FieldError]:
    value, at = schema["default"], f"{path}.default"
    errors: list[FieldError] = []
    if require_known and not _is_known(value, schema):
        errors.append(invalid(at, value, "must not have unknown fields"))
    embedded = _embedded_errors(value, schema, at)
    if embedded:
        return errors + embedded
    if facts.schema_checks is not None:
        errors += facts.schema_checks.value(schema, value, at)
    return errors


def _is_known(value: Any, schema: Object | None) -> bool:
    """Whether pruning would leave the value as it is."""
    if schema is not None and schema.get("x-kubernetes-preserve-unknown-fields"):
        return _preserved_is_known(value, schema)
    if isinstance(value, list):
        items = schema.get("items") if schema else None
        return all(_is_known(item, items) for item in value)
    if not isinstance(value, dict):
        return True
    if schema is None:
        return not value
    return all(_field_is_known(name, item, schema) for name, item in value.items())


def _field_is_known(name: str, item: Any, schema: Object) -> bool:
    if schema.get(_EMBEDDED) and name in _META:
        return True
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    if name in properties:
        return _is_known(item, properties[name])
    if extra is None:
        return False
    return _is_known(item, extra if isinstance(extra, dict) else None)


def _preserved_is_known(value: Any, schema: Object) -> bool:
    """Unknown fields stay; what is specified is still pruned inside."""
    if isinstance(value, list):
        items = schema.get("items")
        return items is None or all(_is_known(item, items) for item in value)
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties") or {}
    return all(_is_known(v, properties[k]) for k, v in value.items() if k in properties)


def _embedded_errors(value: Any, schema: Object | None, path: str) -> list[FieldError]:
    """Embedded resources have a version, a kind and sound metadata."""
    if schema is None:
        return []
    errors: list[FieldError] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            errors += _embedded_errors(item, schema.get("items"), f"{path}[{index}]")
    elif isinstance(value, dict):
        if schema.get(_EMBEDDED):
            errors += _type_meta_errors(value, path)
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                errors += _embedded_errors(item, properties[name], f"{path}.{name}")
            elif isinstance(extra, dict):
                errors += _embedded_errors(item, extra, f"{path}[{name}]")
    return errors


def _type_meta_errors(value: Object, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    for name in ("apiVersion", "kind"):
        if name in value:
            errors += _text_errors(name, value[name], f"{path}.{name}")
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        named = {**metadata, "name": metadata.get("name") or "fakename"}
        namespaced = bool(metadata.get("namespace"))
        errors += validate_object_meta(named, namespaced, name_is_path_segment, f"{path}.metadata")
    return errors


def _text_errors(name: str, value: Any, path: str) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    if name == "apiVersion":
        if value.count("/") > 1:
            return [invalid(path, value, f"unexpected GroupVersion string: {value}")]
        return []
    messages = names.dns1035_label(value.lower())
    if not messages:
        return []
    why = "may have mixed case, but should otherwise match: " + ",".join(messages)
    return [invalid(path, value, why)]
