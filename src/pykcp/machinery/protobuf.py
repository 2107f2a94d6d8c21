"""Protobuf bodies of built-in kinds, from their schemas and a table of field numbers. Pure.

Typed Go clients send and read `application/vnd.kubernetes.protobuf`: four magic bytes,
then a message with the type and the object. The object is turned into the same JSON
values that a JSON body gives, so that everything behind decoding is shared.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

import orjson

from pykcp.machinery.schema.model import Schema
from pykcp.types import JSON, Object

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Numbers: TypeAlias = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Message name → field name → number (a path where Go embeds a struct)."""
Raw: TypeAlias = int | bytes
Reader: TypeAlias = Callable[[Raw], JSON]
Writer: TypeAlias = Callable[[JSON], bytes]


class ProtobufError(ValueError):
    """Bytes that are not the message they should be."""


def parse_numbers(text: str) -> Numbers:
    """The table of field numbers: `package` lines, then `  Message field=1 other=2.1`."""
    table: dict[str, dict[str, tuple[int, ...]]] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith("package "):
            package = line.split()[1]
        elif line.startswith("  "):
            name, *fields = line.split()
            pairs = (entry.split("=") for entry in fields)
            table[f"{package}.{name}"] = {
                key: tuple(int(n) for n in number.split(".")) for key, number in pairs
            }
    return table


# --- wire ---------------------------------------------------------------------


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def read_fields(data: bytes) -> Iterator[tuple[int, Raw]]:
    """Numbers and values of a message, in order; groups are refused."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, form = tag >> 3, tag & 7
        if form == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if form == _BYTES:
            size, at = _read_varint(data, at)
        elif form in (_FIXED64, _FIXED32):
            size = 8 if form == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {form}")
        if number == 0 or at + size > len(data):
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: text, bytes or a message."""
    return _varint(number << 3 | _BYTES) + _varint(len(payload)) + payload


def _bytes(raw: Raw) -> bytes:
    if not isinstance(raw, bytes):
        raise ProtobufError("proto: wrong wireType")
    return raw


def _text(raw: Raw) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"proto: invalid UTF-8: {error}") from error


def _int(raw: Raw) -> int:
    if not isinstance(raw, int):
        raise ProtobufError("proto: wrong wireType")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


# --- values with a form of their own -------------------------------------------


def _read_time(raw: Raw, micro: bool) -> JSON:
    if raw == b"":  # no time at all, which is not 1970
        return None
    parts = dict(read_fields(_bytes(raw)))
    seconds, nanos = _int(parts.get(1, 0)), _int(parts.get(2, 0))
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise ProtobufError(f"time out of range: {seconds}") from error
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"


def _write_time(value: JSON) -> bytes:
    moment = datetime.fromisoformat(str(value))
    seconds = int(moment.timestamp())
    out = _varint(1 << 3) + _varint(seconds)
    return out + _varint(2 << 3) + _varint(moment.microsecond * 1000)


def _read_json(raw: Raw) -> JSON:
    content = next((v for n, v in read_fields(_bytes(raw)) if n == 1), b"")
    if not content:
        return None
    try:
        return orjson.loads(_bytes(content))
    except orjson.JSONDecodeError as error:
        raise ProtobufError(str(error)) from error


def _write_json(value: JSON) -> bytes:
    return field(1, orjson.dumps(value))


def _read_quantity(raw: Raw) -> JSON:
    return next((_text(v) for n, v in read_fields(_bytes(raw)) if n == 1), "0")


def _read_int_or_string(raw: Raw) -> JSON:
    parts = dict(read_fields(_bytes(raw)))
    return _text(parts.get(3, b"")) if _int(parts.get(1, 0)) == 1 else _int(parts.get(2, 0))


def _write_int_or_string(value: JSON) -> bytes:
    if isinstance(value, str):
        return _varint(1 << 3) + _varint(1) + field(3, value.encode())
    return _varint(1 << 3) + _varint(0) + _varint(2 << 3) + _varint(int(value))


def _read_double(raw: Raw) -> JSON:
    if len(_bytes(raw)) != 8:
        raise ProtobufError("proto: wrong wireType")
    return struct.unpack("<d", _bytes(raw))[0]


# --- messages -------------------------------------------------------------------


class MessageCodec:
    """Reads and writes one message type; made by `Codecs`."""

    __slots__ = ("fields", "order")

    def __init__(self) -> None:
        self.fields: dict[int, tuple[str, Reader, bool | None] | MessageCodec] = {}
        """By number: name, reader and whether it repeats (None: map entries), or an embedded struct."""
        self.order: list[tuple[str, int, Writer]] = []
        """Name, number, and the whole field's writer; number 0 marks an embedded struct."""

    def read(self, raw: Raw) -> Object:
        out: Object = {}
        try:
            self._read_into(out, _bytes(raw))
        except RecursionError:
            raise ProtobufError("exceeded max depth") from None
        return out

    def _read_into(self, out: Object, data: bytes) -> None:
        for number, value in read_fields(data):
            known = self.fields.get(number)
            if known is None:
                continue
            if isinstance(known, MessageCodec):
                known._read_into(out, _bytes(value))
                continue
            name, reader, repeats = known
            if repeats is None:
                key, item = reader(value)
                out.setdefault(name, {})[key] = item
            elif repeats:
                out.setdefault(name, []).append(reader(value))
            else:
                out[name] = reader(value)

    def write(self, obj: JSON) -> bytes:
        out = []
        for name, number, writer in self.order:
            if number == 0:
                out.append(writer(obj))
            elif (value := obj.get(name)) is not None:
                out.append(writer(value))
        return b"".join(out)


_LIST_NUMBERS: Mapping[str, tuple[int, ...]] = {"metadata": (1,), "items": (2,)}
"""All lists are alike."""


class Codecs:
    """Message codecs of the built-in kinds, each compiled when first needed."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._made: dict[str, MessageCodec] = {}

    def of(self, schema: Schema) -> MessageCodec:
        """The codec of a struct; KeyError if its numbers are not known."""
        made = self._made.get(schema.ref)
        if made is None:
            numbers = self._numbers.get(schema.ref)
            if numbers is None and "items" in schema.properties:
                numbers = _LIST_NUMBERS
            if numbers is None and schema.properties:
                raise KeyError(schema.ref)
            made = self._made[schema.ref] = MessageCodec()
            self._fill(made, schema, numbers or {})
        return made

    def _fill(
        self, codec: MessageCodec, schema: Schema, numbers: Mapping[str, tuple[int, ...]]
    ) -> None:
        embedded: dict[int, dict[str, tuple[int, ...]]] = {}
        for name, path in numbers.items():
            if len(path) > 1:
                embedded.setdefault(path[0], {})[name] = path[1:]
            else:
                self._add(codec, name, path[0], schema.properties[name])
        for number, inner_numbers in embedded.items():
            inner = MessageCodec()
            self._fill(inner, schema, inner_numbers)
            codec.fields[number] = inner
            codec.order.append(("", 0, _embedded(number, inner)))

    def _add(self, codec: MessageCodec, name: str, number: int, schema: Schema) -> None:
        if not schema.codec and schema.type == "array":
            assert schema.items is not None
            read, write = self._value(schema.items)
            codec.fields[number] = (name, read, True)
            codec.order.append((name, number, _repeated(number, schema.items, write)))
        elif not schema.codec and schema.additional is not None:
            read, write = self._value(schema.additional)
            codec.fields[number] = (name, _map_entry(read), None)
            codec.order.append((name, number, _map_writer(number, schema.additional, write)))
        else:
            read, write = self._value(schema)
            codec.fields[number] = (name, read, False)
            codec.order.append((name, number, _single(number, schema, write)))

    def _value(self, schema: Schema) -> tuple[Reader, Writer]:
        if schema.codec:
            return self._special(schema)
        match schema.type:
            case "string" if schema.format == "byte":
                return (
                    lambda raw: base64.b64encode(_bytes(raw)).decode(),
                    lambda value: base64.b64decode(value),
                )
            case "string":
                return _text, lambda value: value.encode()
            case "integer":
                return _int, lambda value: _varint(int(value))
            case "boolean":
                return lambda raw: bool(_int(raw)), lambda value: _varint(int(value))
            case "number":
                return _read_double, lambda value: struct.pack("<d", value)
            case "array":
                return self._wrapped_list(schema)
        return lambda raw: self.of(schema).read(raw), lambda value: self.of(schema).write(value)

    def _wrapped_list(self, schema: Schema) -> tuple[Reader, Writer]:
        """A list as the value of a map: protobuf needs a message around it."""
        assert schema.items is not None
        read, write = self._value(schema.items)
        return (
            lambda raw: [read(v) for n, v in read_fields(_bytes(raw)) if n == 1],
            lambda value: b"".join(field(1, write(item)) for item in value),
        )

    def _special(self, schema: Schema) -> tuple[Reader, Writer]:
        match schema.codec:
            case "time":
                return lambda raw: _read_time(raw, micro=False), _write_time
            case "micro-time":
                return lambda raw: _read_time(raw, micro=True), _write_time
            case "quantity":
                return _read_quantity, lambda value: field(1, str(value).encode())
            case "int-or-string":
                return _read_int_or_string, _write_int_or_string
            case "schema-or-bool" | "schema-or-array" | "schema-or-strings":
                return self._schema_or(schema)
        return _read_json, _write_json

    def _schema_or(self, schema: Schema) -> tuple[Reader, Writer]:
        inner = schema.inner
        assert inner is not None
        struct_number = 2 if schema.codec == "schema-or-bool" else 1
        strings = schema.codec == "schema-or-strings"

        def read(raw: Raw) -> JSON:
            parts = list(read_fields(_bytes(raw)))
            for number, value in parts:
                if number == struct_number:
                    return self.of(inner).read(value)
            if schema.codec == "schema-or-bool":
                return any(bool(_int(v)) for n, v in parts if n == 1)
            return [_text(v) if strings else self.of(inner).read(v) for n, v in parts if n == 2]

        def write(value: JSON) -> bytes:
            if isinstance(value, dict):
                allows = _varint(1 << 3) + b"\x01" if struct_number == 2 else b""
                return allows + field(struct_number, self.of(inner).write(value))
            if isinstance(value, bool):
                return _varint(1 << 3) + _varint(int(value))
            items = (v.encode() if strings else self.of(inner).write(v) for v in value)
            return b"".join(field(2, item) for item in items)

        return read, write


def _is_varint(schema: Schema) -> bool:
    return not schema.codec and schema.type in ("integer", "boolean")


def _single(number: int, schema: Schema, write: Writer) -> Writer:
    if _is_varint(schema):
        tag = _varint(number << 3 | _VARINT)
        return lambda value: tag + write(value)
    if not schema.codec and schema.type == "number":
        tag = _varint(number << 3 | _FIXED64)
        return lambda value: tag + write(value)
    return lambda value: field(number, write(value))


def _repeated(number: int, items: Schema, write: Writer) -> Writer:
    one = _single(number, items, write)
    return lambda values: b"".join(one(v) for v in values)


def _embedded(number: int, inner: MessageCodec) -> Writer:
    return lambda obj: field(number, inner.write(obj))


def _map_entry(read: Reader) -> Reader:
    def entry(raw: Raw) -> JSON:
        parts = dict(read_fields(_bytes(raw)))
        return _text(parts.get(1, b"")), read(parts.get(2, b""))

    return entry


def _map_writer(number: int, values: Schema, write: Writer) -> Writer:
    one = _single(2, values, write)
    return lambda mapping: b"".join(
        field(number, field(1, key.encode()) + one(value)) for key, value in mapping.items()
    )


# --- the envelope ----------------------------------------------------------------


def open_envelope(body: bytes) -> tuple[str, str, bytes]:
    """apiVersion, kind and the object's bytes. Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    api_version = kind = ""
    raw = b""
    for number, value in read_fields(body[len(MAGIC) :]):
        if number == 1:
            named = dict(read_fields(_bytes(value)))
            api_version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
        elif number == 2:
            raw = _bytes(value)
    return api_version, kind, raw


def close_envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    named = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, named) + field(2, raw) + field(3, b"") + field(4, b"")
