"""What stays in a cluster that is left, and what has no other place."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pykcp.multicluster.scheduling.decide import decide, has_no_place
from pykcp.multicluster.scheduling.model import (
    ClusterDeparture,
    ClusterView,
    Leaving,
    Placed,
    Policy,
    Question,
    SpreadRule,
    WeightedTerm,
    WorkloadView,
)

TYPE = "deployments.apps"
NOW = 10_000.0
DIVIDED = Policy(strategy="Divided", rebalances=False)
SINGLE = Policy(strategy="Single")


def views(names: str, **lost: Any) -> dict[str, ClusterView]:
    return {
        name: ClusterView(name, types=frozenset((TYPE,)), **lost.get(name, {})) for name in names
    }


def only(*names: str) -> tuple[WeightedTerm, ...]:
    return (WeightedTerm(names=frozenset(names)),)


class Change(NamedTuple):
    """A workload is in these clusters when something about it changes."""

    placed: dict[str, int | None]
    policy: Policy
    replicas: int | None
    left: dict[str, int | None]
    """What is expected to stay until it is replaced."""


CHANGES = {
    "nothing": Change({"a": 3, "b": 3}, DIVIDED, 6, {}),
    "no weight": Change(
        {"a": 3, "b": 3},
        Policy(strategy="Divided", preference="Weighted", weights=only("a"), rebalances=False),
        6,
        {"b": 3},
    ),
    "one cluster": Change(
        {"a": 3, "b": 3},
        Policy(strategy="Divided", spread=(SpreadRule("cluster", 1, 1),), rebalances=False),
        6,
        {"b": 3},
    ),
    "Single": Change({"a": 3, "b": 3}, SINGLE, 6, {"b": 3}),
    "minimum": Change(
        {"a": 3, "b": 3}, Policy(strategy="Divided", minimum=4, rebalances=False), 6, {"b": 3}
    ),
    "one cluster, and fewer": Change({"a": 3, "b": 3}, SINGLE, 4, {"b": 1}),
    "fewer": Change({"a": 3, "b": 3}, DIVIDED, 4, {}),
    "none": Change({"a": 3, "b": 3}, DIVIDED, 0, {}),
    "at most two": Change(
        {"a": 5, "b": 1}, Policy(strategy="Divided", maximum=3, rebalances=False), 6, {"a": 2}
    ),
    "one without a number": Change({"a": None, "b": None}, SINGLE, None, {"b": None}),
    "copies": Change({"a": 3, "b": 3}, Policy(required=only("a")), 3, {}),
    "at once": Change({"a": 3, "b": 3}, Policy(strategy="Single", purge_mode="Directly"), 6, {}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_removes_nothing_before_it_is_replaced(change: Change) -> None:
    names = frozenset(change.placed)
    placed = Placed(change.placed, leaves=names)
    workload = WorkloadView("u1", TYPE, change.replicas)
    found = decide(Question(workload, change.policy, views("ab"), placed, now=NOW))
    leaving = {one.cluster: one.replicas for one in found.leaving}
    # Which cluster is kept does not matter here: the names may be the other way round.
    assert sorted(map(str, leaving.values())) == sorted(map(str, change.left.values()))
    for name, count in change.placed.items():
        if count is None or change.replicas is None or change.policy.purge_mode == "Directly":
            continue
        if change.policy.strategy == "Duplicated":
            continue
        runs = (found.clusters.get(name) or 0) + (leaving.get(name) or 0)
        assert runs <= count or name in found.clusters
    if change.left and change.replicas is not None:
        kept = sum(
            min(count or 0, (found.clusters.get(name) or 0) + (leaving.get(name) or 0))
            for name, count in change.placed.items()
        )
        assert kept >= min(change.replicas, 6)  # so many run already, and go on


def test_what_must_not_run_twice_does_not_stay() -> None:
    placed = Placed({"a": 3, "b": 3}, leaves=frozenset("ab"))
    workload = WorkloadView("u1", TYPE, 6, is_exclusive=True)
    assert not decide(Question(workload, SINGLE, views("ab"), placed, now=NOW)).leaving


def test_it_ends_when_the_others_have_everything() -> None:
    left = (Leaving("b", NOW - 5, NOW + 595, "PlacementChanged", 3),)
    policy = Policy(strategy="Divided", required=only("a"))
    workload = WorkloadView("u1", TYPE, 6)
    for available, expected in ((5, left), (6, ())):
        placed = Placed({"a": 6}, left, {"a": available}, leaves=frozenset("ab"))
        found = decide(Question(workload, policy, views("ab"), placed, now=NOW))
        assert found.leaving == expected


@pytest.mark.parametrize(("replicas", "left"), [(3, {}), (5, {}), (2, {"b": 1})])
def test_what_a_cluster_is_given_again_does_not_leave_it(
    replicas: int, left: dict[str, int]
) -> None:
    """Three replicas were leaving b when a was drained."""
    before = (Leaving("b", NOW - 5, NOW + 595, "ClusterNotReady", 3),)
    placed = Placed({"a": 3}, before, leaves=frozenset("ab"))
    clusters = views("ab", a={"evict_after": NOW - 1})
    leave = {"a": ClusterDeparture("a", "ClusterDrained", NOW)}
    workload = WorkloadView("u1", TYPE, replicas)
    found = decide(Question(workload, DIVIDED, clusters, placed, leave, NOW))
    assert found.clusters == {"b": replicas}
    leaving = {one.cluster: one.replicas for one in found.leaving}
    assert leaving == {"a": 3, **left}


NO_PLACE = {
    "another cluster": (views("ab", b={"is_ready": False}), DIVIDED, False),
    "no other cluster": (views("b", b={"is_ready": False}), DIVIDED, True),
    "a cordoned one": (
        views("ab", b={"is_ready": False}, a={"unschedulable": True}),
        DIVIDED,
        True,
    ),
    "one that is full": (
        views("ab", b={"is_ready": False}, a={"free": {"cpu": 100}}),
        DIVIDED,
        True,
    ),
    "one that may not have all": (
        views("ab", b={"is_ready": False}),
        Policy(strategy="Divided", maximum=2),
        True,
    ),
    "too few to spread": (
        views("ab", b={"is_ready": False}),
        Policy(strategy="Divided", spread=(SpreadRule("cluster", 2),)),
        True,
    ),
}


@pytest.mark.parametrize(("clusters", "policy", "expected"), NO_PLACE.values(), ids=NO_PLACE)
def test_whether_other_clusters_can_run_what_is_lost(
    clusters: dict[str, ClusterView], policy: Policy, expected: bool
) -> None:
    placed = Placed({"b": 3}, leaves=frozenset("b"))
    leave = {"b": ClusterDeparture("b", "ClusterNotReady", NOW, is_lost=True)}
    workload = WorkloadView("u1", TYPE, 3, {"cpu": 500})
    assert has_no_place(Question(workload, policy, clusters, placed, leave, NOW)) is expected
