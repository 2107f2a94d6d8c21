"""Scalars with rules of their own, read as Go reads them: times, bytes, quantities.

Each function takes the JSON value and returns its canonical form, or raises
`GoScalarError` with the text that Go's decoder would give.
"""

from __future__ import annotations

import binascii
import calendar
import re
from datetime import UTC, datetime, timedelta, timezone

from pykcp.machinery.status import go_quote

RFC3339 = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
ZERO_TIME = "0001-01-01T00:00:00Z"

_FRACTION = re.compile(r"[.,][0-9]+")
_DIGITS_6 = re.compile(r"[.,][0-9]{6}")


class GoScalarError(ValueError):
    """A scalar that Go's decoder refuses, in its words."""


def time_text(text: str) -> str | None:
    """A time to the second, in UTC; None for the zero time, which Go prints as null."""
    if len(text) == 20 and text[10] == "T" and text[19] == "Z":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return None if text == ZERO_TIME else text
    moment, text = _parse(text, RFC3339)
    if moment is not None:
        text = moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    return None if text == ZERO_TIME else text


def micro_time_text(text: str) -> str | None:
    """A time to the microsecond, in UTC; None for the zero time."""
    if len(text) == 27 and text[10] == "T" and text[26] == "Z" and text[19] == ".":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return text
    moment, text = _parse(text, RFC3339_MICRO)
    if moment is None:
        return text
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _parse(text: str, layout: str) -> tuple[datetime | None, str]:
    """The moment in UTC; None (and the text as it is) outside of what datetime can hold."""
    reader = _TimeReader(text, layout)
    year, month, day = reader.date()
    hour, minute, second, micro = reader.clock()
    offset = reader.zone()
    reader.end()
    if not 1 <= day <= _days_in(month, year):
        raise reader.out_of_range("day")
    try:
        moment = datetime(year, month, day, hour, minute, second, micro, timezone(offset))
        return moment.astimezone(UTC), text
    except (ValueError, OverflowError):
        return None, text


def _days_in(month: int, year: int) -> int:
    """Also for the year 0, which datetime does not know."""
    return calendar.monthrange(year or 4, month)[1]


class _TimeReader:
    """Reads a timestamp element by element, and names the element it stumbles over."""

    def __init__(self, text: str, layout: str) -> None:
        self.text, self.rest, self.layout = text, text, layout

    def _bad(self, element: str, at: str) -> GoScalarError:
        return GoScalarError(
            f"parsing time {go_quote(self.text)} as {go_quote(self.layout)}: "
            f"cannot parse {go_quote(at)} as {go_quote(element)}"
        )

    def out_of_range(self, what: str) -> GoScalarError:
        return GoScalarError(f"parsing time {go_quote(self.text)}: {what} out of range")

    def _literal(self, char: str) -> None:
        if not self.rest.startswith(char):
            raise self._bad(char, self.rest)
        self.rest = self.rest[len(char) :]

    def _number(self, element: str, digits: int, *, exact: bool = True) -> int:
        rest = self.rest
        head = rest[:digits]
        if len(head) == digits and head.isascii() and head.isdigit():
            self.rest = rest[digits:]
            return int(head)
        if not exact and rest[:1].isascii() and rest[:1].isdigit():
            self.rest = rest[1:]
            return int(rest[0])
        raise self._bad(element, rest)

    def date(self) -> tuple[int, int, int]:
        year = self._number("2006", 4)
        self._literal("-")
        month = self._number("01", 2)
        if not 1 <= month <= 12:
            raise self.out_of_range("month")
        self._literal("-")
        day = self._number("02", 2)
        self._literal("T")
        return year, month, day

    def clock(self) -> tuple[int, int, int, int]:
        hour = self._number("15", 2, exact=False)
        if hour >= 24:
            raise self.out_of_range("hour")
        self._literal(":")
        minute = self._number("04", 2)
        if minute >= 60:
            raise self.out_of_range("minute")
        self._literal(":")
        second = self._number("05", 2)
        if second >= 60:
            raise self.out_of_range("second")
        return hour, minute, second, self._fraction()

    def _fraction(self) -> int:
        if self.layout == RFC3339_MICRO:
            match = _DIGITS_6.match(self.rest)
            if match is None:
                raise self._bad(".000000", self.rest)
        else:
            match = _FRACTION.match(self.rest)
            if match is None:
                return 0
        self.rest = self.rest[match.end() :]
        return int(match.group()[1:7].ljust(6, "0"))

    def zone(self) -> timedelta:
        rest = self.rest
        if rest[:1] == "Z":
            self.rest = rest[1:]
            return timedelta()
        digits = rest[1:3] + rest[4:6]
        if len(rest) < 6 or rest[3] != ":" or not (digits.isascii() and digits.isdigit()):
            raise self._bad("Z07:00", rest)
        hours, minutes = int(rest[1:3]), int(rest[4:6])
        if hours > 24:
            raise self.out_of_range("time zone offset hour")
        if minutes > 60:
            raise self.out_of_range("time zone offset minute")
        if rest[0] not in "+-":
            raise self._bad("Z07:00", rest)
        self.rest = rest[6:]
        offset = timedelta(hours=hours, minutes=minutes)
        return -offset if rest[0] == "-" else offset

    def end(self) -> None:
        if self.rest:
            raise GoScalarError(
                f"parsing time {go_quote(self.text)}: extra text: {go_quote(self.rest)}"
            )


def base64_text(text: str) -> str:
    """Bytes in base64, written the canonical way."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        data = _decode_as_go(text)
    canonical = binascii.b2a_base64(data, newline=False)
    return (
        text if len(canonical) == len(text) and canonical == text.encode() else canonical.decode()
    )


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_NEWLINES = frozenset("\r\n")


def _decode_as_go(text: str) -> bytes:
    """Line breaks are skipped and stray bits at the end ignored; else as strict as can be."""
    source = text.encode().decode("latin-1")  # Go counts bytes
    kept: list[str] = []
    at, length = 0, len(source)
    while at < length:
        char = source[at]
        at += 1
        if char in _ALPHABET:
            kept.append(char)
        elif char in _NEWLINES:
            continue
        elif char != "=" or len(kept) % 4 < 2:
            raise _corrupt(at - 1)
        else:
            at = _padding(source, at, len(kept) % 4)
            return binascii.a2b_base64("".join(kept) + "==")
    if len(kept) % 4:
        raise _corrupt(length - len(kept) % 4)
    return binascii.a2b_base64("".join(kept))


def _padding(source: str, at: int, position: int) -> int:
    """Past the padding whose first sign has been read; nothing may follow it."""
    length = len(source)
    if position == 2:
        while at < length and source[at] in _NEWLINES:
            at += 1
        if at == length:
            raise _corrupt(length)
        if source[at] != "=":
            raise _corrupt(at - 1)
        at += 1
    while at < length and source[at] in _NEWLINES:
        at += 1
    if at < length:
        raise _corrupt(at)
    return at


def _corrupt(at: int) -> GoScalarError:
    return GoScalarError(f"illegal base64 data at input byte {at}")
