"""The decision: filter, score, select, divide, in this order, with its explanation.

`decide` is called again for each change and must not move anything without a reason: it begins with
where the workload is, and only adds or removes what it has to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pykcp.multicluster.scheduling import filters, rebalancing
from pykcp.multicluster.scheduling.assignment import Chosen, assign, ideal, is_divided
from pykcp.multicluster.scheduling.following import follow, with_leaders
from pykcp.multicluster.scheduling.leaving import leaving_now, next_deadline
from pykcp.multicluster.scheduling.model import (
    DIRECTLY,
    ClusterVerdict,
    ClusterView,
    Leaving,
    PlacementDecision,
    Question,
)
from pykcp.multicluster.scheduling.scores import ranking, score
from pykcp.multicluster.scheduling.selection import ClusterSelection, select

SCHEDULED, PARTLY, UNSCHEDULABLE = "Scheduled", "PartlyScheduled", "Unschedulable"
NO_CLUSTERS, INVALID, WAITING = "NoRegisteredClusters", "InvalidPlacement", "WaitingForRemoval"
REBALANCED = "Rebalanced"
BEING_LEFT = "were being left by the workload"


def decide(question: Question) -> PlacementDecision:
    """Where the workload should be."""
    if question.policy.problems:
        text = "; ".join(question.policy.problems)
        return _unchanged(question, (), INVALID, text)
    if question.workload.is_follower:
        if not question.policy.placement:
            return follow(question)
        return with_leaders(question, _placed(question))
    return _placed(question)


def _placed(question: Question) -> PlacementDecision:
    """Where the workload should be for its own sake."""
    verdicts, usable = _judge(question)
    if _waits_for_removal(question):
        text = "the workload must not run twice, and its copy in the last cluster still exists"
        return PlacementDecision(
            {}, {}, verdicts, (), False, WAITING, text, tuple(question.departing)
        )
    selection = select(usable, question.clusters, question.policy.spread)
    if not selection.chosen:
        return _unplaced(question, verdicts, selection.problem)
    chosen = assign(question, selection)
    leaving = leaving_now(question, chosen.counts)
    decision = PlacementDecision(
        clusters=chosen.counts,
        reasons=chosen.reasons,
        verdicts=verdicts,
        leaving=leaving,
        is_scheduled=not chosen.unplaced,
        reason=PARTLY if chosen.unplaced else SCHEDULED,
        message=_summary(chosen, verdicts),
        evicted=tuple(sorted(question.departing)),
        again_after=next_deadline(leaving, question.now),
        moved=_unstuck(question, chosen.counts),
    )
    return _rebalanced(question, decision, selection)


def has_no_place(question: Question) -> bool:
    """Whether other clusters could not run all of what has to leave."""
    return decide(question).reason in (PARTLY, UNSCHEDULABLE)


# --- candidates ----------------------------------------------------------------


def _judge(question: Question) -> tuple[tuple[ClusterVerdict, ...], list[str]]:
    """A verdict on each cluster, and those that can be used, best first."""
    workload, policy, stay = question.workload, question.policy, question.stay
    reasons = {
        name: "" if name in stay else filters.rejection(cluster, workload, policy, question.now)
        for name, cluster in sorted(question.clusters.items())
    }
    left = {one.cluster for one in question.placed.leaving} - set(stay)
    left.update(question.departing)
    # A cluster that is being left gets the workload again when it is gone from there, or when there
    # is no other one.
    if any(not reason and name not in left for name, reason in reasons.items()):
        for name in left & set(reasons):
            reasons[name] = reasons[name] or BEING_LEFT
    usable = [question.clusters[name] for name, reason in reasons.items() if not reason]
    scored = score(usable, workload, policy, frozenset(stay))
    rejected = [ClusterVerdict(name, reason) for name, reason in reasons.items() if reason]
    return (*scored, *rejected), ranking(scored, workload.uid)


def _waits_for_removal(question: Question) -> bool:
    """A workload that must not run twice is placed again only when its last copy is gone."""
    if not question.workload.is_exclusive or question.stay:
        return False
    purged = question.policy.purge_mode == DIRECTLY
    present = question.placed.leaves | frozenset(question.departing)
    return any(not (purged and _is_lost(question, name)) for name in present)


def _is_lost(question: Question, name: str) -> bool:
    cluster: ClusterView | None = question.clusters.get(name)
    return cluster is None or not cluster.is_ready


def _unstuck(question: Question, counts: Mapping[str, int | None]) -> str:
    """What goes elsewhere because no node of its cluster takes it."""
    before = question.placed.clusters
    gone = {name: (before.get(name) or 0) - (counts.get(name) or 0) for name in question.caps}
    texts = [
        f"{count} replica(s) found no node in {name}" for name, count in gone.items() if count > 0
    ]
    return ", ".join(texts)


# --- rebalancing ---------------------------------------------------------------


def _rebalanced(
    question: Question, decision: PlacementDecision, selection: ClusterSelection
) -> PlacementDecision:
    """One step towards the ideal division, when nothing else is going on."""
    policy, placed = question.policy, question.placed
    is_settled = decision.clusters == placed.clusters and not decision.leaving
    if not (policy.rebalances and is_divided(question) and is_settled and not question.departing):
        return decision
    actual = {name: count or 0 for name, count in decision.clusters.items()}
    move = rebalancing.next_move(actual, ideal(question, selection))
    if move is None:
        return decision
    pause = question.cooldown
    if policy.moves_per_minute:
        pause = min(pause, 60.0 / policy.moves_per_minute)
    ready_at = question.clusters[move.target].ready_since + question.cooldown
    wait = max(ready_at, _after(placed.moved_at, pause)) - question.now
    if wait > 0:
        return replace(decision, again_after=wait)
    clusters = dict(decision.clusters)
    clusters[move.source] = actual[move.source] - move.replicas
    clusters[move.target] = actual.get(move.target, 0) + move.replicas
    deadline = question.now + policy.grace
    leaving = Leaving(move.source, question.now, deadline, REBALANCED, move.replicas)
    reasons = {**decision.reasons, move.target: f"rebalanced: {move}"}
    return replace(
        decision,
        clusters={name: count for name, count in clusters.items() if count},
        reasons=reasons,
        leaving=(leaving,),
        moved=str(move),
        again_after=policy.grace,
    )


def _after(moment: float, pause: float) -> float:
    return moment + pause if moment else 0.0


# --- explanation ---------------------------------------------------------------


def _unplaced(
    question: Question, verdicts: tuple[ClusterVerdict, ...], problem: str
) -> PlacementDecision:
    if not question.clusters:
        return _unchanged(question, verdicts, NO_CLUSTERS, "no clusters are registered")
    text = rejections(verdicts) + (f"; {problem}" if problem else "")
    leaving = leaving_now(question, {})
    stay = question.stay if problem else {}
    return PlacementDecision(
        stay,
        dict.fromkeys(stay, "was placed there before"),
        verdicts,
        leaving=leaving,
        is_scheduled=False,
        reason=UNSCHEDULABLE,
        message=text,
        evicted=tuple(sorted(question.departing)),
        again_after=next_deadline(leaving, question.now),
    )


def _unchanged(
    question: Question, verdicts: tuple[ClusterVerdict, ...], reason: str, message: str
) -> PlacementDecision:
    """A decision that cannot be made leaves everything where it is."""
    clusters = question.placed.clusters
    reasons = dict.fromkeys(clusters, "was placed there before")
    leaving = question.placed.leaving
    return PlacementDecision(clusters, reasons, verdicts, leaving, False, reason, message)


def rejections(verdicts: Sequence[ClusterVerdict]) -> str:
    """As the scheduler of Kubernetes writes it: `0/3 clusters are available: 2 cluster(s) …`."""
    counted = Counter(verdict.rejection for verdict in verdicts if verdict.rejection)
    parts = [f"{count} cluster(s) {reason}" for reason, count in sorted(counted.items())]
    usable = sum(not verdict.rejection for verdict in verdicts)
    head = f"{usable}/{len(verdicts)} clusters are available"
    return f"{head}: {', '.join(parts)}" if parts else head


def _summary(chosen: Chosen, verdicts: Sequence[ClusterVerdict]) -> str:
    placed = ", ".join(
        name if count is None else f"{name}={count}"
        for name, count in sorted(chosen.counts.items())
    )
    text = f"placed on {placed}; {rejections(verdicts)}"
    if chosen.unplaced:
        text += f"; {chosen.unplaced} replica(s) exceed the placement's maximum"
    return text
