"""Replicas that no node of their cluster takes: when they are placed elsewhere, and the brakes on it.

They are waited for first: a cluster may be about to grow. Afterwards the cluster counts as full for
the workload for a while, so that rebalancing does not bring the replicas back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

TOLERATION = 300.0
"""Seconds that replicas may be stuck, unless a flag says otherwise."""
FULL_SECONDS = 1800.0
"""For which a cluster gets no more replicas than it had room for."""

Key = TypeVar("Key", bound=Hashable)


class _Full(NamedTuple):
    cap: int
    until: float


class StuckReplicaBrakes(Generic[Key]):
    """Remembers since when replicas of workloads are stuck. A restart begins to count anew."""

    def __init__(self, toleration: float, take: Callable[[Key, str, float], float]) -> None:
        """`toleration`: 0 if nothing is ever moved for this reason; `take`: the seconds that a
        workload has to wait before it may leave a cluster.
        """
        self._toleration, self._take = toleration, take
        self._since: dict[Key, dict[str, float]] = {}
        self._full: dict[Key, dict[str, _Full]] = {}

    def caps(
        self, key: Key, stuck: Mapping[str, int], placed: Mapping[str, int | None], now: float
    ) -> tuple[dict[str, int], float | None]:
        """How many replicas clusters may have, and when to ask again.

        `stuck`, `placed`: replicas by cluster, those that are stuck and all.
        """
        if not stuck and key not in self._since and key not in self._full:
            return {}, None
        since, full = self._since.pop(key, {}), self._full.pop(key, {})
        waits: list[float] = []
        full = {name: one for name, one in full.items() if one.until > now}
        kept: dict[str, float] = {}
        for name, count in stuck.items() if self._toleration else ():
            if not count or not placed.get(name):
                continue
            kept[name] = since.get(name, now)
            wait = kept[name] + self._toleration - now
            wait = wait if wait > 0 else self._take(key, name, now)
            if wait > 0:
                waits.append(wait)
            else:
                full[name] = _Full(max(0, (placed[name] or 0) - count), now + FULL_SECONDS)
                del kept[name]
        if kept:
            self._since[key] = kept
        if full:
            self._full[key] = full
        return {name: one.cap for name, one in full.items()}, min(waits, default=None)

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)
        self._full.pop(key, None)
