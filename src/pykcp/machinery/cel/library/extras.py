"""math and base64: CEL's own extensions, which Kubernetes does not offer to rules."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.library.lists import maximum, minimum
from pykcp.machinery.cel.runtime.arithmetic import check_int, check_uint
from pykcp.machinery.cel.runtime.values import INT_MAX, UINT_MAX, EvalError, UInt


def _signed(value: int) -> int:
    """The low 64 bits as a signed integer."""
    value &= UINT_MAX
    return value - (UINT_MAX + 1) if value > INT_MAX else value


def _shift(count: int) -> int:
    if count < 0:
        raise EvalError(f"math.bitShift() negative offset: {count}")
    return min(count, 64)


def _shift_right(value: int, count: int) -> int:
    return _signed((value & UINT_MAX) >> _shift(count))


def _sign(value: float) -> float:
    if math.isnan(value):
        return value
    return float((value > 0) - (value < 0))


def _round(value: float) -> float:
    if not math.isfinite(value):
        return value
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _whole(read: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(read(value)) if math.isfinite(value) else value


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        pass
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvalError("illegal base64 data at input byte 0") from error


def _extremes(name: str, pick: Callable[[list[Any]], Any]) -> dict[str, Callable[..., Any]]:
    kinds = ("int", "uint", "double")
    pairs = {f"math_@{name}_{a}_{b}": lambda x, y: pick([x, y]) for a in kinds for b in kinds}
    singles = {f"math_@{name}_{k}": lambda x: x for k in kinds}
    lists: dict[str, Callable[..., Any]] = {f"math_@{name}_list_{k}": pick for k in kinds}
    return {**pairs, **singles, **lists}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_extremes("max", maximum),
    **_extremes("min", minimum),
    "base64_encode_bytes": lambda value: base64.b64encode(value).decode(),
    "base64_decode_string": _decode,
    "math_abs_double": abs,
    "math_abs_int": lambda value: check_int(abs(value)),
    "math_abs_uint": lambda value: value,
    "math_sign_double": _sign,
    "math_sign_int": lambda value: (value > 0) - (value < 0),
    "math_sign_uint": lambda value: UInt(value > 0),
    "math_ceil_double": _whole(math.ceil),
    "math_floor_double": _whole(math.floor),
    "math_round_double": _round,
    "math_trunc_double": _whole(math.trunc),
    "math_isFinite_double": math.isfinite,
    "math_isInf_double": math.isinf,
    "math_isNaN_double": math.isnan,
    "math_sqrt_double": _sqrt,
    "math_sqrt_int": _sqrt,
    "math_sqrt_uint": _sqrt,
    "math_bitAnd_int_int": lambda a, b: a & b,
    "math_bitAnd_uint_uint": lambda a, b: UInt(a & b),
    "math_bitOr_int_int": lambda a, b: a | b,
    "math_bitOr_uint_uint": lambda a, b: UInt(a | b),
    "math_bitXor_int_int": lambda a, b: a ^ b,
    "math_bitXor_uint_uint": lambda a, b: UInt(a ^ b),
    "math_bitNot_int_int": lambda a: ~a,
    "math_bitNot_uint_uint": lambda a: check_uint(~a & UINT_MAX),
    "math_bitShiftLeft_int_int": lambda a, n: _signed(a << _shift(n)),
    "math_bitShiftLeft_uint_int": lambda a, n: UInt((a << _shift(n)) & UINT_MAX),
    "math_bitShiftRight_int_int": _shift_right,
    "math_bitShiftRight_uint_int": lambda a, n: UInt(a >> _shift(n)),
}
