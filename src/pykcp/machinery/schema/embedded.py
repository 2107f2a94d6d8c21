"""Objects inside of objects: fields marked x-kubernetes-embedded-resource.

Their apiVersion, kind and metadata follow the rules of every object, whatever the schema
says. Most schemas have none of them; then there is nothing to compile and nothing to pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pykcp.machinery import names
from pykcp.machinery.schema.decode import DecodeError, TypedDecoder
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

MetaCheck: TypeAlias = Callable[[Object, bool, str], list[FieldError]]
"""Judges metadata: the metadata, whether it has a namespace, its path."""


class EmbeddedError(ValueError):
    """An embedded object that is none; the message is upstream's."""


def has_embedded(schema: Schema, _seen: frozenset[int] = frozenset()) -> bool:
    if id(schema) in _seen:
        return False
    if schema.embedded_resource:
        return True
    seen = _seen | {id(schema)}
    parts = [*schema.properties.values(), schema.items, schema.additional]
    return any(part is not None and has_embedded(part, seen) for part in parts)


def embedded_objects(schema: Schema, value: Any, path: str = "") -> Iterator[tuple[Object, str]]:
    """Every embedded object in a value, with its path, outer ones first."""
    if type(value) is dict:
        if schema.embedded_resource:
            yield value, path
        for key, item in list(value.items()):
            child = schema.properties.get(key)
            if child is not None:
                yield from embedded_objects(child, item, f"{path}.{key}" if path else key)
            elif schema.additional is not None:
                yield from embedded_objects(schema.additional, item, f"{path}[{key}]")
    elif type(value) is list and schema.items is not None:
        for index, item in enumerate(value):
            yield from embedded_objects(schema.items, item, f"{path}[{index}]")


def coerce(schema: Schema, value: Any, object_meta: TypedDecoder) -> list[str]:
    """Bring the metadata of embedded objects into form, in place; paths of unknown fields."""
    unknown: list[str] = []
    for embedded, path in embedded_objects(schema, value):
        for field in ("apiVersion", "kind"):
            if field in embedded and type(embedded[field]) is not str:
                error = invalid(f"{path}.{field}", embedded[field], "must be a string")
                raise EmbeddedError(error.text())
        if "metadata" in embedded:
            _coerce_metadata(embedded, path, object_meta, unknown)
    return sorted(unknown)


def _coerce_metadata(
    embedded: Object, path: str, object_meta: TypedDecoder, unknown: list[str]
) -> None:
    given = embedded["metadata"]
    problems: list[str] = []
    try:
        embedded["metadata"] = object_meta.decode(given if given is not None else {}, problems)
    except DecodeError as error:
        problem = invalid(f"{path}.metadata", _sorted(given), str(error))
        raise EmbeddedError(problem.text()) from error
    unknown += (f"{path}.metadata.{p.split(' ', 2)[2][1:-1]}" for p in problems)


def _sorted(value: Any) -> Any:
    """Keys in the order in which Go prints maps."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def embedded_errors(schema: Schema, value: Any, check_meta: MetaCheck) -> list[FieldError]:
    """What is wrong with embedded objects as objects."""
    errors: list[FieldError] = []
    for embedded, path in embedded_objects(schema, value):
        errors += _type_errors(embedded, path)
        metadata = embedded.get("metadata")
        if isinstance(metadata, dict):
            named = metadata if metadata.get("name") else {**metadata, "name": "fakename"}
            errors += check_meta(named, bool(metadata.get("namespace")), f"{path}.metadata")
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
