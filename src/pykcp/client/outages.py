"""What a watch or an informer says while its server is away: once that it is lost, once that it is
back.

It tries again without end, as the server may be restarted at any time. Without a word in the log, a
program that waits for a server would look like one that has nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
import time

from pykcp.machinery.status import StatusError

_log = logging.getLogger(__name__)


class Outage:
    """The time without answers that are of use, of one watch or one informer."""

    def __init__(self, what: object, first_pause: float, last_pause: float) -> None:
        """Pauses between tries double from the first to the last one."""
        self._what = what
        self._first_pause, self._last_pause = first_pause, last_pause
        self._pause = first_pause
        self._began: float | None = None
        self._answered = time.monotonic()
        self._reason: type[StatusError] | None = None

    async def wait(self, error: StatusError) -> None:
        """Until it is time to try again."""
        if self._began is None:
            self._began = time.monotonic()
            if self._began - self._answered > self._last_pause:
                self._pause = self._first_pause  # it worked for long, though nothing happened
        if self._reason is not type(error):  # another one is news: not away, but forbidden
            self._reason = type(error)
            _log.warning("%r: interrupted, trying again until it works: %s", self._what, error)
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, self._last_pause)

    def answered(self) -> None:
        """The server has accepted the request. It may break off at once: pauses stay long."""
        self._answered = time.monotonic()
        if self._began is not None:
            seconds = self._answered - self._began
            _log.info("%r: continued after %.1f s", self._what, seconds)
        self._began = self._reason = None

    def over(self) -> None:
        """The server is of use again: the next outage begins with a short pause."""
        self._pause = self._first_pause
