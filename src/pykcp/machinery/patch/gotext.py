"""Values formatted like Go's fmt, for error messages that clients match."""

from __future__ import annotations

import math
from typing import Any

from pykcp.machinery.status import go_quote


def show(value: Any) -> str:
    """A JSON value as `%v` prints it: `map[a:1 b:[x y] c:<nil>]`."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return show_float(value)
        case dict():
            return "map[" + " ".join(f"{k}:{show(value[k])}" for k in sorted(value)) + "]"
        case list():
            return "[" + " ".join(show(item) for item in value) + "]"
    return str(value)


def show_quoted(value: Any) -> str:
    """A value in a field path: strings quoted, null spelled out, numbers as `%v`."""
    match value:
        case None:
            return "null"
        case str():
            return go_quote(value)
        case list():
            return "[" + ",".join(show_quoted(item) for item in value) + "]"
        case dict():
            return "".join(f"{k}={show_quoted(v)}" for k, v in sorted(value.items()))
    return show(value)


def show_float(value: float) -> str:
    """A float as `%v` prints it: the shortest digits, with an exponent from 1e+06 on."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, exponent = _shortest(value)
    sign = "-" if value < 0 else ""
    if exponent < -4 or exponent >= 6:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _plain(digits, exponent)


def _shortest(value: float) -> tuple[str, int]:
    """The shortest digits that read back as the value, and the exponent of the first."""
    text = repr(abs(value))
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
    whole, _, fraction = text.partition(".")
    digits = (whole + fraction).lstrip("0")
    first = len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    return digits.rstrip("0") or "0", first


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole, fraction = digits[: exponent + 1], digits[exponent + 1 :]
    return whole.ljust(exponent + 1, "0") + ("." + fraction if fraction else "")


_GO_TYPES = {
    str: "string", bool: "bool", int: "int64", float: "float64",
    dict: "map[string]interface {}", list: "[]interface {}",
}  # fmt: skip


def go_type(value: Any) -> str:
    """The type of a decoded value as `%T` prints it; null under `%s` as fmt complains of it."""
    return _GO_TYPES.get(type(value), "%!s(<nil>)")
