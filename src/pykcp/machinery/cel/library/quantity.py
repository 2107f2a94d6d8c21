"""Kubernetes' quantities: exact decimal numbers with suffixes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.values import INT_MAX, INT_MIN, EvalError

_FORM = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
# possessive: what was read is not read again when the rest does not fit
_PARTS = re.compile(r"([+-]?)([0-9]*+)(?:(\.)([0-9]*+))?+([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_MAX_LENGTH = 1000
_DECIMAL = {
    "": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_EXPONENT = 10_000


class CelQuantity:
    """`value` × 10^`scale`; `fits` means that it is stored as a small integer."""

    __slots__ = ("fits", "scale", "value")
    cel_type = "kubernetes.Quantity"

    def __init__(self, value: int, scale: int, fits: bool) -> None:
        self.value = value
        self.scale = scale
        self.fits = fits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CelQuantity) and self.compare(other) == 0

    def __hash__(self) -> int:
        value, scale = self.value, self.scale
        while value and value % 10 == 0:
            value, scale = value // 10, scale + 1
        return hash((value, scale if value else 0))

    def _aligned(self, other: CelQuantity) -> tuple[int, int, int]:
        scale = min(self.scale, other.scale)
        spend(abs(self.scale - other.scale) // 64)
        return (
            self.value * 10 ** (self.scale - scale),
            other.value * 10 ** (other.scale - scale),
            scale,
        )

    def compare(self, other: CelQuantity) -> int:
        a, b, _ = self._aligned(other)
        return (a > b) - (a < b)

    def plus(self, other: CelQuantity) -> CelQuantity:
        a, b, scale = self._aligned(other)
        return _sum(self, other, a + b, scale)

    def minus(self, other: CelQuantity) -> CelQuantity:
        a, b, scale = self._aligned(other)
        return _sum(self, other, a - b, scale)

    def as_int(self) -> int | None:
        """The integer value, if it can be computed without fractions."""
        if not self.fits or self.scale < 0 or self.scale > 18:
            return None
        value = self.value * int(10**self.scale)
        return value if INT_MIN <= value <= INT_MAX else None

    def as_float(self) -> float:
        try:
            return float(self.value) * 10.0**self.scale if self.scale else float(self.value)
        except OverflowError:
            return float("inf") if self.value > 0 else float("-inf")


def _sum(a: CelQuantity, b: CelQuantity, value: int, scale: int) -> CelQuantity:
    fits = a.fits and b.fits and INT_MIN <= value <= INT_MAX
    return CelQuantity(value, scale, fits)


def to_quantity(text: str) -> CelQuantity:
    if not text:
        raise EvalError(f"quantities must match the regular expression '{_FORM}'")
    if len(text) > _MAX_LENGTH:
        raise EvalError(f"quantities must have at most {_MAX_LENGTH} characters")
    found = _PARTS.fullmatch(text)
    if found is None:
        raise EvalError(f"quantities must match the regular expression '{_FORM}'")
    sign, whole, point, fraction, suffix = found.groups()
    whole, fraction = whole.lstrip("0"), fraction or ""
    if not whole and not point and not suffix:
        return CelQuantity(0, 0, fits=True)
    binary, exponent = _suffix(suffix)
    negative = sign == "-"
    if not binary:
        small = len(whole or "0") + len(fraction) <= 18 and exponent - len(fraction) >= -9
        value = int((whole or "0") + fraction)
        return _decimal(-value if negative else value, exponent - len(fraction), small)
    small = not fraction and 15 - len(whole or "0") - int(exponent * 3 / 10) - 1 >= 0
    value = int((whole or "0") + fraction) * 2**exponent
    if small and value <= INT_MAX:
        return CelQuantity(-value if negative else value, 0, fits=True)
    return _binary(value, -len(fraction), negative)


def _suffix(suffix: str) -> tuple[bool, int]:
    if suffix in _DECIMAL:
        return False, _DECIMAL[suffix]
    if suffix in _BINARY:
        return True, _BINARY[suffix]
    if len(suffix) > 1 and suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]+", suffix[1:]):
        exponent = int(suffix[1:20])
        if abs(exponent) <= _MAX_EXPONENT:
            return False, exponent
    raise EvalError("unable to parse quantity's suffix")


def _decimal(value: int, scale: int, small: bool) -> CelQuantity:
    if small and INT_MIN <= value <= INT_MAX:
        return CelQuantity(value, scale, fits=True)
    return CelQuantity(*_round_up(value, scale), fits=False)


def _round_up(value: int, scale: int) -> tuple[int, int]:
    """Nothing finer than nano: what is finer counts as one more, away from zero."""
    if scale >= -9:
        return value, scale
    divisor = 10 ** (-9 - scale)
    quotient, rest = divmod(abs(value), divisor)
    quotient += rest > 0
    return (-quotient if value < 0 else quotient), -9


def _binary(value: int, scale: int, negative: bool) -> CelQuantity:
    value, scale = _round_up(value, scale)
    if value > INT_MAX * 10 ** (-scale):
        value, scale = INT_MAX, 0
    return CelQuantity(-value if negative else value, scale, fits=False)


def _is_quantity(text: str) -> bool:
    try:
        to_quantity(text)
    except EvalError:
        return False
    return True


def _integer(quantity: CelQuantity) -> int:
    value = quantity.as_int()
    if value is None:
        raise EvalError("cannot convert value to integer")
    return value


def _from_int(value: int) -> CelQuantity:
    return CelQuantity(value, 0, fits=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_quantity": to_quantity,
    "is_quantity_string": _is_quantity,
    "quantity_sign": lambda q: (q.value > 0) - (q.value < 0),
    "quantity_get_int": _integer,
    "quantity_is_integer": lambda q: q.as_int() is not None,
    "quantity_get_float": CelQuantity.as_float,
    "quantity_compare_to": CelQuantity.compare,
    "quantity_is_greater_than": lambda a, b: a.compare(b) > 0,
    "quantity_is_less_than": lambda a, b: a.compare(b) < 0,
    "quantity_add": CelQuantity.plus,
    "quantity_add_int": lambda q, n: q.plus(_from_int(n)),
    "quantity_sub": CelQuantity.minus,
    "quantity_sub_int": lambda q, n: q.minus(_from_int(n)),
}
