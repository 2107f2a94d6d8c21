"""Small moves towards the division that would be made afresh, for instance after a cluster joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

THRESHOLD = 0.1
"""The imbalance up to which nothing moves."""
STEP_SHARE = 0.1
"""The share of the replicas that one step moves, at least one replica."""
COOLDOWN = 60.0
"""Seconds that a cluster has to be Ready before work moves to it, and between two steps."""


@dataclass(frozen=True, slots=True)
class Move:
    source: str
    target: str
    replicas: int

    def __str__(self) -> str:
        return f"{self.replicas} replica(s) from {self.source} to {self.target}"


def imbalance(actual: Mapping[str, int], ideal: Mapping[str, int]) -> float:
    """The share of the replicas that is not where it would be placed afresh."""
    total = sum(ideal.values())
    if not total:
        return 0.0
    names = {*actual, *ideal}
    return sum(abs(actual.get(n, 0) - ideal.get(n, 0)) for n in names) / (2 * total)


def next_move(actual: Mapping[str, int], ideal: Mapping[str, int]) -> Move | None:
    """The step to take: from the largest surplus to the largest deficit."""
    if imbalance(actual, ideal) <= THRESHOLD:
        return None
    names = sorted({*actual, *ideal})
    surplus = {name: actual.get(name, 0) - ideal.get(name, 0) for name in names}
    source = max(names, key=lambda name: (surplus[name], actual.get(name, 0)))
    target = min(names, key=lambda name: (surplus[name], actual.get(name, 0)))
    count = min(surplus[source], -surplus[target], step_size(sum(ideal.values())))
    return Move(source, target, count) if count > 0 else None


def step_size(total: int) -> int:
    return max(1, int(total * STEP_SHARE))
