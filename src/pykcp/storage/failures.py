"""The last failure of the store, while it is relevant for health checks."""

from __future__ import annotations

import time

from pykcp.storage.interface import Clock

TELLING_SECONDS = 15.0
"""After that it is forgotten: a server that gets no requests because it is not well would
otherwise never find out that it is well again."""


class LastFailure:
    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._text: str | None = None
        self._at = 0.0

    def note(self, error: BaseException) -> None:
        self._text = str(error)
        self._at = self._clock()

    def clear(self) -> None:
        """It has worked again."""
        self._text = None

    def text(self) -> str | None:
        if self._text is not None and self._clock() - self._at > TELLING_SECONDS:
            self._text = None
        return self._text
