"""When workloads leave clusters, and the brakes on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykcp.machinery.labels import parse
from pykcp.multicluster.scheduling.eviction import (
    departure,
    is_held,
    is_panic,
)
from pykcp.multicluster.scheduling.model import (
    ClusterDeparture,
    ClusterView,
    Policy,
    Taint,
    TaintToleration,
    WeightedTerm,
    WorkloadView,
)

WORKLOAD = WorkloadView("uid", "deployments.apps", 3)
LOST = ClusterView("b", is_ready=False, ready_since=1000.0, is_reachable=False)
BAD = Taint("bad", "NoExecute", since=500.0)
EU = Policy(required=(WeightedTerm(parse("region=eu")),))


def tolerating(key: str, seconds: float | None) -> Policy:
    return Policy(tolerations=(TaintToleration(key, "Exists", seconds=seconds),))


CASES = {
    "Ready": (ClusterView("b"), Policy(), None),
    "cordoned": (ClusterView("b", unschedulable=True), Policy(), None),
    "deleted": (None, Policy(), ("ClusterDeleted", 0.0)),
    "terminating": (ClusterView("b", is_terminating=True), Policy(), ("ClusterDeleted", 0.0)),
    "drained": (ClusterView("b", evict_after=77.0), Policy(), ("ClusterDrained", 77.0)),
    "affinity": (ClusterView("b"), EU, ("AffinityChanged", 0.0)),
    "lost": (LOST, Policy(), ("ClusterNotReady", 1120.0)),
    "lost, tolerated for a while": (LOST, Policy(toleration=5), ("ClusterNotReady", 1005.0)),
    "lost, at once": (LOST, Policy(toleration=0), ("ClusterNotReady", 1000.0)),
    "lost, by toleration": (
        LOST,
        tolerating("workload.kcp.dev/unreachable", 9),
        ("ClusterNotReady", 1009.0),
    ),
    "lost, tolerated for ever": (LOST, tolerating("workload.kcp.dev/unreachable", None), None),
    "another taint is tolerated": (
        LOST,
        tolerating("workload.kcp.dev/not-ready", None),
        ("ClusterNotReady", 1120.0),
    ),
    "never": (LOST, Policy(purge_mode="Never"), None),
    "tainted": (ClusterView("b", taints=(BAD,)), Policy(), ("ClusterTainted", 500.0)),
    "tainted, for a while": (
        ClusterView("b", taints=(BAD,)),
        tolerating("bad", 60),
        ("ClusterTainted", 560.0),
    ),
    "NoSchedule": (ClusterView("b", taints=(replace(BAD, effect="NoSchedule"),)), Policy(), None),
}


@pytest.mark.parametrize(("cluster", "policy", "expected"), CASES.values(), ids=CASES)
def test_departures(
    cluster: ClusterView | None, policy: Policy, expected: tuple[str, float] | None
) -> None:
    found = departure("b", cluster, WORKLOAD, replace(policy, strategy="Divided"))
    assert (None if found is None else (found.reason, found.due)) == expected


NUMBERLESS = replace(WORKLOAD, replicas=None)


@pytest.mark.parametrize(("workload", "strategy", "leaves"), [
    (WORKLOAD, "Divided", True),
    (WORKLOAD, "Single", True),
    (NUMBERLESS, "Single", True),
    (WORKLOAD, "Duplicated", False),
    (NUMBERLESS, "Duplicated", False),
    (NUMBERLESS, "Divided", False),
])  # fmt: skip
def test_copies_stay_in_a_lost_cluster(workload: WorkloadView, strategy: str, leaves: bool) -> None:
    policy = Policy(strategy=strategy)
    assert (departure("b", LOST, workload, policy) is not None) is leaves
    drained = replace(LOST, evict_after=77.0)
    assert departure("b", drained, workload, policy) == ClusterDeparture(
        "b", "ClusterDrained", 77.0, is_lost=True
    )


@pytest.mark.parametrize(
    ("lost", "total", "expected"),
    [(0, 3, False), (1, 1, False), (1, 2, False), (2, 3, True), (5, 10, False), (6, 10, True)],
)
def test_panic(lost: int, total: int, expected: bool) -> None:
    clusters = [ClusterView(f"c{n}", is_ready=n >= lost) for n in range(total)]
    assert is_panic(clusters) is expected


def test_what_must_not_run_twice_is_held_in_a_lost_cluster() -> None:
    exclusive = replace(WORKLOAD, is_exclusive=True)
    lost = ClusterDeparture("b", "ClusterNotReady", 0.0, is_lost=True)
    assert is_held(lost, exclusive, Policy())
    assert not is_held(lost, exclusive, Policy(purge_mode="Directly"))
    assert not is_held(replace(lost, is_lost=False), exclusive, Policy())
    assert not is_held(lost, WORKLOAD, Policy())
