"""Protobuf on the wire: numbered fields, and the envelope that Kubernetes puts around a message.

A body of `application/vnd.kubernetes.protobuf` is four magic bytes and a message with the type
and the object's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

MAGIC = b"k8s\x00"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Raw: TypeAlias = int | bytes
"""A field's content before its type is known."""


class ProtobufError(ValueError):
    """Bytes that are not the message they should be, or an object that has no such message."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
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
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = read_varint(data, at - 1)
        number, form = tag >> 3, tag & 7
        if form == BYTES:
            if at < end and data[at] <= 0x7F:  # nearly always
                size = data[at]
                at += 1
            else:
                size, at = read_varint(data, at)
        elif form == VARINT:
            value, at = read_varint(data, at)
            yield number, value
            continue
        elif form in (FIXED64, FIXED32):
            size = 8 if form == FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {form}")
        if number == 0 or at + size > end:
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _long_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT = tuple(_long_varint(value) for value in range(1024))
"""Most tags and lengths: looked up instead of computed."""


def varint(value: int) -> bytes:
    return _SHORT[value] if 0 <= value < 1024 else _long_varint(value)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: text, bytes or a message."""
    return varint(number << 3 | BYTES) + varint(len(payload)) + payload


def octets(raw: Raw) -> bytes:
    if not isinstance(raw, bytes):
        raise ProtobufError("proto: wrong wireType")
    return raw


def text(raw: Raw) -> str:
    try:
        return octets(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"proto: invalid UTF-8: {error}") from error


def integer(raw: Raw) -> int:
    if not isinstance(raw, int):
        raise ProtobufError("proto: wrong wireType")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


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
            named = dict(read_fields(octets(value)))
            api_version, kind = text(named.get(1, b"")), text(named.get(2, b""))
        elif number == 2:
            raw = octets(value)
    return api_version, kind, raw


_NO_ENCODING = field(3, b"") + field(4, b"")


def close_envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    named = field(1, api_version.encode()) + field(2, kind.encode())
    return b"".join(
        (MAGIC, field(1, named), varint(2 << 3 | BYTES), varint(len(raw)), raw, _NO_ENCODING)
    )
