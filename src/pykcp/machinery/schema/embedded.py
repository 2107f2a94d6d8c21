"""Objects inside of objects: fields marked x-kubernetes-embedded-resource.

Their apiVersion, kind and metadata follow the rules of every object, whatever the schema
says. Most schemas have none of them; then there is nothing to compile and nothing to pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from pykcp.machinery import names
from pykcp.machinery.lazy_path import LazyPath, spelled
from pykcp.machinery.patch.gojson import MAX_PROBLEMS
from pykcp.machinery.schema.decode import DecodeError, TypedDecoder
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import MAX_FIELD_ERRORS, FieldError, invalid, required
from pykcp.types import Object

MetaCheck: TypeAlias = Callable[[Object, bool, str], list[FieldError]]
"""Judges metadata: the metadata, whether it has a namespace, its path in the object."""


class EmbeddedError(ValueError):
    """An embedded object that is none; the message is upstream's."""


def has_embedded(schema: Schema) -> bool:
    seen: set[int] = set()
    todo: list[Schema | None] = [schema]
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        if node.embedded_resource:
            return True
        seen.add(id(node))
        todo += (*node.properties.values(), node.items, node.additional)
    return False


def embedded_objects(schema: Schema, value: Any) -> list[tuple[Object, LazyPath]]:
    """Every embedded object in a value, with its path, outer ones first."""
    found: list[tuple[Object, LazyPath]] = []
    _find(schema, value, None, found)
    return found


def _find(schema: Schema, value: Any, path: LazyPath, found: list[tuple[Object, LazyPath]]) -> None:
    if type(value) is dict:
        if schema.embedded_resource:
            found.append((value, path))
        for key, item in value.items():
            if type(item) is not dict and type(item) is not list:
                continue
            child = schema.properties.get(key)
            if child is not None:
                _find(child, item, (path, f".{key}"), found)
            elif schema.additional is not None:
                _find(schema.additional, item, (path, f"[{key}]"), found)
    elif type(value) is list and schema.items is not None:
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _find(schema.items, item, (path, f"[{index}]"), found)


def coerce(schema: Schema, value: Any, object_meta: TypedDecoder) -> list[str]:
    """Bring the metadata of embedded objects into form, in place; paths of unknown fields."""
    unknown: list[str] = []
    for embedded, path in embedded_objects(schema, value):
        for field in ("apiVersion", "kind"):
            if field in embedded and type(embedded[field]) is not str:
                where = spelled((path, f".{field}"))
                error = invalid(where, embedded[field], "must be a string")
                raise EmbeddedError(error.text())
        if "metadata" in embedded:
            _coerce_metadata(embedded, path, object_meta, unknown)
    return sorted(unknown)


def _coerce_metadata(
    embedded: Object, path: LazyPath, object_meta: TypedDecoder, unknown: list[str]
) -> None:
    given = embedded["metadata"]
    problems: list[str] = []
    try:
        embedded["metadata"] = object_meta.decode(given if given is not None else {}, problems)
    except DecodeError as error:
        problem = invalid(spelled((path, ".metadata")), _sorted(given), str(error))
        raise EmbeddedError(problem.text()) from error
    for problem_text in problems[: MAX_PROBLEMS - len(unknown)]:
        field = problem_text.split(" ", 2)[2][1:-1]
        unknown.append(spelled((path, f".metadata.{field}")))


def _sorted(value: Any) -> Any:
    """Keys in the order in which Go prints maps."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def embedded_errors(schema: Schema, value: Any, check_meta: MetaCheck) -> list[FieldError]:
    """What is wrong with embedded objects as objects."""
    errors: list[FieldError] = []
    for embedded, steps in embedded_objects(schema, value):
        if len(errors) > MAX_FIELD_ERRORS:
            break
        found = _type_errors(embedded, "")
        metadata = embedded.get("metadata")
        if isinstance(metadata, dict):
            named = metadata if metadata.get("name") else {**metadata, "name": "fakename"}
            found += check_meta(named, bool(metadata.get("namespace")), ".metadata")
        if found:
            path = spelled(steps)
            errors += (replace(error, path=path + error.path) for error in found)
    return errors


def _type_errors(embedded: Object, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{f}") for f in ("apiVersion", "kind") if f not in embedded]
    for field in ("apiVersion", "kind"):
        value = embedded.get(field)
        if value is None:
            continue
        here = f"{path}.{field}"
        if not isinstance(value, str):
            errors.append(invalid(here, value, "must be a string"))
        elif not value:
            errors.append(invalid(here, value, "must not be empty"))
        elif field == "apiVersion" and value.count("/") > 1:
            errors.append(invalid(here, value, f"unexpected GroupVersion string: {value}"))
        elif field == "kind":
            wrong = names.dns1035_label(value.lower())
            if wrong:
                text = "may have mixed case, but should otherwise match: " + ",".join(wrong)
                errors.append(invalid(here, value, text))
    return errors
