"""Table columns of custom resources: a name, a type and a JSONPath each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pykcp.machinery.durations import age_since
from pykcp.machinery.schema.definition import Cell, Column
from pykcp.machinery.schema.jsonpath import PathError, find, parse, text_of
from pykcp.types import Object

NAME_TEXT = "Name of the object."
AGE_TEXT = "When the object was created."
_MOST_JOINED = 3


def name_cell(obj: Object, _now: datetime) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


NAME = Column("Name", "string", "name", NAME_TEXT, cell=name_cell)


def custom_columns(additional: list[Object] | None, *, joins: bool = False) -> tuple[Column, ...]:
    """The columns that a CRD's version asks for; name and age if it asks for none.

    `joins`: a path that leads to several texts shows them all; as in Kubernetes, columns of users'
    CRDs show the first.
    """
    if not additional:
        return (NAME, _column({"name": "Age", "type": "date", "jsonPath": _CREATED}, AGE_TEXT))
    return (NAME, *(_column(c, "", joins=joins) for c in additional))


_CREATED = ".metadata.creationTimestamp"


def _column(definition: Object, text: str, *, joins: bool = False) -> Column:
    path = definition["jsonPath"]
    default_text = f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        definition["name"],
        definition["type"],
        definition.get("format", ""),
        definition.get("description") or text or default_text,
        definition.get("priority", 0),
        joined_cell(path) if joins and "[*]" in path else path_cell(path, definition["type"]),
    )


def joined_cell(path: str) -> Cell:
    """A cell with the first of several texts and the number of the others, as kubectl shows hosts."""
    steps = parse(path)

    def cell(obj: Object, _now: datetime) -> str | None:
        try:
            found = [str(one) for one in find(steps, obj)]
        except PathError:
            return None
        more = len(found) - _MOST_JOINED
        text = ",".join(found[:_MOST_JOINED])
        return f"{text} + {more} more..." if more > 0 else text

    return cell


def path_cell(path: str, kind: str) -> Cell:
    """A cell that follows a JSONPath; None where it leads nowhere or to another type."""
    try:
        steps = parse(path)
    except PathError:
        return lambda _obj, _now: None

    def cell(obj: Object, now: datetime) -> Any:
        try:
            found = find(steps, obj)
        except PathError:
            return None
        return _typed(found[0], kind, now) if found else None

    return cell


def _typed(value: Any, kind: str, now: datetime) -> Any:
    if kind == "string":
        return text_of(value)
    if kind == "date":
        return age_since(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if kind == "integer":
        return int(value) if -_INT64 <= value < _INT64 else -_INT64  # as Go casts on amd64
    if kind != "number":
        return None
    if not -_INT64 <= value < _INT64:
        return float(value)
    return int(value) if value == int(value) else value  # Go writes whole numbers without a point


_INT64 = 1 << 63
