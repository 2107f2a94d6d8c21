"""Decisions over a snapshot: what is filtered, selected, divided, kept and explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pykcp.machinery.labels import parse
from pykcp.multicluster.scheduling import filters
from pykcp.multicluster.scheduling.decide import decide
from pykcp.multicluster.scheduling.model import (
    ClusterDeparture,
    ClusterView,
    Leaving,
    Placed,
    PlacementDecision,
    Policy,
    Question,
    SpreadRule,
    Taint,
    TaintToleration,
    WeightedTerm,
    WorkloadView,
)

TYPE = "deployments.apps"
NOW = 10_000.0


def cluster(name: str, **fields: Any) -> ClusterView:
    return ClusterView(name, **{"types": frozenset((TYPE,)), **fields})


def views(*clusters: ClusterView | str) -> dict[str, ClusterView]:
    made = [cluster(one) if isinstance(one, str) else one for one in clusters]
    return {one.name: one for one in made}


def ask(
    clusters: dict[str, ClusterView],
    policy: Policy | None = None,
    placed: Placed | None = None,
    departing: dict[str, ClusterDeparture] | None = None,
    *,
    replicas: int | None = 10,
    **workload: Any,
) -> PlacementDecision:
    return decide(
        Question(
            WorkloadView("uid", TYPE, replicas, **workload),
            policy or Policy(strategy="Divided"),
            clusters,
            placed or Placed(),
            departing or {},
            NOW,
        )
    )


def region(name: str, value: str) -> ClusterView:
    return cluster(name, labels={"region": value})


REJECTIONS = {
    "not Ready": (cluster("b", is_ready=False), filters.NOT_READY),
    "cordoned": (cluster("b", unschedulable=True), filters.CORDONED),
    "drained": (cluster("b", evict_after=NOW - 1), filters.DRAINING),
    "terminating": (cluster("b", is_terminating=True), filters.TERMINATING),
    "type": (ClusterView("b"), "did not accept the type deployments.apps"),
    "taint": (
        cluster("b", taints=(Taint("gpu", "NoSchedule", "yes"),)),
        "had the untolerated taint {gpu: yes}",
    ),
    "capacity": (cluster("b", free={"cpu": 100}), "had insufficient cpu"),
}


@pytest.mark.parametrize(("bad", "reason"), REJECTIONS.values(), ids=REJECTIONS)
def test_a_cluster_is_rejected_with_a_reason(bad: ClusterView, reason: str) -> None:
    found = ask(views("a", bad), requests={"cpu": 500})
    assert dict(found.clusters) == {"a": 10}
    assert [one.rejection for one in found.verdicts if one.cluster == "b"] == [reason]
    assert f"1 cluster(s) {reason}" in found.message


def test_nothing_fits_and_every_rejection_is_named() -> None:
    found = ask(views(cluster("a", is_ready=False), cluster("b", unschedulable=True)))
    assert not found.is_scheduled
    assert found.reason == "Unschedulable"
    assert found.message == (
        "0/2 clusters are available: 1 cluster(s) were not Ready, 1 cluster(s) were unschedulable"
    )


def test_no_clusters() -> None:
    assert ask({}).reason == "NoRegisteredClusters"


def test_a_toleration_admits_a_tainted_cluster() -> None:
    tainted = cluster("a", taints=(Taint("gpu", "NoSchedule", "yes"),))
    policy = Policy(strategy="Divided", tolerations=(TaintToleration("gpu", "Exists"),))
    assert ask(views(tainted), policy).is_scheduled


def test_ten_replicas_on_three_clusters() -> None:
    found = ask(views("a", "b", "c"))
    assert sorted(found.clusters.values()) == [3, 3, 4]  # type: ignore[type-var]
    assert found.is_scheduled


def test_weights() -> None:
    weights = tuple(
        WeightedTerm(names=frozenset((name,)), weight=weight)
        for name, weight in (("a", 1), ("b", 2), ("c", 3))
    )
    policy = Policy(strategy="Divided", preference="Weighted", weights=weights)
    found = ask(views("a", "b", "c", "unlisted"), policy, replicas=12)
    assert found.clusters == {"a": 2, "b": 4, "c": 6}


def test_capacity_divides_by_what_fits() -> None:
    clusters = views(cluster("a", free={"cpu": 3000}), cluster("b", free={"cpu": 9000}))
    policy = Policy(strategy="Divided", preference="Capacity")
    found = ask(clusters, policy, replicas=8, requests={"cpu": 1000})
    assert found.clusters == {"a": 2, "b": 6}


def test_even_division_respects_room_and_overflows_when_there_is_none() -> None:
    clusters = views(cluster("a", free={"cpu": 2000}), cluster("b", free={"cpu": 9000}))
    assert ask(clusters, replicas=8, requests={"cpu": 1000}).clusters == {"a": 2, "b": 6}
    found = ask(clusters, replicas=15, requests={"cpu": 1000})
    assert sum(count or 0 for count in found.clusters.values()) == 15
    assert found.is_scheduled


def test_aggregated_uses_as_few_clusters_as_possible() -> None:
    clusters = views(cluster("a", free={"cpu": 5000}), cluster("b", free={"cpu": 9000}), "c")
    policy = Policy(strategy="Divided", preference="Aggregated")
    assert ask(clusters, policy, replicas=8, requests={"cpu": 1000}).clusters == {"b": 8}


def test_minimum_and_maximum() -> None:
    policy = Policy(strategy="Divided", minimum=4)
    assert sorted((ask(views("a", "b", "c"), policy)).clusters.values()) == [5, 5]  # type: ignore[type-var]
    found = ask(views("a", "b"), Policy(strategy="Divided", maximum=3))
    assert found.clusters == {"a": 3, "b": 3}
    assert (found.is_scheduled, found.reason) == (False, "PartlyScheduled")
    assert "4 replica(s) exceed" in found.message


def test_spread_over_regions_even_with_few_replicas() -> None:
    clusters = views(region("a1", "a"), region("a2", "a"), region("b1", "b"), region("b2", "b"))
    policy = Policy(strategy="Divided", spread=(SpreadRule("region", 2),))
    for uid in range(30):
        question = Question(WorkloadView(f"u{uid}", TYPE, 2), policy, clusters, now=NOW)
        chosen = decide(question).clusters
        assert {clusters[name].labels["region"] for name in chosen} == {"a", "b"}


def test_spread_that_cannot_be_kept() -> None:
    policy = Policy(strategy="Divided", spread=(SpreadRule("region", 2),))
    found = ask(views(region("a1", "a"), region("a2", "a")), policy)
    assert found.reason == "Unschedulable"
    assert "at least 2 value(s) of region and 1 can be used" in found.message


def test_the_number_of_clusters_is_limited() -> None:
    policy = Policy(strategy="Divided", spread=(SpreadRule("cluster", 1, 2),))
    assert len(ask(views("a", "b", "c"), policy).clusters) == 2


def test_affinity() -> None:
    clusters = views(region("a", "eu"), region("b", "us"))
    eu = WeightedTerm(parse("region=eu"))
    assert set(ask(clusters, Policy(strategy="Divided", required=(eu,))).clusters) == {"a"}
    preferred = Policy(strategy="Single", preferred=(replace(eu, weight=10),))
    assert set(ask(clusters, preferred).clusters) == {"a"}
    assert set(ask(clusters, apart=frozenset(("a",))).clusters) == {"b"}
    assert set(ask(clusters, together=frozenset(("a",))).clusters) == {"a"}


def test_strategies() -> None:
    clusters = views("a", "b")
    assert ask(clusters, Policy(strategy="Duplicated")).clusters == {"a": 10, "b": 10}
    single = ask(clusters, Policy(strategy="Single"))
    assert list(single.clusters.values()) == [10]
    assert ask(clusters, Policy(), replicas=None).clusters == {"a": None, "b": None}


def test_what_runs_stays() -> None:
    placed = Placed({"a": 7, "b": 3}, leaves=frozenset("ab"))
    fresh = views("a", cluster("b", ready_since=NOW))
    assert ask(fresh, placed=placed).clusters == {"a": 7, "b": 3}
    cordoned = views(cluster("a", unschedulable=True), "b")
    grown = ask(cordoned, placed=placed, replicas=14)
    assert grown.clusters == {"a": 7, "b": 7}


def test_scaling_to_zero_keeps_the_leaves_and_back() -> None:
    placed = Placed({"a": 5, "b": 5}, leaves=frozenset("ab"))
    assert ask(views("a", "b", "c"), placed=placed, replicas=0).clusters == {"a": 0, "b": 0}
    empty = Placed({"a": 0, "b": 0}, leaves=frozenset("ab"))
    found = ask(views("a", "b", "c"), placed=empty, replicas=5)
    assert sum(count or 0 for count in found.clusters.values()) == 5


# --- moves ---------------------------------------------------------------------


def test_an_eviction_keeps_the_old_replicas_until_the_new_ones_are_available() -> None:
    clusters = views("a", cluster("b", is_ready=False))
    placed = Placed({"a": 5, "b": 5}, available={"a": 5}, leaves=frozenset("ab"))
    leave = {"b": ClusterDeparture("b", "ClusterNotReady", NOW)}
    first = ask(clusters, placed=placed, departing=leave)
    assert first.clusters == {"a": 10}
    assert first.leaving == (Leaving("b", NOW, NOW + 600, "ClusterNotReady", 5),)
    assert first.evicted == ("b",)

    moving = replace(placed, clusters=first.clusters, leaving=first.leaving)
    assert ask(clusters, placed=moving).leaving == first.leaving
    ready = replace(moving, available={"a": 10})
    assert ask(clusters, placed=ready).leaving == ()
    late = replace(moving, leaving=(replace(first.leaving[0], deadline=NOW - 1),))
    assert ask(clusters, placed=late).leaving == ()


def test_a_cluster_that_is_being_left_gets_nothing_new() -> None:
    left = (Leaving("b", NOW, NOW + 600, "ClusterNotReady", 5),)
    placed = Placed({"a": 10}, left, leaves=frozenset("ab"))
    assert ask(views("a", "b"), placed=placed).clusters == {"a": 10}


def test_directly_and_copies_leave_at_once() -> None:
    placed = Placed({"a": 5, "b": 5}, leaves=frozenset("ab"))
    leave = {"b": ClusterDeparture("b", "ClusterNotReady", NOW)}
    policy = Policy(strategy="Divided", purge_mode="Directly")
    assert ask(views("a", "b"), policy, placed, leave).leaving == ()
    copies = Placed({"a": None, "b": None}, leaves=frozenset("ab"))
    found = ask(views("a", "b"), Policy(), copies, leave, replicas=None)
    assert (dict(found.clusters), found.leaving) == ({"a": None}, ())


def test_what_must_not_run_twice_is_removed_before_it_is_placed_again() -> None:
    single = Policy(strategy="Single")
    placed = Placed({"b": 3}, leaves=frozenset("b"))
    leave = {"b": ClusterDeparture("b", "ClusterDrained", NOW)}
    first = ask(views("a", "b"), single, placed, leave, replicas=3, is_exclusive=True)
    assert (dict(first.clusters), first.reason) == ({}, "WaitingForRemoval")
    gone = Placed({}, leaves=frozenset())
    draining = views("a", cluster("b", evict_after=1.0))
    assert ask(draining, single, gone, replicas=3, is_exclusive=True).clusters == {"a": 3}


def test_what_must_not_run_twice_is_placed_at_once_if_that_is_asked_for() -> None:
    policy = Policy(strategy="Single", purge_mode="Directly")
    placed = Placed({"b": 3}, leaves=frozenset("b"))
    leave = {"b": ClusterDeparture("b", "ClusterNotReady", NOW, is_lost=True)}
    clusters = views("a", cluster("b", is_ready=False))
    found = ask(clusters, policy, placed, leave, replicas=3, is_exclusive=True)
    assert found.clusters == {"a": 3}


def test_rebalancing_moves_a_tenth_when_a_cluster_joins() -> None:
    placed = Placed({"a": 10, "b": 10}, leaves=frozenset("ab"))
    joined = views("a", "b", cluster("c", ready_since=NOW - 61))
    found = ask(joined, placed=placed, replicas=20)
    assert found.clusters["c"] == 2
    assert sum(count or 0 for count in found.clusters.values()) == 20
    (leaving,) = found.leaving
    assert (leaving.replicas, leaving.reason) == (2, "Rebalanced")
    assert found.moved


def test_rebalancing_waits_for_the_cooldown() -> None:
    placed = Placed({"a": 10, "b": 10}, leaves=frozenset("ab"))
    fresh = views("a", "b", cluster("c", ready_since=NOW - 20))
    found = ask(fresh, placed=placed, replicas=20)
    assert (dict(found.clusters), found.again_after) == ({"a": 10, "b": 10}, 40.0)
    disabled = Policy(strategy="Divided", rebalances=False)
    assert ask(fresh, disabled, placed, replicas=20).again_after is None


def test_rebalancing_ends_and_leaves_a_single_replica_alone() -> None:
    clusters = views("a", "b", "c")
    counts: dict[str, int | None] = {"a": 15, "b": 15}
    for _ in range(30):
        placed = Placed(counts, leaves=frozenset("abc"))
        found = ask(clusters, placed=placed, replicas=30)
        if not found.moved:
            break
        counts = dict(found.clusters)
    assert max(counts.values()) - min(counts.values()) <= 4  # type: ignore[type-var,operator]
    one = Placed({"b": 1}, leaves=frozenset("b"))
    assert ask(clusters, placed=one, replicas=1).clusters == {"b": 1}


def test_followers_are_where_their_leaders_are() -> None:
    leaders = {"deployments.apps/web": frozenset("ab"), "jobs.batch/x": frozenset("b")}
    found = ask(views("a", "b", "c"), Policy(), replicas=None, is_follower=True, leaders=leaders)
    assert found.clusters == {"a": None, "b": None}
    assert found.reasons["b"] == "needed by deployments.apps/web, jobs.batch/x"
    alone = ask(views("a"), Policy(), replicas=None, is_follower=True)
    assert (dict(alone.clusters), alone.reason) == ({}, "NoLeader")


def test_an_invalid_placement_changes_nothing() -> None:
    placed = Placed({"a": 10}, leaves=frozenset("a"))
    policy = Policy(strategy="Divided", problems=("bad selector",))
    found = ask(views("a", "b"), policy, placed)
    assert (dict(found.clusters), found.reason, found.message) == (
        {"a": 10},
        "InvalidPlacement",
        "bad selector",
    )
