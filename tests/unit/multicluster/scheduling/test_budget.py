"""How many workloads leave in a second, and how often those that wait ask."""

from __future__ import annotations

import heapq
from collections import Counter

import pytest

from pykcp.multicluster.scheduling.budget import EvictionBudget

Asked = Counter[int]


def test_each_cluster_and_each_workspace_has_a_limit() -> None:
    budget: EvictionBudget[str] = EvictionBudget(per_cluster=1.0, per_workspace=2.0)
    assert budget.take("a", "w", "1", 0.0) == 0.0
    assert budget.take("a", "w", "2", 0.0) == pytest.approx(1.0)
    assert budget.take("b", "w", "3", 0.0) == 0.0
    assert budget.take("c", "w", "4", 0.0) == pytest.approx(0.5)
    assert budget.take("c", "w", "4", 0.6) == 0.0
    # Another workspace has a limit of its own; a cluster that serves both has one.
    assert budget.take("d", "x", "5", 0.0) == 0.0
    assert budget.take("a", "x", "6", 0.0) > 0.0


def leave(
    budget: EvictionBudget[int], count: int, *, all_again_at: float = 0.0
) -> tuple[float, Asked]:
    """When the last of so many has left one cluster, each coming when it was told to; at one moment
    all of them may ask once more.
    """
    asked: Asked = Counter()
    due = [(0.0, key) for key in range(count)]
    if all_again_at:
        due += [(all_again_at, key) for key in range(count)]
    heapq.heapify(due)
    gone: set[int] = set()
    now = 0.0
    while len(gone) < count:
        now, key = heapq.heappop(due)
        if key in gone:
            continue
        asked[key] += 1
        wait = budget.take("a", "w", key, now)
        if wait:
            heapq.heappush(due, (now + wait, key))
        else:
            gone.add(key)
    return now, asked


def test_who_waits_asks_twice() -> None:
    seconds, asked = leave(EvictionBudget(20.0, 20.0), 1000)
    assert seconds == pytest.approx(49.0, abs=1.0)  # twenty at once
    assert max(asked.values()) <= 3
    assert sum(asked.values()) <= 2 * 1000


def test_asking_in_between_changes_no_turn() -> None:
    seconds, asked = leave(EvictionBudget(20.0, 20.0), 1000, all_again_at=10.0)
    assert seconds == pytest.approx(49.0, abs=2.0)
    assert sum(asked.values()) <= 3 * 1000


def test_those_who_gave_up_are_not_waited_for() -> None:
    budget: EvictionBudget[int] = EvictionBudget(1.0, 5.0)
    for key in range(100):
        budget.take("a", "w", key, 0.0)
    assert budget.take("a", "w", 100, 0.0) > 90.0
    assert budget.take("a", "w", 101, 10.0) == 0.0
    assert budget.take("a", "w", 102, 10.0) == pytest.approx(1.0)


def test_workspaces_take_turns_at_a_cluster() -> None:
    budget: EvictionBudget[str] = EvictionBudget(1.0, 5.0)
    for number in range(1000):
        budget.take("a", "greedy", f"greedy-{number}", 0.0)
    assert budget.take("a", "modest", "modest-0", 0.0) == pytest.approx(2.0, abs=1.0)
    assert budget.take("a", "modest", "modest-1", 0.0) == pytest.approx(4.0, abs=1.0)
    assert budget.take("a", "third", "third-0", 0.0) == pytest.approx(3.0, abs=1.0)
    assert budget.take("a", "modest", "modest-0", 2.5) == 0.0
