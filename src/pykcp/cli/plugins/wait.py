"""Polling the server for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.cli.plugins.errors import DeadlineExceeded
from pykcp.cli.terminal import QUIET, ProgressLine

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
    began = clock()
    between, progress = FIRST_PAUSE, ProgressLine()
    try:
        while not is_done():
            passed = clock() - began
            if passed >= seconds:
                raise DeadlineExceeded(waited_for())
            if passed > QUIET:
                progress.show(waited_for(), passed)
            pause(min(between, seconds - passed))
            between = min(between * 1.5, longest_pause)
    finally:
        progress.clear()
