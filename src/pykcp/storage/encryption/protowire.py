"""Just enough of protobuf's wire format for KMS messages: fields of bytes, text and numbers.

The messages are few and flat, so they are written by hand here; what we do not know
is skipped when it is received. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

Fields = dict[int, list[bytes | int]]


class MalformedProtobuf(ValueError):
    """Not protobuf, or cut off."""


def put_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def put_bytes(field: int, data: bytes) -> bytes:
    """A field of bytes, text or a message; nothing at all if it is empty, as proto3 has it."""
    return put_varint(field << 3 | 2) + put_varint(len(data)) + data if data else b""


def put_number(field: int, number: int) -> bytes:
    return put_varint(field << 3) + put_varint(number) if number else b""


def put_map(field: int, entries: Mapping[str, bytes]) -> bytes:
    out = bytearray()
    for key in sorted(entries):
        entry = put_bytes(1, key.encode()) + put_bytes(2, entries[key])
        out += put_varint(field << 3 | 2) + put_varint(len(entry)) + entry
    return bytes(out)


def read(data: bytes) -> Fields:
    """All fields by number."""
    fields: Fields = {}
    place = 0
    while place < len(data):
        tag, place = get_varint(data, place)
        value: bytes | int
        match tag & 7:
            case 0:
                value, place = get_varint(data, place)
            case 1:
                value, place = _slice(data, place, 8)
            case 2:
                size, place = get_varint(data, place)
                value, place = _slice(data, place, size)
            case 5:
                value, place = _slice(data, place, 4)
            case _:
                raise MalformedProtobuf("unknown wire type")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def get_bytes(fields: Fields, number: int) -> bytes:
    values = fields.get(number)
    if not values:
        return b""
    if not isinstance(values[-1], bytes):
        raise MalformedProtobuf("not the expected type")
    return values[-1]


def get_text(fields: Fields, number: int) -> str:
    try:
        return get_bytes(fields, number).decode()
    except UnicodeDecodeError:
        raise MalformedProtobuf("text is not UTF-8") from None


def get_number(fields: Fields, number: int) -> int:
    values = fields.get(number)
    return values[-1] if values and isinstance(values[-1], int) else 0


def get_map(fields: Fields, number: int) -> dict[str, bytes]:
    entries = [read(e) for e in fields.get(number, ()) if isinstance(e, bytes)]
    return {get_text(entry, 1): get_bytes(entry, 2) for entry in entries}


def get_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    raise MalformedProtobuf("cut off")


def _slice(data: bytes, place: int, size: int) -> tuple[bytes, int]:
    end = place + size
    if end > len(data):
        raise MalformedProtobuf("cut off")
    return data[place:end], end
