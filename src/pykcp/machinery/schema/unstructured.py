"""What becomes of a strategic merge patch's result: Go's converter from maps to structs. Pure.

It is laxer with numbers than decoding JSON is: a whole float is an integer, and an integer
that is too large for its field is cut to its lower bits. Its errors are worded in its own way.
A value comes out with the numbers that the converter would have put into the struct; unknown
fields and nulls stay, for the decoder to see.
"""

from __future__ import annotations

from typing import Any

from pykcp.machinery.patch.gojson import TOO_DEEP
from pykcp.machinery.schema import diagnose
from pykcp.machinery.schema.goscalars import GoScalarError, base64_text
from pykcp.machinery.schema.model import Schema
from pykcp.types import JSON, Object

_BITS = {"int32": 32, "uint8": 8}
_BYTE = Schema(type="integer", format="uint8", go_type="uint8")
_LEAST = -(1 << 63)


class Inconvertible(ValueError):
    """A value does not fit its field; the message is Go's."""


def converted(schema: Schema, value: Object) -> Object:
    """An object with the numbers of its typed form. Raises Inconvertible."""
    try:
        found: Object = _converted(schema, value)
    except RecursionError as error:
        raise Inconvertible(TOO_DEEP) from error
    return found


def word_error(value: JSON) -> str:
    """Why a value that is no text cannot become one."""
    return _unfit(value, Schema(type="string", go_type="string"))


def _converted(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.codec:
        return _custom(schema, value)
    if schema.type == "object":
        return _members(schema, value)
    if schema.type == "array":
        return _list(schema.items or Schema(), value)
    if schema.format == "byte":
        return _bytes(value)
    return _scalar(schema, value) if schema.type else value


def _members(schema: Schema, value: Any) -> Object:
    """A map, or a struct, whose fields are looked at in their own order."""
    if not isinstance(value, dict):
        what = "map from" if schema.additional is not None else "struct from:"
        raise Inconvertible(f"cannot restore {what} {_kind(value)}")
    if schema.additional is not None:
        return {key: _converted(schema.additional, item) for key, item in value.items()}
    known = {
        name: _converted(child, value[name])
        for name, child in schema.properties.items()
        if name in value
    }
    return {**value, **known}


def _list(items: Schema, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Inconvertible(f"cannot restore slice from {_kind(value)}")
    return [_converted(items, item) for item in value]


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return _list(_BYTE, value)
    try:
        base64_text(value)
    except GoScalarError as error:
        raise Inconvertible(f"error decoding from json: {error}") from error
    return value


def _scalar(schema: Schema, value: Any) -> Any:
    wanted, kind = schema.type, _kind(value)
    if wanted == "integer" and kind == "int64":
        return _cut(value, schema.format)
    if wanted == "integer" and kind == "float64" and float(value).is_integer():
        whole = int(value)
        return _cut(whole if _LEAST <= whole < -_LEAST else _LEAST, schema.format)
    is_number = wanted == "number" and kind in ("int64", "float64")
    if is_number or (wanted, kind) in (("string", "string"), ("boolean", "bool")):
        return value
    raise Inconvertible(_unfit(value, schema))


def _cut(value: int, form: str) -> int:
    """The lower bits of an integer, as Go converts it to a smaller one."""
    bits = _BITS.get(form, 64)
    low = value & ((1 << bits) - 1)
    return low if form.startswith("u") or low < 1 << (bits - 1) else low - (1 << bits)


def _unfit(value: JSON, schema: Schema) -> str:
    """Go can convert integers to text, and floats to integers, which the converter refuses to do."""
    kind = _kind(value)
    if (schema.type, kind) in (("string", "int64"), ("integer", "float64")):
        return f"cannot convert {kind} to {schema.go_type}"
    return f"unrecognized type: {_TYPES.get(schema.type) or schema.format}"


_TYPES = {"string": "string", "boolean": "bool", "number": "float64"}


def _custom(schema: Schema, value: Any) -> Any:
    """A type that decodes itself, from JSON text: a float without a fraction has none there."""
    if isinstance(value, float) and value.is_integer() and abs(value) < -_LEAST:
        value = int(value)
    if schema.codec == "int-or-string":
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            what = diagnose.what(value)
            what = f"number {value!r}" if what == "number" else what
            raise Inconvertible(f"json: cannot unmarshal {what} into Go value of type int32")
    elif (error := diagnose.codec_error(schema, value)) is not None:
        raise Inconvertible(error)
    return value


def _kind(value: JSON) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if _LEAST <= value < -_LEAST else "float64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "slice" if isinstance(value, list) else "map"
