"""Boxing: JSON values of a known schema as values that carry their type.

While the type of a value is known from its schema the generated code works on the JSON
itself. Where it is not known any more (as `dyn`, in a literal, as an argument of a
function for any type) the value has to carry it: dates become timestamps, sets become
sets, objects answer by their escaped names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.check.declared import Declared, declare
from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.front.escaping import escape
from pykcp.machinery.cel.library.times import parse_date, parse_loose_duration, parse_rfc3339
from pykcp.machinery.cel.runtime.values import (
    Duration,
    EvalError,
    KeyedList,
    ObjectValue,
    SetList,
    Timestamp,
    UnknownValue,
)
from pykcp.machinery.schema.model import Schema

Boxer = Callable[[Any], Any]


def to_double(value: Any) -> float:
    return float(value)


def to_date(value: str) -> Timestamp:
    found = parse_date(value)
    if found is None:
        raise EvalError(f"Invalid date formatted string {value}: parsing time failed")
    return found


def to_date_time(value: str) -> Timestamp:
    found = parse_rfc3339(value, local=True) if value else Timestamp(0)
    if found is None:
        raise EvalError(f"Invalid date-time formatted string {value}: parsing time failed")
    return found


def to_duration(value: str) -> Duration:
    nanos = parse_loose_duration(value)
    if nanos is None:
        raise EvalError(f"Invalid duration {value}: unable to parse {value} as duration")
    return Duration(nanos)


def to_bytes(value: str) -> bytes:
    """Base64 in the alphabet for URLs, as the format is read upstream."""
    try:
        return base64.b64decode(value.replace("\n", "").replace("\r", ""), b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        at = next((i for i, c in enumerate(value) if not (c.isalnum() or c in "-_=")), len(value))
        raise EvalError(
            f"Invalid byte formatted string {value}: illegal base64 data at input byte {at}"
        ) from error


def scalar_converter(declared: Declared) -> Boxer | None:
    """What makes a CEL value of a scalar's JSON; None when that is it already."""
    match declared.kind:
        case "double":
            return to_double
        case "timestamp":
            return to_date if declared.format == "date" else to_date_time
        case "duration":
            return to_duration
        case "bytes":
            return to_bytes
        case _:
            return None


def boxer(declared: Declared) -> Boxer:
    """The function that boxes values of a declared type."""
    match declared.kind:
        case "list":
            return _list_boxer(declared)
        case "map":
            return _map_boxer(declared)
        case "object":
            return _object_boxer(declared)
    convert = scalar_converter(declared)
    if convert is None:
        return _same
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _list_boxer(declared: Declared) -> Boxer:
    assert declared.elem is not None
    if declared.is_plain:
        return _same
    box, steps = boxer(declared.elem), _steps(declared.elem)
    match declared.schema.list_type:
        case "set":
            return lambda value: SetList(_boxed(box, value, steps))
        case "map":
            keys = tuple(escape(k) or k for k in declared.schema.list_keys)
            return lambda value: KeyedList(_boxed(box, value, steps), keys)
        case _:
            return lambda value: _boxed(box, value, steps)


def _steps(declared: Declared) -> int:
    """About how many microseconds it takes to box a value, without what is inside it."""
    if declared.kind == "object":
        return 2 + len(declared.fields) // 2
    return 1 if scalar_converter(declared) is None else 4


def _boxed(box: Boxer, items: list[Any], steps: int) -> list[Any]:
    spend(len(items) * steps)
    return [box(v) for v in items]


def _map_boxer(declared: Declared) -> Boxer:
    assert declared.elem is not None
    if declared.is_plain:
        return _same
    box, steps = boxer(declared.elem), _steps(declared.elem)

    def box_map(value: dict[str, Any]) -> dict[str, Any]:
        spend(len(value) * steps)
        return {k: box(v) for k, v in value.items()}

    return box_map


def _object_boxer(declared: Declared) -> Boxer:
    fields: list[tuple[str, str, Boxer]] = [
        (name, declared.properties[name], boxer(field)) for name, field in declared.fields.items()
    ]
    known = set(declared.properties.values())
    for name, prop in declared.schema.properties.items():
        if name not in known:
            known.add(name)
            identifier = escape(name)
            if identifier is not None:
                fields.append((identifier, name, _unknown_boxer(prop)))
    names = frozenset(known)

    def box(value: dict[str, Any]) -> ObjectValue:
        found = {}
        for identifier, name, convert in fields:
            item = value.get(name)
            if item is not None:
                found[identifier] = convert(item)
        return ObjectValue(found, value, names)

    return box


def _unknown_boxer(schema: Schema) -> Boxer:
    declared = declare(schema, root=False)
    return UnknownValue if declared is None else boxer(declared)
