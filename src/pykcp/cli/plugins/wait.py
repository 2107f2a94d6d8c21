"""Polling the server for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.cli.plugins.errors import DeadlineExceeded

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5


def poll(
    is_done: Callable[[], bool],
    seconds: float,
    waited_for: Callable[[], str] = str,
    *,
    longest_pause: float = LONGEST_PAUSE,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Poll until the condition is met, with an increasing interval because most operations are fast.

    `waited_for` says what is missing, for the error if time runs out.
    """
    deadline = clock() + seconds
    between = FIRST_PAUSE
    while not is_done():
        left = deadline - clock()
        if left <= 0:
            raise DeadlineExceeded(waited_for())
        pause(min(between, left))
        between = min(between * 1.5, longest_pause)
