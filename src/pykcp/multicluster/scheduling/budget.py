"""How many workloads may leave clusters in a second, and whose turn it is.

Token buckets, one for each cluster and one for each workspace. Who has to wait is told when its turn
comes: if thousands of workloads wait, each asks about twice, and not again and again for each token.
Workspaces take turns at a cluster that serves several: one with a thousand workloads there does not
keep those of another waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

_ENOUGH = 0.9
"""Of a token: who comes a little early need not come again. The bucket owes the rest."""
_MOST_KEPT = 256
"""Buckets, before those that are full again are forgotten."""


class _BucketName(NamedTuple):
    cluster: str
    workspace: str


@dataclass(slots=True)
class _Bucket(Generic[Key]):
    rate: float
    tokens: float
    at: float
    """When there were so many."""
    turns: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """Whose workspace those are that wait, and when they may come again."""
    waiting: Counter[str] = field(default_factory=Counter)
    """How many of each workspace wait."""

    def available(self, now: float) -> float:
        return min(max(1.0, self.rate), self.tokens + (now - self.at) * self.rate)

    def wait(self, now: float) -> float:
        """Seconds until there is a token."""
        found = self.available(now)
        return 0.0 if found >= _ENOUGH else (1.0 - found) / self.rate

    def use(self, key: Key, now: float) -> None:
        self.tokens, self.at = self.available(now) - 1.0, now
        workspace, _ = self.turns.pop(key, ("", 0.0))
        if workspace:
            self.waiting[workspace] -= 1
            if not self.waiting[workspace]:
                del self.waiting[workspace]

    def turn(self, key: Key, workspace: str, now: float) -> float:
        """Seconds until the turn of a key, which stays the same however often it is asked for."""
        soonest = now + self.wait(now)
        _, planned = self.turns.get(key, ("", 0.0))
        if not planned:
            planned = soonest + self._ahead(workspace) / self.rate
            self.turns[key] = workspace, planned
            self.waiting[workspace] += 1
        return max(planned, soonest) - now

    def _ahead(self, workspace: str) -> int:
        """How many turns come before the next one of a workspace, if others wait as long as it."""
        own = self.waiting[workspace]
        workspaces = len(self.waiting) + (not own)
        return min(len(self.turns), (own + 1) * workspaces - 1)

    def give_up(self, now: float) -> None:
        """Nobody has come for a while: those who waited have no reason to leave any more."""
        if now - self.at > 1.0 + 2.0 / self.rate:
            self.turns.clear()
            self.waiting.clear()


class EvictionBudget(Generic[Key]):
    def __init__(self, per_cluster: float = 1.0, per_workspace: float = 5.0) -> None:
        self._per_cluster, self._per_workspace = per_cluster, per_workspace
        self._buckets: dict[_BucketName, _Bucket[Key]] = {}

    def take(self, cluster: str, workspace: str, key: Key, now: float) -> float:
        """0 if the workload may leave the cluster now, else the seconds until its turn.

        `cluster`: the same for all workspaces that it serves; `workspace`: that of the workload.
        """
        both = (
            self._bucket(_BucketName(cluster, ""), self._per_cluster, now),
            self._bucket(_BucketName("", workspace), self._per_workspace, now),
        )
        scarce = max(both, key=lambda bucket: bucket.wait(now))
        if scarce.wait(now) > 0:
            return scarce.turn(key, workspace, now)
        for bucket in both:
            bucket.use(key, now)
        return 0.0

    def _bucket(self, name: _BucketName, rate: float, now: float) -> _Bucket[Key]:
        found = self._buckets.get(name)
        if found is None:
            if len(self._buckets) >= _MOST_KEPT:
                self._forget(now)
            found = self._buckets[name] = _Bucket(rate, max(1.0, rate), now)
        found.give_up(now)
        return found

    def _forget(self, now: float) -> None:
        for name, bucket in list(self._buckets.items()):
            bucket.give_up(now)
            if not bucket.turns and bucket.available(now) >= max(1.0, bucket.rate):
                del self._buckets[name]
