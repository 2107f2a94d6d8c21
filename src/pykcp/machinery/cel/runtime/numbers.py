"""Numbers as text, the way Go reads and writes them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_INT = re.compile(r"[+-]?[0-9]+")
# possessive: what was read is not read again when the rest does not fit
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
    r"|0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)"
)
_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


def format_double(value: float) -> str:
    """Go's %g: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent - 1 if value != 0 else 0
    minus = "-" if sign else ""
    if point < -4 or point >= 6:
        return minus + _scientific(text, point)
    return minus + fixed(text, point)


def _scientific(digits: str, exponent: int) -> str:
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def fixed(digits: str, exponent: int) -> str:
    """Digits with the point after `exponent` + 1 of them."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def format_fixed(value: float) -> str:
    """Go's %f with as many digits as it takes."""
    if math.isnan(value) or math.isinf(value):
        return format_double(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent - 1 if value != 0 else 0
    return ("-" if sign else "") + fixed(text, point)


def parse_int(text: str) -> int | None:
    """A decimal integer of any size, or None."""
    if not _INT.fullmatch(text) or len(text) > 40:
        return None
    return int(text)


def parse_float(text: str) -> float | None:
    """A double, or None when it is not one or too large for one."""
    plain = text.lower().lstrip("+-") if text[:1] in "+-" else text.lower()
    if plain in _SPECIAL and len(text) - len(plain) <= 1:
        return -_SPECIAL[plain] if text.startswith("-") else _SPECIAL[plain]
    if "_" in text:
        if not _underscores_fit(text):
            return None
        text = text.replace("_", "")
    if not _FLOAT.fullmatch(text):
        return None
    try:
        value = float.fromhex(text) if "x" in text.lower() else float(text)
    except (OverflowError, ValueError):
        return None
    return None if math.isinf(value) else value


def _underscores_fit(text: str) -> bool:
    """Underscores may stand between digits only."""
    return re.search(r"(?:^|[^0-9a-fA-FxX])_|__|_(?:[^0-9a-fA-F]|$)", text) is None
