"""What stays in clusters that are left until it is replaced: moves overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pykcp.multicluster.scheduling.model import DIRECTLY, Leaving, Question, is_duplicated

MOVED = "PlacementChanged"
"""Why replicas leave a cluster that nothing is wrong with."""


def leaving_now(question: Question, counts: Mapping[str, int | None]) -> tuple[Leaving, ...]:
    """Old entries that are not finished, one for each departing cluster, and one for each cluster
    that has less than before. Copies need no replacement. `counts`: where the workload will be.
    """
    policy, workload = question.policy, question.workload
    if workload.is_exclusive or policy.purge_mode == DIRECTLY:
        return ()
    if is_duplicated(workload, policy):
        return ()
    found = {
        one.cluster: one
        for one in (_without_regained(question, old, counts) for old in question.placed.leaving)
        if one is not None and not _is_finished(question, one, counts)
    }
    until = question.now + policy.grace
    for name, departure in sorted(question.departing.items()):
        replicas = question.placed.clusters.get(name)
        if replicas is not None and name in found:  # some of them were leaving already
            replicas += found[name].replicas or 0
        if name not in counts and replicas != 0:
            found[name] = Leaving(name, question.now, until, departure.reason, replicas)
    for name, replicas in _moved(question, counts):
        before = found.get(name)
        if replicas is not None and before is not None:
            replicas += before.replicas or 0
        found[name] = Leaving(name, question.now, until, MOVED, replicas)
    return tuple(found.values())


def _moved(
    question: Question, counts: Mapping[str, int | None]
) -> Iterator[tuple[str, int | None]]:
    """What a decision takes from clusters that the workload does not have to leave, for instance
    since its Placement changed: so much of it stays as is needed until the others have it.
    """
    before, others = question.placed.clusters, question.stay
    if not counts:
        return
    if any(count is None for count in (*before.values(), *counts.values())):
        yield from ((name, None) for name in sorted(others) if name not in counts)
        return
    kept = sum(min(before.get(name) or 0, count or 0) for name, count in counts.items())
    missing = sum(count or 0 for count in counts.values()) - kept
    for name in sorted(others):
        # What finds no node in a cluster does not run there: it is not waited for.
        surplus = 0 if name in question.caps else (before[name] or 0) - (counts.get(name) or 0)
        replicas = min(surplus, missing)
        if replicas > 0:
            missing -= replicas
            yield name, replicas


def _without_regained(
    question: Question, one: Leaving, counts: Mapping[str, int | None]
) -> Leaving | None:
    """Less what the cluster is given again: those are the replicas that still run there."""
    more = (counts.get(one.cluster) or 0) - (question.placed.clusters.get(one.cluster) or 0)
    if one.replicas is None or more <= 0:
        return one
    return replace(one, replicas=one.replicas - more) if one.replicas > more else None


def _is_finished(question: Question, one: Leaving, counts: Mapping[str, int | None]) -> bool:
    if question.now >= one.deadline or one.cluster not in question.placed.leaves:
        return True
    if one.replicas is None and one.cluster in counts:
        return True  # the workload is back in this cluster
    return _is_replaced(question, counts)


def _is_replaced(question: Question, counts: Mapping[str, int | None]) -> bool:
    """Whether all that is assigned is available, replicas that are leaving not counted."""
    if not counts or counts != question.placed.clusters:
        return False  # nothing can be known of what was just decided
    for name, wanted in counts.items():
        available = question.placed.available.get(name, 0)
        if available is None or wanted is None:
            if name not in question.placed.available:
                return False
            continue
        extra = sum(o.replicas or 0 for o in question.placed.leaving if o.cluster == name)
        if available < wanted + extra:
            return False
    return True


def next_deadline(leaving: Sequence[Leaving], now: float) -> float | None:
    return min((max(0.0, one.deadline - now) for one in leaving), default=None)
