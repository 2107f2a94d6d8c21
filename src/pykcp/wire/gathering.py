"""Window updates of clients with many watches, left in the socket until some have gathered.

Go's client sends one or two for every 4 KiB that it has read, each in a TLS record of its own: for
a watch event on a hundred streams dozens of them, one after the other. A turn of the loop for
each costs more than the event did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 0.004
"""How long a client is not read from; a request that it sends meanwhile waits that long."""
TURNS = 4
"""So many turns for nothing but window updates, within that time, are followed by a pause."""


class Gathering:
    """The pauses of all connections: one timer for all of them, and none without any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[Callable[[], None]] = []

    def add(self, resume: Callable[[], None]) -> None:
        """Call when the pause is over."""
        if not self._waiting:
            self._loop.call_later(SECONDS, self._end)
        self._waiting.append(resume)

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()
