"""Conversions between the basic types, and what every container answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.runtime.arithmetic import check_int, check_uint
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.numbers import format_double, parse_float, parse_int
from pykcp.machinery.cel.runtime.operators import size
from pykcp.machinery.cel.runtime.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    EvalError,
    TypeValue,
    UInt,
)

_BOOLS = {
    "1": True, "t": True, "T": True, "true": True, "TRUE": True, "True": True,
    "0": False, "f": False, "F": False, "false": False, "FALSE": False, "False": False,
}  # fmt: skip


def _failed(source: str, target: str) -> EvalError:
    return EvalError(f"type conversion error from '{source}' to '{target}'")


def _same(value: Any) -> Any:
    return value


def string_to_int(text: str) -> int:
    value = parse_int(text)
    if value is None or not INT_MIN <= value <= INT_MAX:
        raise _failed("string", "int")
    return value


def string_to_uint(text: str) -> UInt:
    value = parse_int(text) if text[:1] not in ("+", "-") else None
    if value is None or value > UINT_MAX:
        raise _failed("string", "uint")
    return UInt(value)


def string_to_double(text: str) -> float:
    value = parse_float(text)
    if value is None:
        raise _failed("string", "double")
    return value


def string_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _failed("string", "bool")
    return _BOOLS[text]


def double_to_int(value: float) -> int:
    if not math.isfinite(value) or not -(2.0**63) < value < 2.0**63:
        raise EvalError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> UInt:
    if not math.isfinite(value) or value < 0 or value >= 2.0**64:
        raise EvalError("unsigned integer overflow")
    return UInt(int(value))


def bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from error


def bool_to_string(value: bool) -> str:
    return "true" if value else "false"


def type_of(value: Any) -> TypeValue:
    return TypeValue(kind_of(value))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "bool_to_bool": _same,
    "string_to_bool": string_to_bool,
    "bytes_to_bytes": _same,
    "string_to_bytes": lambda text: text.encode(errors="surrogatepass"),
    "double_to_double": _same,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_double": string_to_double,
    "int64_to_int64": _same,
    "double_to_int64": double_to_int,
    "string_to_int64": string_to_int,
    "uint64_to_int64": lambda value: check_int(int(value)),
    "duration_to_int64": lambda value: value.nanos,
    "uint64_to_uint64": _same,
    "double_to_uint64": double_to_uint,
    "int64_to_uint64": check_uint,
    "string_to_uint64": string_to_uint,
    "string_to_string": _same,
    "bool_to_string": bool_to_string,
    "bytes_to_string": bytes_to_string,
    "double_to_string": format_double,
    "int64_to_string": str,
    "uint64_to_string": lambda value: str(int(value)),
    "to_dyn": _same,
    "type": type_of,
    "size_bytes": size,
    "bytes_size": size,
    "size_list": size,
    "list_size": size,
    "size_map": size,
    "map_size": size,
    "size_string": size,
    "string_size": size,
}
