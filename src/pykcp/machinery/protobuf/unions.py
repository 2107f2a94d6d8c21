"""Unions of a CustomResourceDefinition's schemas: a schema, or something simpler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pykcp.machinery.protobuf.values import SCALARS, ValueType
from pykcp.machinery.protobuf.wire import BYTES, Raw, field, integer, octets, read_fields
from pykcp.types import JSON

_STRING = SCALARS[""]
_Union: TypeAlias = Callable[[ValueType], ValueType]


def _or_bool(schema: ValueType) -> ValueType:
    def read(raw: Raw) -> JSON:
        allows = False
        for number, value in read_fields(octets(raw)):
            if number == 2:
                return schema.read(value)
            allows = allows or (number == 1 and bool(integer(value)))
        return allows

    def write(value: JSON) -> bytes:
        if isinstance(value, dict):
            return b"\x08\x01" + field(2, schema.write(value))
        return b"\x08\x01" if value else b"\x08\x00"

    return ValueType(BYTES, read, write, lambda: b"\x08\x00", lambda: False, is_struct=True)


def _or_list(schema: ValueType, item: ValueType) -> ValueType:
    def read(raw: Raw) -> JSON:
        items = []
        for number, value in read_fields(octets(raw)):
            if number == 1:
                return schema.read(value)
            if number == 2:
                items.append(item.read(value))
        return items or None

    def write(value: JSON) -> bytes:
        if isinstance(value, dict):
            return field(1, schema.write(value))
        return b"".join([field(2, item.write(v)) for v in value])

    return ValueType(BYTES, read, write, lambda: b"", is_struct=True)


UNIONS: dict[str, _Union] = {
    "SchemaOrBool": _or_bool,
    "SchemaOrArray": lambda schema: _or_list(schema, schema),
    "SchemaOrStrings": lambda schema: _or_list(schema, _STRING),
}
