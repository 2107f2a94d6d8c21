"""The OpenAPI schema of a CRD version: what it may say, beyond being structural."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from pykcp.apis.kube.validation.crd.go_fields import (
    ALLOWED_AT_ROOT,
    fields_set,
    go_items,
    go_schema,
)
from pykcp.apis.kube.validation.crd.paths import PathProblem, field_at
from pykcp.apis.kube.validation.crd.structural import nodes, problem
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    within,
)
from pykcp.types import Object

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = frozenset(("metadata", "kind", "apiVersion"))
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LIST, _MAP = "x-kubernetes-list-type", "x-kubernetes-map-type"
_KEYS, _RULES = "x-kubernetes-list-map-keys", "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class SchemaStrictness:
    """What holds for new definitions; an update need not be better than what it replaces."""

    valid_types: bool = True
    atomic_sets: bool = True
    map_keys: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the resource a schema is."""

    strictness: SchemaStrictness
    no_defaults_because: str | None = None
    inside_meta: bool = False


def has_invalid_type(schema: Object) -> bool:
    return any(node.get("type") and node["type"] not in TYPES for node in nodes(schema))


def has_non_atomic_set(schema: Object) -> bool:
    return any(_set_item_errors(node, "") for node in nodes(schema))


def has_invalid_map_keys(schema: Object) -> bool:
    return any(_map_keys_errors(node, "") for node in nodes(schema))


def root_errors(schema: Object, path: str, *, has_status: bool) -> list[FieldError]:
    """What the root of a schema may not say."""
    errors = _status_root_errors(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    return errors


def _status_root_errors(schema: Object, path: str) -> list[FieldError]:
    for name in fields_set(schema):
        if name == "Type":
            if schema["type"] != "object":
                why = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [invalid(f"{path}.type", schema["type"], why)]
        elif name not in ALLOWED_AT_ROOT:
            why = (
                f"only [{' '.join(ALLOWED_AT_ROOT)}] fields are allowed at the root of the "
                "schema if the status subresource is enabled"
            )
            return [invalid(path, go_schema(schema), why)]
    return []


def schema_errors(schema: Object, path: str, strictness: SchemaStrictness) -> list[FieldError]:
    """All that is wrong with a schema, from the root down."""
    return _errors(schema, path, _Place(strictness), is_root=True)


def _errors(schema: Object, path: str, place: _Place, *, is_root: bool = False) -> list[FieldError]:
    errors = _keyword_errors(schema, path, place)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", why))
    errors += _additional_errors(schema, path, place)
    for name, child in (schema.get("properties") or {}).items():
        below = place
        if (is_root or schema.get("x-kubernetes-embedded-resource")) and name in _META:
            because = f"in top-level {name}" if is_root else place.no_defaults_because
            below = replace(place, inside_meta=True, no_defaults_because=because)
        errors += within(f"{path}.properties[{name}]", _errors(child, "", below))
    if schema.get("not") is not None:
        errors += within(f"{path}.not", _errors(schema["not"], "", place))
    for name in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(schema.get(name) or ()):
            errors += within(f"{path}.{name}[{index}]", _errors(child, "", place))
    for name, child in (schema.get("definitions") or {}).items():
        errors += within(f"{path}.definitions[{name}]", _errors(child, "", place))
    errors += within(f"{path}.items", _items_errors(schema.get("items"), place))
    for name, child in (schema.get("dependencies") or {}).items():
        if isinstance(child, dict):
            errors += within(f"{path}.dependencies[{name}]", _errors(child, "", place))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        at = f"{path}.x-kubernetes-preserve-unknown-fields"
        errors.append(invalid(at, False, "must be true or undefined"))
    errors += _topology_errors(schema, path, place.strictness)
    return errors + _rules_errors(schema, path)


def _additional_errors(schema: Object, path: str, place: _Place) -> list[FieldError]:
    extra, at = schema.get("additionalProperties"), f"{path}.additionalProperties"
    errors: list[FieldError] = []
    if extra is not None and schema.get("properties") and extra is not True:
        why = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(at, why))
    if isinstance(extra, dict):
        because = "inside additionalProperties applying to object metadata"
        below = replace(place, no_defaults_because=because) if place.inside_meta else place
        errors += within(at, _errors(extra, "", below))
    return errors


def _items_errors(items: Any, place: _Place) -> list[FieldError]:
    if isinstance(items, list):
        return [
            error
            for index, child in enumerate(items)
            for error in within(f"[{index}]", _errors(child, "", place))
        ]
    return _errors(items, "", place) if items is not None else []


def _keyword_errors(schema: Object, path: str, place: _Place) -> list[FieldError]:
    """Keywords of JSON schema that are not supported, or not here."""
    kind = schema.get("type", "")
    errors: list[FieldError] = []
    if place.strictness.valid_types and kind and kind not in TYPES:
        errors.append(not_supported(f"{path}.type", kind, TYPES))
    if schema.get("default") is not None and place.no_defaults_because is not None:
        errors.append(forbidden(f"{path}.default", f"must not be set {place.no_defaults_because}"))
    for name in ("id", "additionalItems", "patternProperties", "definitions", "dependencies"):
        said = schema.get(name)
        if said or (name in {"additionalItems", "dependencies"} and said is not None):
            errors.append(forbidden(f"{path}.{name}", f"{name} is not supported"))
    if schema.get("$ref") is not None:
        errors.append(forbidden(f"{path}.$ref", "$ref is not supported"))
    if kind == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(f"{path}.type", why))
    if isinstance(schema.get("items"), list) and schema["items"]:
        why = "items must be a schema object and not an array"
        errors.append(forbidden(f"{path}.items", why))
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        why = "must not be used inside of resource meta"
        errors.append(forbidden(f"{path}.x-kubernetes-embedded-resource", why))
    return errors


def _topology_errors(schema: Object, path: str, strictness: SchemaStrictness) -> list[FieldError]:
    """List and map types, and the keys of lists that are maps."""
    list_type, map_type = schema.get(_LIST), schema.get(_MAP)
    errors: list[FieldError] = []
    if map_type is not None:
        errors += _needs_type(schema, "object", _MAP, path)
        if map_type not in {"atomic", "granular"}:
            errors.append(not_supported(f"{path}.{_MAP}", map_type, ("atomic", "granular")))
    if list_type is not None:
        wrong = _needs_type(schema, "array", _LIST, path)
        errors += wrong
        if not wrong and strictness.atomic_sets:
            errors += _set_item_errors(schema, path)
        if list_type not in {"atomic", "set", "map"}:
            errors.append(not_supported(f"{path}.{_LIST}", list_type, ("atomic", "set", "map")))
    if schema.get(_KEYS) and list_type != "map":
        why = f"must be map if {_KEYS} is non-empty"
        at = f"{path}.{_LIST}"
        errors.append(required(at, why) if list_type is None else invalid(at, list_type, why))
    if list_type == "map":
        errors += _map_errors(schema, path)
    return errors + (_map_keys_errors(schema, path) if strictness.map_keys else [])


def _needs_type(schema: Object, kind: str, because: str, path: str) -> list[FieldError]:
    found = schema.get("type", "")
    if found == kind:
        return []
    why = f"must be {kind} if {because} is specified"
    return [invalid(f"{path}.type", found, why) if found else required(f"{path}.type", why)]


def _set_item_errors(schema: Object, path: str) -> list[FieldError]:
    items = schema.get("items")
    if schema.get(_LIST) != "set" or not isinstance(items, dict):
        return []
    why = f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "array" and items.get(_LIST) not in {None, "atomic"}:
        return [invalid(f"{path}.items.{_LIST}", items[_LIST], why)]
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        return [invalid(f"{path}.items.{_MAP}", items.get(_LIST), why)]
    return []


def _map_errors(schema: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    items, keys = schema.get("items"), schema.get(_KEYS) or []
    if not keys:
        errors.append(required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map"))
    if items is None:
        errors.append(required(f"{path}.items", f"must have a schema if {_LIST} is map"))
        return errors
    if isinstance(items, list):
        why = f"must only have a single schema if {_LIST} is map"
        return [*errors, invalid(f"{path}.items", go_items(items), why)]
    kind = items.get("type", "")
    if kind != "object":
        why = f"must be object if parent array's {_LIST} is map"
        return [*errors, invalid(f"{path}.items.type", kind, why)]
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys:
        if key not in properties:
            why = "entries must all be names of item properties"
            errors.append(invalid(f"{path}.{_KEYS}", keys, why))
        elif properties[key].get("type") in {"array", "object"}:
            why = f"must be a scalar type if parent array's {_LIST} is map"
            errors.append(invalid(f"{path}.items.properties[{key}].type", kind, why))
        if key in seen:
            errors.append(invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries"))
        seen.add(key)
        if len(errors) > MAX_FIELD_ERRORS:
            break
    return errors


def _map_keys_errors(schema: Object, path: str) -> list[FieldError]:
    items, list_type = schema.get("items"), schema.get(_LIST)
    if not isinstance(items, dict) or list_type not in {"set", "map"}:
        return []
    errors: list[FieldError] = []
    if items.get("nullable"):
        why = f"cannot be nullable when {_LIST} is {list_type}"
        errors.append(forbidden(f"{path}.items.nullable", why))
    if list_type == "set":
        return errors
    because = f"this property is in {_KEYS}, so it"
    needed = set(items.get("required") or ())
    for key in schema.get(_KEYS) or ():
        found = (items.get("properties") or {}).get(key)
        if found is None:
            continue
        at = f"{path}.items.properties[{key}]"
        if key not in needed and found.get("default") is None:
            why = f"{because} must have a default or be a required property"
            errors.append(required(f"{at}.default", why))
        if found.get("nullable"):
            errors.append(forbidden(f"{at}.nullable", f"{because} cannot be nullable"))
    return errors


def _rules_errors(schema: Object, path: str) -> list[FieldError]:
    """Errors in the fields of rules; `schema_checks` tests whether they compile."""
    errors: list[FieldError] = []
    rules = schema.get(_RULES) or ()
    # whether paths can be looked up: a question about the whole schema, which is asked once
    has_paths = any(rule.get("fieldPath") for rule in rules) and problem(schema) is None
    for index, rule in enumerate(rules):
        at = f"{path}.{_RULES}[{index}]"
        errors += _rule_text_errors(rule, at)
        expression = rule.get("messageExpression", "")
        if expression and not expression.strip():
            why = "messageExpression must be non-empty if specified"
            errors.append(required(f"{at}.messageExpression", why))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{at}.reason", reason, _REASONS))
        found = rule.get("fieldPath", "")
        errors += _rule_path_errors(found, schema if has_paths else None, f"{at}.fieldPath")
        if len(errors) > MAX_FIELD_ERRORS:
            break
    return errors


def _has_newline(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _rule_text_errors(rule: Object, path: str) -> list[FieldError]:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        return [required(f"{path}.rule", "rule is not specified")]
    if message and not message.strip():
        return [invalid(f"{path}.message", message, "must be non-empty if specified")]
    if _has_newline(message.strip()):
        return [invalid(f"{path}.message", message, "must not contain line breaks")]
    if _has_newline(text) and not message.strip():
        why = "message must be specified if rule contains line breaks"
        return [required(f"{path}.message", why)]
    return []


def _rule_path_errors(field_path: str, schema: Object | None, path: str) -> list[FieldError]:
    if not field_path:
        return []
    errors = []
    if not field_path.strip():
        errors.append(invalid(path, field_path, "must be non-empty if specified"))
    if _has_newline(field_path):
        errors.append(invalid(path, field_path, "must not contain line breaks"))
    if schema is not None:
        try:
            field_at(field_path, schema)
        except PathProblem:
            errors.append(invalid(path, field_path, "must be a valid path"))
    return errors
