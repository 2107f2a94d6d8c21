"""Rates: a leaky bucket, and the minimum read rate of a client."""

from __future__ import annotations


class Bucket:
    """So many at once, so many per second in the long run."""

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, burst: float, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._left = burst
        self._since = 0.0

    def take(self, now: float, cost: float = 1) -> bool:
        """Whether `cost` more are allowed at this moment."""
        if self._left < self._burst:
            self._left = min(self._burst, self._left + (now - self._since) * self._rate)
        self._since = now
        if cost > self._left:
            return False
        self._left -= cost
        return True


class Progress:
    """Whether a client takes what waits for it, however it trickles."""

    __slots__ = ("_owed", "_since", "_taken")

    def __init__(self) -> None:
        self._since = 0.0
        self._taken = 0
        self._owed = 0

    def is_too_slow(
        self, now: float, taken: int, waiting: int, seconds: float, rate: float
    ) -> bool:
        """Whether less than `rate` bytes per second were read for `seconds`.

        `taken` counts all bytes that the client has ever read, `waiting` those that it could read.
        A client is never too slow if nothing was available to read.
        """
        if not waiting:
            self._since = 0.0
            return False
        if not self._since:
            self._since, self._taken, self._owed = now, taken, waiting
            return False
        elapsed = now - self._since
        if elapsed <= seconds:
            return False
        due = max(1, min(self._owed, rate * elapsed))
        if taken - self._taken < due:
            return True
        self._since, self._taken, self._owed = now, taken, waiting
        return False
