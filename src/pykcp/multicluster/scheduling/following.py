"""Followers: objects that are placed with the workloads that need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pykcp.multicluster.scheduling.filters import is_draining
from pykcp.multicluster.scheduling.model import (
    ClusterVerdict,
    PlacementDecision,
    Question,
    WorkloadView,
)

FOLLOWS, NO_LEADER = "Follows", "NoLeader"
_NOT_NEEDED = "run no workload that needs it"
_HAS_DATA = "has its data, which goes when it is deleted or the cluster is drained"


def needed_in(workload: WorkloadView) -> frozenset[str]:
    """The clusters of the workloads that need a follower. One with replicas is a workload itself:
    to run all of it in further clusters would be too much of it.
    """
    if not workload.is_follower or workload.replicas is not None:
        return frozenset()
    return frozenset().union(*workload.leaders.values())


def follow(question: Question) -> PlacementDecision:
    """A follower is in every cluster of the workloads that need it."""
    leaders = question.workload.leaders
    reasons = {**_with_data(question), **_reasons(leaders)}
    counts = dict.fromkeys(reasons, question.workload.replicas)
    verdicts = tuple(
        ClusterVerdict(name, "" if name in counts else _NOT_NEEDED)
        for name in sorted(question.clusters)
    )
    if not leaders and not counts:
        return PlacementDecision(
            {}, {}, verdicts, (), False, NO_LEADER, "no placed workload needs it"
        )
    text = f"follows {', '.join(sorted(leaders))}" if leaders else f"stays in {', '.join(counts)}"
    return PlacementDecision(counts, reasons, verdicts, (), True, FOLLOWS, text)


def with_leaders(question: Question, decision: PlacementDecision) -> PlacementDecision:
    """What a Placement of the follower's own asks for, and the clusters in which it is needed."""
    needed = needed_in(question.workload)
    reasons = {**_with_data(question), **_reasons(question.workload.leaders)}
    more = {
        name: reason
        for name, reason in reasons.items()
        if name not in decision.clusters and (name in needed or question.workload.keeps_data)
    }
    if not more:
        return decision
    verdicts = tuple(
        one._replace(rejection="") if one.cluster in more else one for one in decision.verdicts
    )
    return replace(
        decision,
        clusters={**decision.clusters, **dict.fromkeys(more)},
        reasons={**decision.reasons, **more},
        verdicts=verdicts,
        leaving=tuple(one for one in decision.leaving if one.cluster not in more),
        is_scheduled=decision.is_scheduled or not decision.clusters,
        reason=decision.reason if decision.clusters else FOLLOWS,
    )


def _reasons(leaders: Mapping[str, frozenset[str]]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for leader, clusters in sorted(leaders.items()):
        for name in sorted(clusters):
            before = reasons.get(name)
            reasons[name] = f"{before}, {leader}" if before else f"needed by {leader}"
    return reasons


def _with_data(question: Question) -> dict[str, str]:
    """Where a claim is: no workload needs it there any more, and what it holds is nowhere else."""
    if not question.workload.keeps_data:
        return {}
    found: dict[str, str] = {}
    for name in question.placed.clusters:
        cluster = question.clusters.get(name)
        is_leaving = cluster is None or cluster.is_terminating or is_draining(cluster, question.now)
        if not is_leaving:
            found[name] = _HAS_DATA
    return found
