"""Schedules of CronJobs: whether a text is one, in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pykcp.machinery.status import go_quote

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[int, int, Mapping[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
"""The smallest and largest number of each field, and the names of its numbers."""
_DESCRIPTORS = frozenset(
    ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
)
_DURATION = re.compile(r"(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EVERY = "@every "


class BadSchedule(ValueError):
    """The text is the message for the client."""


def schedule_problem(text: str) -> str:
    """What is wrong with a schedule; "" if nothing is."""
    if "TZ" in text:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    try:
        _check(text)
    except BadSchedule as error:
        return str(error)
    return ""


def _check(text: str) -> None:
    if text.startswith("@"):
        if text in _DESCRIPTORS:
            return
        if not text.startswith(_EVERY):
            raise BadSchedule(f"unrecognized descriptor: {text}")
        if not _DURATION.fullmatch(text.removeprefix(_EVERY)):
            given = text.removeprefix(_EVERY)
            why = f"time: invalid duration {go_quote(given)}"
            raise BadSchedule(f"failed to parse duration {text}: {why}")
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        found = f"{len(fields)}: [{' '.join(fields)}]"
        raise BadSchedule(f"expected exactly {len(_FIELDS)} fields, found {found}")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            _check_range(part, low, high, names)


def _check_range(text: str, low: int, high: int, names: Mapping[str, int]) -> None:
    both, *steps = text.split("/")
    begin, *ends = both.split("-")
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {text}")
    if len(ends) > 1:
        raise BadSchedule(f"too many hyphens: {text}")
    if begin in ("*", "?"):
        first, last = low, high
    else:
        first = _number(begin, names)
        last = _number(ends[0], names) if ends else (high if steps else first)
    if first < low:
        raise BadSchedule(f"beginning of range ({first}) below minimum ({low}): {text}")
    if last > high:
        raise BadSchedule(f"end of range ({last}) above maximum ({high}): {text}")
    if first > last:
        raise BadSchedule(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if steps and _number(steps[0], {}) == 0:
        raise BadSchedule(f"step of range should be a positive number: {text}")


def _number(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    if known is not None:
        return known
    if not _INTEGER.fullmatch(text):
        parsing = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
        raise BadSchedule(f"failed to parse int from {text}: {parsing}")
    number = int(text)
    if number < 0:
        raise BadSchedule(f"negative number ({number}) not allowed: {text}")
    return number


def time_zone_problem(name: str) -> str:
    """What is wrong with the name of a time zone; "" if nothing is."""
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.lower() == "local":
        return (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A machine without time zones cannot tell.
        return f"unknown time zone {name}" if available_timezones() else ""
    return ""
