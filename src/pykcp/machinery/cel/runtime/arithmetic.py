"""Order and arithmetic, where types are not known beforehand or a result may overflow."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.operators import equal
from pykcp.machinery.cel.runtime.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    EvalError,
    KeyedList,
    SetList,
    Timestamp,
    UInt,
)

_NO_OVERLOAD = "no such overload"
_NUMBERS = frozenset({"int", "uint", "double"})
_RECEIVERS = frozenset({"string", "google.protobuf.Timestamp", "google.protobuf.Duration"})
_MIN_SECONDS, _MAX_SECONDS = -62135596800, 253402300799
_NANOS = 1_000_000_000


# --- order

_ORDERED = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "google.protobuf.Timestamp",
     "google.protobuf.Duration"}
)  # fmt: skip


def _compare(a: Any, b: Any, name: str, op: Callable[[Any, Any], bool]) -> bool:
    ka, kb = kind_of(a), kind_of(b)
    if ka not in _ORDERED:
        raise EvalError(f"{_NO_OVERLOAD}: {name}")
    if ka in _NUMBERS and kb in _NUMBERS:
        if a != a or b != b:  # noqa: PLR0124 - NaN
            raise EvalError("NaN values cannot be ordered")
        return op(a, b)
    if ka != kb:
        raise EvalError(_NO_OVERLOAD)
    return op(a, b)


def less(a: Any, b: Any) -> bool:
    return _compare(a, b, "_<_", operator.lt)


def less_equals(a: Any, b: Any) -> bool:
    return _compare(a, b, "_<=_", operator.le)


def greater(a: Any, b: Any) -> bool:
    return _compare(a, b, "_>_", operator.gt)


def greater_equals(a: Any, b: Any) -> bool:
    return _compare(a, b, "_>=_", operator.ge)


# --- arithmetic


def check_int(value: int) -> int:
    if value > INT_MAX or value < INT_MIN:
        raise EvalError("integer overflow")
    return value


def check_uint(value: int) -> UInt:
    if value < 0 or value > UINT_MAX:
        raise EvalError("unsigned integer overflow")
    return UInt(value)


def duration(nanos: int) -> Duration:
    if nanos > INT_MAX or nanos < INT_MIN:
        raise EvalError("integer overflow")
    return Duration(nanos)


def timestamp(nanos: int, offset: int) -> Timestamp:
    if not _MIN_SECONDS * _NANOS <= nanos < (_MAX_SECONDS + 1) * _NANOS:
        raise EvalError("timestamp overflow")
    return Timestamp(nanos, offset)


def add(a: Any, b: Any) -> Any:
    match kind_of(a), kind_of(b):
        case ("int", "int"):
            return check_int(a + b)
        case ("uint", "uint"):
            return check_uint(int(a) + int(b))
        case ("double", "double") | ("string", "string") | ("bytes", "bytes"):
            return a + b
        case ("list", "list"):
            return add_lists(a, b)
        case ("google.protobuf.Duration", "google.protobuf.Duration"):
            return duration(a.nanos + b.nanos)
        case ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            return timestamp(a.nanos + b.nanos, a.offset)
        case ("google.protobuf.Duration", "google.protobuf.Timestamp"):
            return timestamp(a.nanos + b.nanos, b.offset)
        case (ka, _):
            raise _mismatch(ka, "_+_")


def add_lists(a: list[Any], b: list[Any]) -> list[Any]:
    spend((len(a) + len(b)) // 16 + 1)
    if isinstance(a, SetList):
        spend(len(a) * len(b))
        out = SetList(a)
        for item in b:
            if not any(equal(x, item) for x in out):
                out.append(item)
        return out
    if isinstance(a, KeyedList):
        spend(len(a) + len(b))
        keyed = KeyedList(list(a), a.keys)
        places = {a.key_of(x): i for i, x in enumerate(a)}
        for item in b:
            place = places.get(a.key_of(item))
            if place is None:
                keyed.append(item)
            else:
                keyed[place] = item
        return keyed
    return [*a, *b]


def subtract(a: Any, b: Any) -> Any:
    match kind_of(a), kind_of(b):
        case ("int", "int"):
            return check_int(a - b)
        case ("uint", "uint"):
            return check_uint(int(a) - int(b))
        case ("double", "double"):
            return a - b
        case ("google.protobuf.Duration", "google.protobuf.Duration"):
            return duration(a.nanos - b.nanos)
        case ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            return timestamp(a.nanos - b.nanos, a.offset)
        case ("google.protobuf.Timestamp", "google.protobuf.Timestamp"):
            return duration(a.nanos - b.nanos)
        case (ka, _):
            raise _mismatch(ka, "_-_")


def multiply(a: Any, b: Any) -> Any:
    match kind_of(a), kind_of(b):
        case ("int", "int"):
            return check_int(a * b)
        case ("uint", "uint"):
            return check_uint(int(a) * int(b))
        case ("double", "double"):
            return a * b
        case (ka, _):
            raise _mismatch(ka, "_*_")


def divide_int(a: int, b: int) -> int:
    if b == 0:
        raise EvalError("division by zero")
    quotient = abs(a) // abs(b)
    return check_int(quotient if (a < 0) == (b < 0) else -quotient)


def modulo_int(a: int, b: int) -> int:
    if b == 0:
        raise EvalError("modulus by zero")
    if a == INT_MIN and b == -1:
        raise EvalError("integer overflow")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def divide_double(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:  # noqa: PLR0124 - NaN
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def divide(a: Any, b: Any) -> Any:
    match kind_of(a), kind_of(b):
        case ("int", "int"):
            return divide_int(a, b)
        case ("uint", "uint"):
            return UInt(divide_int(int(a), int(b)))
        case ("double", "double"):
            return divide_double(a, b)
        case (ka, _):
            raise _mismatch(ka, "_/_")


def modulo(a: Any, b: Any) -> Any:
    match kind_of(a), kind_of(b):
        case ("int", "int"):
            return modulo_int(a, b)
        case ("uint", "uint"):
            return UInt(modulo_int(int(a), int(b)))
        case (ka, _):
            if ka == "double":
                raise EvalError(f"{_NO_OVERLOAD}: _%_")
            raise _mismatch(ka, "_%_")


def negate(a: Any) -> Any:
    kind = kind_of(a)
    if kind == "int":
        return check_int(-a)
    if kind == "double":
        return -a
    raise EvalError(_NO_OVERLOAD)


def logical_not(a: Any) -> bool:
    if a is True or a is False:
        return not a
    raise EvalError(_NO_OVERLOAD)


def _mismatch(kind: str, name: str) -> EvalError:
    """The error for an operand; types that support arithmetic get no detail, as in cel-go."""
    known = _NUMBERS | _RECEIVERS | ({"list", "bytes"} if name == "_+_" else frozenset())
    return EvalError(_NO_OVERLOAD if kind in known else f"{_NO_OVERLOAD}: {name}")
