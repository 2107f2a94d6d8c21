"""Which shard a new workspace is placed on."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from pykcp.apis.kcp.shard_load import ShardLoad
from pykcp.controllers.tenancy.placement import (
    RecentPlacements,
    ReportArrivals,
    ShardState,
    choose,
    state_of,
)
from pykcp.machinery import labels

NOW = 1000.0


def shard(
    name: str, *, region: str = "", reported: float = NOW, clusters: int = 0, **parts: Any
) -> ShardState:
    marks = {"name": name, **({"region": region} if region else {})}
    return ShardState(name, marks, report=ShardLoad(reported, clusters), **parts)


CASES: dict[str, tuple[list[ShardState], str, set[str | None]]] = {
    "no shards": ([], "", {None}),
    "one": ([shard("a")], "", {"a"}),
    "one of several": ([shard("a"), shard("b"), shard("c")], "", {"a", "b", "c"}),
    "by name": ([shard("a"), shard("b")], "name=b", {"b"}),
    "by region": ([shard("a", region="eu"), shard("b"), shard("c", region="us")], "region", {"a", "c"}),
    "nothing matches": ([shard("a"), shard("b")], "name=c", {None}),
    "cordoned": ([shard("a", is_cordoned=True), shard("b")], "", {"b"}),
    "all cordoned": ([shard("a", is_cordoned=True)], "", {None}),
    "cordoned and selected": ([shard("a", is_cordoned=True), shard("b")], "name=a", {None}),
    "reported just now": ([shard("a", reported=NOW)], "", {"a"}),
    "never reported": ([ShardState("a", {})], "", {"a"}),
    "reported long ago": ([shard("a", reported=NOW - 16), shard("b", reported=NOW - 14)], "", {"b"}),
    "all are silent": ([shard("a", reported=NOW - 16)], "", {None}),
    "a clock is ahead": ([shard("a", reported=NOW + 100)], "", {"a"}),
    "full": ([shard("a", clusters=10, hard_limit=10), shard("b")], "", {"b"}),
    "nearly full": ([shard("a", clusters=9, hard_limit=10)], "", {"a"}),
    "all full": ([shard("a", clusters=10, hard_limit=10)], "", {None}),
    "above the soft limit": (
        [shard("a", clusters=10, soft_limit=10), shard("b", clusters=50)], "", {"b"},
    ),
    "all above the soft limit": (
        [shard("a", clusters=20, soft_limit=10), shard("b", clusters=11, soft_limit=10)], "", {"b"},
    ),
    "the less loaded": ([shard("a", clusters=5), shard("b", clusters=4)], "", {"b"}),
    "the less loaded by its limit": (
        [shard("a", clusters=50, soft_limit=1000), shard("b", clusters=20, soft_limit=100)], "", {"a"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("shards", "selector", "expected"), CASES.values(), ids=CASES)
def test_choice(shards: list[ShardState], selector: str, expected: set[str | None]) -> None:
    parsed = labels.parse(selector)
    found = {choose(shards, parsed, NOW, Random(seed)) for seed in range(50)}
    assert found == expected


def test_excluded_shards_are_not_chosen() -> None:
    shards, everything = [shard("a"), shard("b")], labels.parse("")
    found = {choose(shards, everything, NOW, Random(seed), excluded={"a"}) for seed in range(20)}
    assert found == {"b"}


def test_workspaces_are_spread_evenly_between_reports() -> None:
    counts = Counter({"a": 0, "b": 0, "c": 0})
    recent, random, everything = RecentPlacements(), Random(7), labels.parse("")
    for number in range(1000):
        if number % 250 == 0:
            reports = {name: ShardLoad(NOW + number, counts[name]) for name in "abc"}
        states = [
            ShardState(name, {}, report=report, recent=recent.since(name, report))
            for name, report in reports.items()
        ]
        chosen = choose(states, everything, reports["a"].reported, random)
        assert chosen is not None
        recent.add(chosen, reports[chosen])
        counts[chosen] += 1
    assert max(counts.values()) - min(counts.values()) <= 3


def test_state_of_a_shard_object() -> None:
    found = state_of(
        {
            "metadata": {
                "name": "eu-1",
                "labels": {"region": "eu"},
                "annotations": {
                    "experimental.core.kcp.io/unschedulable": "true",
                    "core.kcp.io/max-logical-clusters": "100",
                    "core.kcp.io/preferred-max-logical-clusters": "many",
                },
            }
        }
    )
    assert found == ShardState("eu-1", {"region": "eu"}, True, None, 100)


@pytest.mark.parametrize("ahead", [-100.0, 0.0, 100.0])
def test_reports_are_as_old_as_their_arrival_here(ahead: float) -> None:
    """However wrong the clock of the other host is."""
    arrivals = ReportArrivals()
    first, second = ShardLoad(NOW + ahead), ShardLoad(NOW + ahead + 5)
    arrivals.note("a", first, NOW)
    assert arrivals.by_own_clock("a", first) == first  # it may have been there for long
    arrivals.note("a", second, NOW + 5)
    arrivals.note("a", second, NOW + 6)
    found = arrivals.by_own_clock("a", second)
    assert found is not None
    assert (found.is_alive(NOW + 19), found.is_alive(NOW + 21)) == (True, False)
    assert arrivals.by_own_clock("b", second) == second
    assert arrivals.by_own_clock("a", None) is None
