"""Structural schemas: every field has a type, and logic only narrows what is there.

`problem` says why a schema cannot be read as a structural one at all, `structural_errors` what
keeps it from being one. Both work on the JSON of `openAPIV3Schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykcp.machinery.lazy_path import LazyPath, joined
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    forbidden,
    invalid,
    required,
    within,
)
from pykcp.types import Object

ROOT, ITEM, FIELD = "root", "item", "field"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING_FLAG = "x-kubernetes-int-or-string"
_NO_TYPE = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}


def children(schema: Object) -> Iterator[Object]:
    """All schemas directly inside this one, logic included."""
    items, extra = schema.get("items"), schema.get("additionalProperties")
    yield from items if isinstance(items, list) else [items] if items else []
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name) or ()
    if isinstance(schema.get("not"), dict):
        yield schema["not"]
    yield from (schema.get("properties") or {}).values()
    if isinstance(extra, dict):
        yield extra
    yield from (schema.get("patternProperties") or {}).values()
    if isinstance(schema.get("additionalItems"), dict):
        yield schema["additionalItems"]
    yield from (schema.get("definitions") or {}).values()
    yield from (d for d in (schema.get("dependencies") or {}).values() if isinstance(d, dict))


def nodes(schema: Object | None) -> Iterator[Object]:
    """A schema and all inside it."""
    if schema is not None:
        yield schema
        for child in children(schema):
            yield from nodes(child)


def problem(schema: Object) -> str | None:
    """Why this cannot be a structural schema; None if it can."""
    for node in nodes(schema):
        found = _unsupported(node)
        if found:
            return found
    return None


def _unsupported(schema: Object) -> str | None:
    for name, shown in (("id", "id"), ("$schema", "schema"), ("$ref", "$ref"),
                        ("patternProperties", "patternProperties"),
                        ("dependencies", "dependencies")):  # fmt: skip
        if schema.get(name):
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if schema.get("additionalItems") is not None:
        return "OpenAPIV3Schema 'additionalItems' is not supported"
    if schema.get("definitions"):
        return "OpenAPIV3Schema 'definitions' is not supported"
    if schema.get(_PRESERVE) is False:
        return f"internal error: '{_PRESERVE}' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return None


def structural_errors(schema: Object, path: str) -> list[FieldError]:
    """What keeps a schema from being structural, in alphabetical order."""
    errors = _invariant_errors(schema, ROOT, path) + _completeness_errors(schema, path)
    return sorted(errors + _pattern_errors(schema, path), key=FieldError.text)


def _invariant_errors(schema: Object, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, items = schema.get("type", ""), schema.get("items")
    if kind == "array" and items is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if items is not None:
        errors += within(f"{path}.items", _invariant_errors(items, ITEM, ""))
    for name, child in (schema.get("properties") or {}).items():
        errors += within(f"{path}.properties[{name}]", _invariant_errors(child, FIELD, ""))
    extra = schema.get("additionalProperties")
    if extra is not None:
        if level == ROOT:
            at = f"{path}.additionalProperties"
            errors.append(forbidden(at, "must not be used at the root"))
        if isinstance(extra, dict):
            errors += within(f"{path}.additionalProperties", _invariant_errors(extra, FIELD, ""))
    errors += _extension_errors(schema, path)
    errors += _logic_errors(
        schema,
        path,
        skip_any_of=schema.get("anyOf") == _INT_OR_STRING,
        skip_first_all_of=_starts_with_int_or_string(schema.get("allOf")),
    )
    return errors + _type_errors(schema, kind, level, path)


def _starts_with_int_or_string(all_of: list[Object] | None) -> bool:
    return bool(all_of) and all_of is not None and all_of[0].get("anyOf") == _INT_OR_STRING


def _extension_errors(schema: Object, path: str) -> list[FieldError]:
    if not schema.get(_INT_OR_STRING_FLAG):
        return []
    why = f"must be false if {_INT_OR_STRING_FLAG} is true"
    flags = [flag for flag in (_PRESERVE, _EMBEDDED) if schema.get(flag)]
    return [invalid(f"{path}.{flag}", True, why) for flag in flags]


def _type_errors(schema: Object, kind: str, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    embedded, properties = schema.get(_EMBEDDED), schema.get("properties") or {}
    if embedded and kind != "object":
        why = f"must be object if {_EMBEDDED} is true"
        at = f"{path}.type"
        errors.append(invalid(at, kind, why) if kind else required(at, why))
    elif not kind and not schema.get(_INT_OR_STRING_FLAG) and not schema.get(_PRESERVE):
        errors.append(required(f"{path}.type", _NO_TYPE[level]))
    if embedded and schema.get("additionalProperties") is not None:
        why = f"must not be used if {_EMBEDDED} is set"
        errors.append(forbidden(f"{path}.additionalProperties", why))
    if level == ROOT and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    is_resource = level == ROOT or bool(embedded)
    for name in ("kind", "apiVersion"):
        found = properties.get(name)
        if is_resource and found is not None and found.get("type") != "string":
            at = f"{path}.properties[{name}].type"
            errors.append(invalid(at, found.get("type", ""), "must be string"))
    if "metadata" in properties:
        at = f"{path}.properties[metadata]"
        errors += _metadata_errors(properties["metadata"], is_resource, level, at)
    if embedded and not schema.get(_PRESERVE) and not properties:
        why = f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        errors.append(required(f"{path}.properties", why))
    return errors


def _metadata_errors(schema: Object, is_resource: bool, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if is_resource and schema.get("type") != "object":
        errors.append(invalid(f"{path}.type", schema.get("type", ""), "must be object"))
    if level == ROOT:
        rest = {k: v for k, v in schema.items() if k not in {"type", "default"} and v}
        if set(rest.get("properties", ())) <= {"name", "generateName"}:
            rest.pop("properties", None)
        if rest:
            why = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            errors.append(forbidden(path, why))
    return errors


def _logic_errors(
    schema: Object, path: str, *, skip_any_of: bool = False, skip_first_all_of: bool = False
) -> list[FieldError]:
    """What allOf, anyOf, oneOf and not may not say."""
    errors: list[FieldError] = []
    if not skip_any_of:
        for index, clause in enumerate(schema.get("anyOf") or ()):
            errors += within(f"{path}.anyOf[{index}]", _clause_errors(clause, ""))
    for index, clause in enumerate(schema.get("allOf") or ()):
        skip = skip_first_all_of and index == 0
        errors += within(f"{path}.allOf[{index}]", _clause_errors(clause, "", skip_any_of=skip))
    for index, clause in enumerate(schema.get("oneOf") or ()):
        errors += within(f"{path}.oneOf[{index}]", _clause_errors(clause, ""))
    if schema.get("not") is not None:
        errors += within(f"{path}.not", _clause_errors(schema["not"], ""))
    return errors


MAX_PATTERNS = 300_000
"""What all patterns of one schema may come to, in characters and instructions of programs."""


def _pattern_errors(schema: Object, path: str) -> list[FieldError]:
    """Patterns that are none, and too many of them: they are compiled to find out."""
    refusals: dict[str, str] = {}
    errors: list[FieldError] = []
    total = 0
    for pattern, steps in _patterns(schema, (None, path)):
        if pattern not in refusals:
            from pykcp.machinery import regex

            effort, refusals[pattern] = regex.verdict(pattern)
            total += effort
            if total > MAX_PATTERNS:
                return [forbidden(path, "the patterns of this schema are too large together")]
        if refusals[pattern]:
            why = f"must be a valid regular expression, but isn't: {refusals[pattern]}"
            errors.append(invalid(joined(steps), pattern, why))
            if len(errors) > MAX_FIELD_ERRORS:
                break
    return errors


def _patterns(schema: Object, path: LazyPath) -> Iterator[tuple[str, LazyPath]]:
    """All patterns, and where they stand."""
    if schema.get("pattern"):
        yield schema["pattern"], (path, ".pattern")
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield from _patterns(schema[name], (path, f".{name}"))
    for name in ("anyOf", "allOf", "oneOf"):
        for index, clause in enumerate(schema.get(name) or ()):
            yield from _patterns(clause, (path, f".{name}[{index}]"))
    for name, child in (schema.get("properties") or {}).items():
        yield from _patterns(child, (path, f".properties[{name}]"))


# What a clause may not have: its name, and what it would have to be.
_FORBIDDEN: tuple[tuple[str, str], ...] = (
    ("default", "undefined"), ("title", "empty"), ("description", "empty"),
    ("nullable", "false"), (_PRESERVE, "false"), (_EMBEDDED, "false"),
    (_INT_OR_STRING_FLAG, "false"), ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"), ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
)  # fmt: skip


def _clause_errors(clause: Object, path: str, *, skip_any_of: bool = False) -> list[FieldError]:
    errors = _logic_errors(clause, path, skip_any_of=skip_any_of)
    if clause.get("items") is not None:
        errors += within(f"{path}.items", _clause_errors(clause["items"], ""))
    properties = clause.get("properties") or {}
    for name, child in properties.items():
        errors += within(f"{path}.properties[{name}]", _clause_errors(child, ""))
    if clause.get("type"):
        errors.append(forbidden(f"{path}.type", "must be empty to be structural"))
    extra = clause.get("additionalProperties")
    if isinstance(extra, dict) or extra is True:
        why = "must be undefined to be structural"
        errors.append(forbidden(f"{path}.additionalProperties", why))
    for name, state in _FORBIDDEN:
        said = clause.get(name)
        if said is not None if state == "undefined" else said:
            errors.append(forbidden(f"{path}.{name}", f"must be {state} to be structural"))
    if "metadata" in properties:
        why = "must not be specified in a nested context"
        errors.append(forbidden(f"{path}.properties[metadata]", why))
    return errors


def _completeness_errors(schema: Object, path: str) -> list[FieldError]:
    """Logic at the root may only mention fields that are specified."""
    return [
        error
        for at, clause in _clauses(schema, path)
        for error in _clause_completeness(clause, schema, path, at)
    ]


def _clauses(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    if schema.get("not") is not None:
        yield f"{path}.not", schema["not"]
    for name in ("allOf", "anyOf", "oneOf"):
        for index, clause in enumerate(schema.get(name) or ()):
            yield f"{path}.{name}[{index}]", clause


def _clause_completeness(
    clause: Object, schema: Any, schema_path: str, clause_path: str
) -> list[FieldError]:
    if schema is None:
        return [required(schema_path, f"because it is defined in {clause_path}")]
    errors: list[FieldError] = []
    for at, inner in _clauses(clause, clause_path):
        errors += _clause_completeness(inner, schema, schema_path, at)
    if clause.get("items") is not None:
        errors += _clause_completeness(
            clause["items"], schema.get("items"), f"{schema_path}.items", f"{clause_path}.items"
        )
    for name, child in (clause.get("properties") or {}).items():
        field = f"properties[{name}]"
        errors += _clause_completeness(
            child,
            (schema.get("properties") or {}).get(name),
            f"{schema_path}.{field}",
            f"{clause_path}.{field}",
        )
    return errors
