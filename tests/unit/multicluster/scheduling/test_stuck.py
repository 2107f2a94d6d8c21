"""Replicas that find no node: when they are placed elsewhere, and what holds that back."""

from __future__ import annotations

import pytest

from pykcp.multicluster.scheduling.budget import EvictionBudget
from pykcp.multicluster.scheduling.decide import decide
from pykcp.multicluster.scheduling.model import (
    ClusterView,
    Placed,
    PlacementDecision,
    Policy,
    Question,
    WorkloadView,
)
from pykcp.multicluster.scheduling.stuck import FULL_SECONDS, StuckReplicaBrakes

TYPE = "deployments.apps"


def brakes(toleration: float = 300.0) -> StuckReplicaBrakes[str]:
    budget: EvictionBudget[str] = EvictionBudget(1.0, 5.0)
    return StuckReplicaBrakes(toleration, lambda key, name, now: budget.take(name, "ws", key, now))


def test_replicas_are_waited_for_and_then_their_cluster_is_full_for_a_while() -> None:
    made = brakes()
    placed = {"east": 4, "west": 4}
    assert made.caps("web", {"east": 3}, placed, 0.0) == ({}, 300.0)
    assert made.caps("web", {"east": 3}, placed, 200.0) == ({}, 100.0)
    assert made.caps("web", {"east": 3}, placed, 300.0) == ({"east": 1}, None)
    # They are gone from there, and are not brought back.
    moved = {"east": 1, "west": 7}
    assert made.caps("web", {}, moved, 301.0) == ({"east": 1}, None)
    assert made.caps("web", {}, moved, 300.0 + FULL_SECONDS) == ({}, None)


def test_a_node_that_is_found_in_time_moves_nothing() -> None:
    made = brakes()
    assert made.caps("web", {"east": 1}, {"east": 4}, 0.0) == ({}, 300.0)
    assert made.caps("web", {}, {"east": 4}, 250.0) == ({}, None)
    assert made.caps("web", {"east": 1}, {"east": 4}, 260.0) == ({}, 300.0)


def test_workloads_leave_a_cluster_one_after_the_other() -> None:
    made = brakes(10.0)
    for name in ("a", "b"):
        made.caps(name, {"east": 1}, {"east": 2}, 0.0)
    assert made.caps("a", {"east": 1}, {"east": 2}, 10.0) == ({"east": 1}, None)
    caps, wait = made.caps("b", {"east": 1}, {"east": 2}, 10.0)
    assert caps == {}
    assert wait is not None
    assert 0 < wait <= 1


@pytest.mark.parametrize("toleration", [0.0])
def test_it_can_be_turned_off(toleration: float) -> None:
    assert brakes(toleration).caps("web", {"east": 1}, {"east": 2}, 1e6) == ({}, None)


def ask(
    clusters: dict[str, ClusterView], placed: dict[str, int | None], caps: dict[str, int]
) -> PlacementDecision:
    return decide(
        Question(
            WorkloadView("uid", TYPE, sum(count or 0 for count in placed.values())),
            Policy(strategy="Divided"),
            clusters,
            Placed(placed, leaves=frozenset(placed)),
            {},
            10_000.0,
            caps=caps,
        )
    )


def view(name: str, **fields: object) -> ClusterView:
    return ClusterView(name, types=frozenset((TYPE,)), **fields)  # type: ignore[arg-type]


def test_stuck_replicas_go_to_clusters_that_are_not_full() -> None:
    clusters = {name: view(name) for name in ("east", "north", "west")}
    decision = ask(clusters, {"east": 4, "north": 4, "west": 4}, {"east": 1})
    assert decision.clusters["east"] == 1
    assert sorted(decision.clusters.values()) == [1, 5, 6]
    assert decision.moved == "3 replica(s) found no node in east"
    # The division is uneven, and stays so.
    after = ask(clusters, dict(decision.clusters), {"east": 1})
    assert after.clusters == decision.clusters
    assert not after.moved


@pytest.mark.parametrize(
    "west", [view("west", is_ready=False), view("west", unschedulable=True), None]
)
def test_they_stay_where_no_other_cluster_takes_them(west: ClusterView | None) -> None:
    clusters = {"east": view("east"), **({"west": west} if west is not None else {})}
    placed: dict[str, int | None] = dict.fromkeys(clusters, 2)
    decision = ask(clusters, placed, {"east": 0})
    assert decision.clusters == placed
    assert not decision.moved
