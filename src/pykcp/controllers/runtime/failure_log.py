"""What a controller logs about keys that fail: a few lines for each logical cluster.

A tenant can have thousands of objects for which something cannot be done, and they are tried
again for ever. The first failures are logged; how many were left out is added to the next line.
"""

from __future__ import annotations

import logging

from pykcp.caching import BoundedCache
from pykcp.machinery.status import StatusError

LINES, SECONDS = 5, 60.0
"""Lines of one lane in so many seconds."""
_REMEMBER = 1024


class _Lane:
    __slots__ = ("began", "left_out", "shown")

    def __init__(self, began: float) -> None:
        self.began, self.shown, self.left_out = began, 0, 0


class FailureLog:
    def __init__(self, name: str, log: logging.Logger) -> None:
        self._name, self._log = name, log
        self._lanes: BoundedCache[str, _Lane] = BoundedCache("", _REMEMBER)

    def tell(self, lane: str, key: object, error: Exception, delay: float, now: float) -> None:
        """The key failed and comes back after a delay."""
        more = self.admit(lane, now)
        if more is None:
            return
        suffix = f" ({more} more failures in {lane or 'all'} not shown)" if more else ""
        if isinstance(error, StatusError):
            text = "%s: %s: %s, again in %.3f s%s"
            self._log.warning(text, self._name, key, error, delay, suffix)
        else:
            text = "%s: %s failed, again in %.3f s%s"
            self._log.error(text, self._name, key, delay, suffix, exc_info=error)

    def admit(self, lane: str, now: float) -> int | None:
        """Whether a line may be written, and how many were left out before it; None: it may not."""
        found = self._lanes.get(lane)
        if found is None:
            found = self._lanes.put(lane, _Lane(now))
        elif now - found.began >= SECONDS:
            found.began, found.shown = now, 0
        if found.shown >= LINES:
            found.left_out += 1
            return None
        found.shown += 1
        left_out, found.left_out = found.left_out, 0
        return left_out
