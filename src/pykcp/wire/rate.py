"""A leaky bucket: so many at once, so many per second in the long run."""

from __future__ import annotations


class Bucket:
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
