"""Timestamps and durations: reading, writing, and looking at their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.arithmetic import timestamp as checked_timestamp
from pykcp.machinery.cel.runtime.numbers import format_fixed
from pykcp.machinery.cel.runtime.values import INT_MAX, Duration, EvalError, Timestamp
from pykcp.machinery.status import go_quote

_NANOS = 1_000_000_000
_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": _NANOS,
    "m": 60 * _NANOS, "h": 3600 * _NANOS,
}  # fmt: skip
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_LOCAL = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_LOOSE = re.compile(r"([0-9]++)(?:\s*+([A-Za-zµ]++))?")
_MAX_DIGITS = 19
_LOOSE_UNITS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), _NANOS),
    (("m", "min"), 60 * _NANOS),
    (("h", "hr", "hour"), 3600 * _NANOS),
    (("d", "day"), 86400 * _NANOS),
    (("w", "wk", "week"), 7 * 86400 * _NANOS),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# --- durations


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a duration as Go writes it (`1h30m`, `-1.5s`), or None."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total, at = 0, 0
    while at < len(body):
        found = _PART.match(body, at)
        if found is None or not (found.group(1) or found.group(2)):
            return None
        whole, fraction, unit = found.group(1) or "0", found.group(2) or "", _UNITS[found.group(3)]
        whole = whole.lstrip("0")
        if len(whole) > _MAX_DIGITS:
            return None
        total += int(whole or "0") * unit
        if fraction:
            total += int(fraction[:18]) * unit // 10 ** len(fraction[:18])
        at = found.end()
        if total > INT_MAX + 1:
            return None
    if at == 0 or total > INT_MAX + (text[:1] == "-"):
        return None
    return -total if text.startswith("-") else total


def parse_loose_duration(text: str) -> int | None:
    """A string of format duration: Go's way, or numbers with the words for units."""
    nanos = parse_duration(text)
    if nanos is not None:
        return nanos
    total, known = 0, False
    for digits, word in _LOOSE.findall(text):
        if not word:
            continue
        factor, unit = digits.lstrip("0") or "0", word.lower()
        if len(factor) > _MAX_DIGITS or int(factor) > INT_MAX:
            return None
        for names, multiplier in _LOOSE_UNITS:
            if unit in names or unit.startswith(names[-1]):
                known = True
                total += int(factor) * multiplier
    return total if known else None


def to_duration(text: str) -> Duration:
    spend(len(text))
    nanos = parse_duration(text)
    if nanos is None:
        raise EvalError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(nanos)


def int_to_duration(_: int) -> Duration:
    """Declared, but without a meaning."""
    raise EvalError("type conversion error from 'int' to 'google.protobuf.Duration'")


def duration_text(value: Duration) -> str:
    return format_fixed(value.nanos / _NANOS) + "s"


# --- timestamps


def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_from_epoch(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic Gregorian calendar, year 0 included."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def parse_rfc3339(text: str, *, local: bool = False) -> Timestamp | None:
    """A point in time; with `local` also one without a zone, which is then UTC."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        found = _LOCAL.fullmatch(text) if local else None
        if found is None:
            return None
        fraction, zone = None, "Z"
    else:
        fraction, zone = found.group(7), found.group(8)
    year, month, day, hour, minute, second = (int(found.group(i)) for i in range(1, 7))
    if not 1 <= month <= 12 or not 1 <= day <= _days_in_month(year, month):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    seconds = _days_from_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    nanos = int((fraction or "0")[:9].ljust(9, "0"))
    return Timestamp((seconds - offset) * _NANOS + nanos, offset)


def parse_date(text: str) -> Timestamp | None:
    return parse_rfc3339(f"{text}T00:00:00Z") if _DATE.fullmatch(text) else None


def to_timestamp(text: str) -> Timestamp:
    value = parse_rfc3339(text)
    if value is None:
        raise EvalError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    return checked_timestamp(value.nanos, value.offset)


def int_to_timestamp(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * _NANOS, 0)


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many digits of the second as it takes."""
    seconds, nanos = divmod(value.nanos, _NANOS)
    moment = _civil(seconds + value.offset)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{moment}{fraction}{zone}"


def _civil(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    )


# --- parts


def _zone(name: str) -> tzinfo:
    if ":" in name:
        hours_text, minutes_text = name.split(":", 1)
        hours, minutes = _atoi(hours_text), _atoi(minutes_text)
        total = hours * 60 - minutes if name[0] == "-" else hours * 60 + minutes
        if abs(total) >= 24 * 60:
            return timezone(timedelta(minutes=total % (24 * 60)))
        return timezone(timedelta(minutes=total))
    if name in ("", "UTC", "Local"):
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise EvalError(f"unknown time zone {name}") from error


def _atoi(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise EvalError(f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    if len(text) > 18:
        raise EvalError(f"strconv.Atoi: parsing {go_quote(text)}: value out of range")
    return int(text)


def _moment(value: Timestamp, zone: tzinfo) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // _NANOS)).astimezone(zone)
    except OverflowError as error:
        raise EvalError("timestamp overflow") from error


_PARTS: dict[str, Callable[[datetime], int]] = {
    "year": lambda t: t.year,
    "month": lambda t: t.month - 1,
    "day_of_year": lambda t: t.timetuple().tm_yday - 1,
    "day_of_month": lambda t: t.day - 1,
    "day_of_month_1_based": lambda t: t.day,
    "day_of_week": lambda t: t.isoweekday() % 7,
    "hours": lambda t: t.hour,
    "minutes": lambda t: t.minute,
    "seconds": lambda t: t.second,
}


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda value, zone="": read(_moment(value, _zone(zone)))


def _milliseconds(value: Timestamp, zone: str = "") -> int:
    _zone(zone)
    return value.nanos % _NANOS // 1_000_000


def _truncate(nanos: int, unit: int) -> int:
    return nanos // unit if nanos >= 0 else -(-nanos // unit)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "duration_to_duration": lambda value: value,
    "int64_to_duration": int_to_duration,
    "string_to_duration": to_duration,
    "duration_to_string": duration_text,
    "timestamp_to_timestamp": lambda value: value,
    "int64_to_timestamp": int_to_timestamp,
    "string_to_timestamp": to_timestamp,
    "timestamp_to_string": timestamp_text,
    "timestamp_to_int64": lambda value: value.nanos // _NANOS,
    "timestamp_to_milliseconds": _milliseconds,
    "timestamp_to_milliseconds_with_tz": _milliseconds,
    "timestamp_to_seconds_tz": _part(_PARTS["seconds"]),
    "duration_to_hours": lambda value: _truncate(value.nanos, 3600 * _NANOS),
    "duration_to_minutes": lambda value: _truncate(value.nanos, 60 * _NANOS),
    "duration_to_seconds": lambda value: _truncate(value.nanos, _NANOS),
    "duration_to_milliseconds": lambda value: _truncate(value.nanos, 1_000_000),
    **{f"timestamp_to_{name}": _part(read) for name, read in _PARTS.items()},
    **{f"timestamp_to_{name}_with_tz": _part(read) for name, read in _PARTS.items()},
}
