"""Values of fields: scalars, and the types that have a JSON form of their own.

Each type reads a field's content as the JSON value that Go's encoder would print for it, and
writes a JSON value as Go would after having decoded it.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import index
from typing import TypeAlias

import orjson

from pykcp.machinery.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    Raw,
    field,
    integer,
    octets,
    read_fields,
    text,
    varint,
)
from pykcp.machinery.quantity import QuantityError, canonical
from pykcp.types import JSON

Reader: TypeAlias = Callable[[Raw], JSON]
Writer: TypeAlias = Callable[[JSON], bytes]


@dataclass(frozen=True, slots=True)
class ValueType:
    """How one value is read and written, without its tag and length."""

    wire: int
    read: Reader
    write: Writer
    empty: Callable[[], bytes | None]
    """The content of Go's zero value; None where the zero value is not written."""
    zero: Callable[[], JSON] = lambda: None
    """Its JSON form."""
    is_struct: bool = False
    """Go prints structs even if they are empty and marked `omitempty`."""


def _int32(raw: Raw) -> int:
    low = integer(raw) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _write_int(value: JSON) -> bytes:
    return varint(index(value))


def _write_bool(value: JSON) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return b"\x01" if value else b"\x00"


def _write_text(value: JSON) -> bytes:
    encoded: bytes = value.encode()
    return encoded


def _read_double(raw: Raw) -> JSON:
    if len(octets(raw)) != 8:
        raise ProtobufError("proto: wrong wireType")
    return struct.unpack("<d", octets(raw))[0]


def _read_octets(raw: Raw) -> JSON:
    return base64.b64encode(octets(raw)).decode()


def _write_octets(value: JSON) -> bytes:
    return base64.b64decode(value)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
_ZERO_TIME = datetime(1, 1, 1, tzinfo=UTC)


def _moment(raw: Raw) -> tuple[datetime, int] | None:
    """A point in time and its nanoseconds; None if there is none, which is not 1970."""
    if raw == b"":
        return None
    parts = dict(read_fields(octets(raw)))
    seconds = integer(parts.get(1, 0))
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise ProtobufError(f"time out of range: {seconds}") from error
    return None if moment == _ZERO_TIME else (moment, integer(parts.get(2, 0)))


def _read_time(raw: Raw) -> JSON:
    found = _moment(raw)
    return found and found[0].strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def _read_micro_time(raw: Raw) -> JSON:
    found = _moment(raw)
    if found is None:
        return None
    clock = found[0].strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{clock}.{found[1] // 1000:06d}Z"


@lru_cache(maxsize=1024)
def _write_time(value: str) -> bytes:
    since = datetime.fromisoformat(value) - _EPOCH
    return _timestamp(since // _SECOND, 0)


@lru_cache(maxsize=1024)
def _write_micro_time(value: str) -> bytes:
    since = datetime.fromisoformat(value) - _EPOCH
    return _timestamp(since // _SECOND, since % _SECOND // _MICROSECOND * 1000)


_ZERO_SECONDS = (_ZERO_TIME - _EPOCH) // _SECOND


def _timestamp(seconds: int, nanos: int) -> bytes:
    if seconds == _ZERO_SECONDS and not nanos:
        return b""
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)


def _read_quantity(raw: Raw) -> JSON:
    given = next((text(v) for n, v in read_fields(octets(raw)) if n == 1), "0")
    try:
        return canonical(given)
    except QuantityError as error:
        raise ProtobufError(str(error)) from error


def _write_quantity(value: JSON) -> bytes:
    return field(1, canonical(value).encode())


def _read_int_or_string(raw: Raw) -> JSON:
    parts = dict(read_fields(octets(raw)))
    return text(parts.get(3, b"")) if integer(parts.get(1, 0)) == 1 else _int32(parts.get(2, 0))


def _write_int_or_string(value: JSON) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + field(3, value.encode())
    return b"\x08\x00\x10" + _write_int(value) + b"\x1a\x00"


def _read_raw(raw: Raw) -> JSON:
    content = next((v for n, v in read_fields(octets(raw)) if n == 1), b"")
    if not content:
        return None
    try:
        return orjson.loads(octets(content))
    except orjson.JSONDecodeError as error:
        raise ProtobufError(str(error)) from error


def _write_raw(value: JSON) -> bytes:
    return field(1, orjson.dumps(value))


def _scalar(wire: int, read: Reader, write: Writer, empty: bytes, zero: JSON) -> ValueType:
    return ValueType(wire, read, write, lambda: empty, lambda: zero)


def _special(read: Reader, write: Writer, empty: bytes = b"", zero: JSON = None) -> ValueType:
    return ValueType(BYTES, read, write, lambda: empty, lambda: zero, is_struct=True)


SCALARS = {
    "": _scalar(BYTES, text, _write_text, b"", ""),
    "i": _scalar(VARINT, _int32, _write_int, b"\x00", 0),
    "l": _scalar(VARINT, integer, _write_int, b"\x00", 0),
    "b": _scalar(VARINT, lambda raw: bool(integer(raw)), _write_bool, b"\x00", False),
    "d": _scalar(FIXED64, _read_double, lambda value: struct.pack("<d", value), bytes(8), 0.0),
    "y": ValueType(BYTES, _read_octets, _write_octets, lambda: None),
    "Time": _special(_read_time, _write_time),
    "MicroTime": _special(_read_micro_time, _write_micro_time),
    "Quantity": _special(_read_quantity, _write_quantity, field(1, b"0"), "0"),
    "IntOrString": _special(
        _read_int_or_string, _write_int_or_string, b"\x08\x00\x10\x00\x1a\x00", 0
    ),
    "Raw": _special(_read_raw, _write_raw),
}
"""By the names that the tables have for them; `Raw` is any JSON."""
