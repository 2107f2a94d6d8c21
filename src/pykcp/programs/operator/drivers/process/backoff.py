"""How long to wait before a program that has ended is started again. Pure."""

from __future__ import annotations

FIRST, LAST = 1.0, 60.0
HEALTHY_SECONDS = 600.0
"""A run that was ready for so long ends the row of failures."""


def restart_pause(failures: int) -> float:
    """Seconds to wait after this many failures in a row: 1, 2, 4, … 60."""
    if failures <= 0:
        return 0.0
    return float(min(FIRST * 2 ** min(failures - 1, 10), LAST))


def failures_after(failures: int, healthy_seconds: float) -> int:
    """Failures in a row, the one that just happened included."""
    return 1 if healthy_seconds >= HEALTHY_SECONDS else failures + 1
