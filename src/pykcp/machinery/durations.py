"""Human-readable durations with two or three digits."""

from __future__ import annotations

from datetime import datetime


def human_duration(seconds: float) -> str:
    """`45s`, `3m12s`, `2h`, `5d3h`: as kubectl shows ages.

    A clock that is a second or so ahead counts as now; more than that is <invalid>.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def age_since(timestamp: object, now: datetime) -> str:
    """The age of an RFC 3339 timestamp; <unknown> if there is none, <invalid> if it is none."""
    if not timestamp:
        return "<unknown>"
    try:
        moment = datetime.fromisoformat(str(timestamp))
        return human_duration((now - moment).total_seconds())
    except (ValueError, TypeError):
        return "<invalid>"
