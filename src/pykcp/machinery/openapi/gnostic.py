"""OpenAPI v2 as protobuf: gnostic's `openapi.v2.Document`, which older kubectls ask for.

The messages are tables: keyword of the JSON document, field number, and how the value is
written. Encoders return the bytes of a value; messages are written inside out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import orjson

from pykcp.types import Object

Encoder: TypeAlias = Callable[[int, Any], bytes]
"""Writes one field: its number and its value."""

Table: TypeAlias = dict[str, tuple[int, Encoder]]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode()) if value else b""


def texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_bytes(number, value.encode()) for value in values)


def flag(number: int, value: bool) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def whole(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1) if value else b""


def real(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def any_value(number: int, value: Any) -> bytes:
    """Anything, as YAML; JSON is YAML."""
    return _bytes(number, text(2, orjson.dumps(value).decode() + "\n"))


def any_values(number: int, values: Iterable[Any]) -> bytes:
    return b"".join(any_value(number, value) for value in values)


def message(table: Table, extensions: int = 0) -> Encoder:
    """A message by its table; keywords that start with `x-` go into field `extensions`."""
    return lambda number, value: _bytes(number, _body(table, extensions, value))


def _body(table: Table, extensions: int, value: Object) -> bytes:
    parts: list[tuple[int, bytes]] = []
    for keyword, item in value.items():
        row = table.get(keyword)
        if row is not None:
            parts.append((row[0], row[1](row[0], item)))
        elif extensions and keyword.startswith("x-"):
            parts.append((extensions, _bytes(extensions, text(1, keyword) + any_value(2, item))))
    parts.sort(key=lambda part: part[0])
    return b"".join(data for _, data in parts)


def named(inner: Encoder) -> Encoder:
    """A map, as a message with repeated pairs of name and value."""

    def encode(number: int, value: Object) -> bytes:
        pairs = b"".join(_bytes(1, text(1, k) + inner(2, v)) for k, v in value.items())
        return _bytes(number, pairs)

    return encode


def repeated(inner: Encoder) -> Encoder:
    return lambda number, values: b"".join(inner(number, value) for value in values)


def wrapped(field: int, inner: Encoder) -> Encoder:
    """A message whose only field is the value: one arm of a `oneof`, or a list of one."""
    return lambda number, value: _bytes(number, inner(field, value))


_SCHEMA: Table = {}
schema = message(_SCHEMA, extensions=31)


def _additional(number: int, value: Any) -> bytes:
    inner = flag(2, value) or b"\x10\x00" if isinstance(value, bool) else schema(1, value)
    return _bytes(number, inner)


def _type(number: int, value: str) -> bytes:
    return _bytes(number, text(1, value))


_SCHEMA.update(
    {
        "$ref": (1, text),
        "format": (2, text),
        "title": (3, text),
        "description": (4, text),
        "default": (5, any_value),
        "multipleOf": (6, real),
        "maximum": (7, real),
        "exclusiveMaximum": (8, flag),
        "minimum": (9, real),
        "exclusiveMinimum": (10, flag),
        "maxLength": (11, whole),
        "minLength": (12, whole),
        "pattern": (13, text),
        "maxItems": (14, whole),
        "minItems": (15, whole),
        "uniqueItems": (16, flag),
        "maxProperties": (17, whole),
        "minProperties": (18, whole),
        "required": (19, texts),
        "enum": (20, any_values),
        "additionalProperties": (21, _additional),
        "type": (22, _type),
        "items": (23, wrapped(1, schema)),
        "allOf": (24, repeated(schema)),
        "properties": (25, named(schema)),
        "example": (30, any_value),
    }
)

_QUERY: Table = {
    "required": (1, flag),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
    "type": (6, text),
    "uniqueItems": (20, flag),
}
_PATH: Table = {**_QUERY, "type": (5, text), "uniqueItems": (19, flag)}
_BODY: Table = {
    "description": (1, text),
    "name": (2, text),
    "in": (3, text),
    "required": (4, flag),
    "schema": (5, schema),
}


def _parameter(number: int, value: Object) -> bytes:
    """Parameter → body, query or path."""
    place = value["in"]
    if place == "body":
        inner = message(_BODY)(1, value)
    else:
        arm, table = (3, _QUERY) if place == "query" else (4, _PATH)
        inner = _bytes(2, message(table)(arm, value))
    return _bytes(number, inner)


def _parameters_item(number: int, value: Object) -> bytes:
    """ParametersItem → Parameter, or a reference to one."""
    reference = value.get("$ref")
    if reference is not None:
        return _bytes(number, _bytes(2, text(1, reference)))
    return _bytes(number, _parameter(1, value))


_RESPONSE: Table = {"description": (1, text), "schema": (2, wrapped(1, schema))}
_OPERATION: Table = {
    "tags": (1, texts),
    "description": (3, text),
    "operationId": (5, text),
    "produces": (6, texts),
    "consumes": (7, texts),
    "parameters": (8, repeated(_parameters_item)),
    "responses": (9, named(wrapped(1, message(_RESPONSE)))),
    "schemes": (10, texts),
    "deprecated": (11, flag),
}
_operation = message(_OPERATION, extensions=13)
_PATH_ITEM: Table = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, repeated(_parameters_item)),
}


def _paths(number: int, value: Object) -> bytes:
    item = message(_PATH_ITEM)
    return _bytes(number, b"".join(_bytes(2, text(1, k) + item(2, v)) for k, v in value.items()))


_API_KEY: Table = {
    "type": (1, text),
    "name": (2, text),
    "in": (3, text),
    "description": (4, text),
}


def _strings(number: int, value: Iterable[str]) -> bytes:
    return _bytes(number, texts(1, value))


_DOCUMENT: Table = {
    "swagger": (1, text),
    "info": (2, message({"title": (1, text), "version": (2, text)})),
    "paths": (8, _paths),
    "definitions": (9, named(schema)),
    "parameters": (10, named(_parameter)),
    "security": (12, repeated(named(_strings))),
    "securityDefinitions": (13, named(wrapped(2, message(_API_KEY)))),
}


def encode_document(document: Object) -> bytes:
    """The v2 document as a serialized `openapi.v2.Document`."""
    return _body(_DOCUMENT, 16, document)
