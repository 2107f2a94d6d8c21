"""Resource quantities: `100m`, `1.5Gi`, `12e6`.

A quantity is an exact decimal number and the family of suffixes it is written with. What
was written is kept where upstream keeps it, otherwise the canonical form is printed. Values
finer than a billionth are rounded up (away from zero).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

NANO, MILLI = -9, -3

_SPLIT = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
# possessive: what was read is not read again when the rest does not fit
_TEXT = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_MAX_LENGTH = 1000
_INT64_MAX = (1 << 63) - 1
_INT64_DIGITS = 18
_COMPARABLE = 40
"""Between quantities that differ by more digits, the smaller one does not matter."""
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}


class QuantityError(ValueError):
    """An invalid quantity; the text is the message for the client."""


_WRONG_FORMAT = f"quantities must match the regular expression '{_SPLIT}'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_TOO_LONG = f"quantities must have at most {_MAX_LENGTH} characters"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number `unscaled` times ten to the power of `exponent`."""

    unscaled: int
    exponent: int
    format: str = DECIMAL_SI
    text: str = ""
    """As written, where that is kept."""

    def __str__(self) -> str:
        return self.text or self._canonical()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self._compare(other) < 0

    def __hash__(self) -> int:
        digits, zeros = _without_factors(self.unscaled, 10)
        return hash((digits, self.exponent + zeros if digits else 0))

    def _compare(self, other: Quantity) -> int:
        """Without ever raising ten to a power that a client chose."""
        if self.sign != other.sign or not self.sign:
            return self.sign - other.sign
        own, others = self._magnitude(), other._magnitude()
        if own != others:
            return self.sign if own > others else -self.sign
        shift = self.exponent - other.exponent
        left = self.unscaled * int(10 ** max(shift, 0))
        right = other.unscaled * int(10 ** max(-shift, 0))
        return (left > right) - (left < right)

    def __add__(self, other: Quantity) -> Quantity:
        """In the format of this one, unless it is zero."""
        if abs(self.exponent - other.exponent) > _COMPARABLE:
            return max(self, other)  # clients choose exponents: ten is not raised to any power
        exponent = min(self.exponent, other.exponent)
        unscaled = sum(q.unscaled * int(10 ** (q.exponent - exponent)) for q in (self, other))
        return Quantity(unscaled, exponent, self.format if self.sign else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + Quantity(-other.unscaled, other.exponent, other.format)

    def _magnitude(self) -> int:
        return len(str(abs(self.unscaled))) + self.exponent

    @property
    def sign(self) -> int:
        return (self.unscaled > 0) - (self.unscaled < 0)

    def rounded_up(self, scale: int) -> Quantity:
        """Away from zero to a multiple of ten to the power of `scale`; as written if it is one."""
        if self.exponent >= scale:
            return self
        return Quantity(_divide_up(self.unscaled, scale - self.exponent), scale, self.format)

    def scaled(self, scale: int) -> int:
        """In units of ten to the power of `scale`, rounded up.

        Beyond 64 bits it wraps or is 0, as upstream's does.
        """
        if self.exponent < scale:
            return _wrap(_divide_up(self.unscaled, scale - self.exponent))
        shift = self.exponent - scale
        small = abs(self.unscaled) < 10**_INT64_DIGITS
        if shift > 200 or (small and shift not in {0, 3, 6, 9} and self._overflows(shift)):
            return 0
        return _wrap(self.unscaled * int(10**shift))

    def _overflows(self, shift: int) -> bool:
        return abs(self.unscaled) * int(10**shift) > _INT64_MAX

    @property
    def value(self) -> int:
        return self.scaled(0)

    @property
    def milli_value(self) -> int:
        return self.scaled(MILLI)

    def _canonical(self) -> str:
        if not self.unscaled:
            return "0"
        form = self.format
        if form == BINARY_SI:
            if Quantity(-1024, 0) < self < Quantity(1024, 0) or self.rounded_up(0) != self:
                form = DECIMAL_SI
            else:
                number = self.rounded_up(0)
                whole = number.unscaled * 10**number.exponent
                digits, times = _without_factors(whole, 1024)
                return f"{digits}{_BINARY_SUFFIX.get(times * 10, '')}"
        digits, zeros = _without_factors(self.unscaled, 10)
        exponent = self.exponent + zeros
        digits *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if form == DECIMAL_SI:
            return f"{digits}{_DECIMAL_SUFFIX.get(exponent, '')}"
        return f"{digits}e{exponent}" if exponent else str(digits)


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _divide_up(number: int, digits: int) -> int:
    """Divided by ten to the power of `digits`, away from zero."""
    if digits > len(str(abs(number))):
        return (number > 0) - (number < 0)
    quotient = -(-abs(number) // int(10**digits))
    return quotient if number > 0 else -quotient


def _wrap(number: int) -> int:
    low = number & ((1 << 64) - 1)
    return low - (1 << 64) if low >> 63 else low


def parse(value: str | float) -> Quantity:
    """The quantity a JSON string or number stands for; raises QuantityError."""
    text = _text_of(value)
    return _known(text) if len(text) <= _KEEP_MAX else _parse(text)


def canonical(value: str | float) -> str:
    """The text of a quantity as the server shows it; raises QuantityError."""
    text = _text_of(value)
    return _known_text(text) if len(text) <= _KEEP_MAX else str(_parse(text))


def _text_of(value: str | float) -> str:
    if isinstance(value, str):
        return value.strip()
    number = repr(value)
    return number.removesuffix(".0") if "e" not in number else number


def _parse(text: str) -> Quantity:
    if text == "0":
        return Quantity(0, 0, DECIMAL_SI, "0")
    if len(text) > _MAX_LENGTH:
        raise QuantityError(_TOO_LONG)
    match = _TEXT.fullmatch(text)
    if not text or match is None:
        raise QuantityError(_WRONG_FORMAT)
    sign, zeros, whole, fraction, suffix = match.groups(default="")
    if not whole and not fraction and not suffix and "." not in text and (zeros or not whole):
        return Quantity(0, 0)
    whole = whole or "0"
    if suffix in _BINARY:
        return _binary(text, sign, whole, fraction, _BINARY[suffix])
    if suffix in _DECIMAL:
        return _decimal(text, sign, whole, fraction, _DECIMAL[suffix], DECIMAL_SI)
    return _decimal(text, sign, whole, fraction, _exponent(suffix), DECIMAL_EXPONENT)


_KEEP_MAX = 64
"""Longer texts are parsed anew each time: clients do not fill our memory."""
_known = lru_cache(maxsize=2048)(_parse)
_known_text = lru_cache(maxsize=2048)(lambda text: str(_parse(text)))


def _exponent(suffix: str) -> int:
    if suffix[0] not in "eE" or not re.fullmatch(r"[-+]?[0-9]+", suffix[1:]):
        raise QuantityError(_WRONG_SUFFIX)
    number = int(suffix[1:])
    if abs(number) > _INT64_MAX:
        raise QuantityError(_WRONG_SUFFIX)
    low = number & 0xFFFFFFFF  # upstream keeps 32 bits
    return low - (1 << 32) if low >> 31 else low


def _decimal(text: str, sign: str, whole: str, fraction: str, exponent: int, form: str) -> Quantity:
    digits = whole + fraction
    unscaled, exponent = int(sign + digits), exponent - len(fraction)
    if len(digits) <= _INT64_DIGITS and exponent >= NANO:
        as_written = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(unscaled, exponent, form, text if as_written else "")
    if exponent < NANO:
        unscaled, exponent = _divide_up(unscaled, NANO - exponent), NANO
    return Quantity(unscaled, exponent, form)


def _binary(text: str, sign: str, whole: str, fraction: str, power: int) -> Quantity:
    number = int(whole) << power
    if not fraction and 15 - len(whole) - power * 3 // 10 - 1 >= 0 and number <= _INT64_MAX:
        as_written = power % 10 == 0 and int(whole) & 7 != 0
        return Quantity(int(sign + str(number)), 0, BINARY_SI, text if as_written else "")
    unscaled, exponent = int(whole + fraction) << power, -len(fraction)
    if exponent < NANO:
        unscaled, exponent = _divide_up(unscaled, NANO - exponent), NANO
    amount = min(Quantity(unscaled, exponent), Quantity(_INT64_MAX, 0))
    below_one = Quantity(0, 0) < amount < Quantity(1, 0)
    unscaled = -amount.unscaled if sign == "-" else amount.unscaled
    return Quantity(unscaled, amount.exponent, DECIMAL_SI if below_one else BINARY_SI)
