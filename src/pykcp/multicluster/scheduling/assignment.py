"""The fourth step: what each of the selected clusters gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pykcp.multicluster.scheduling.division import (
    NO_CAP,
    Share,
    divide,
    divide_evenly,
    divide_sticky,
)
from pykcp.multicluster.scheduling.filters import lacking_resource, replicas_that_fit
from pykcp.multicluster.scheduling.model import (
    AGGREGATED,
    CAPACITY,
    DIVIDED,
    EVEN,
    SINGLE,
    WEIGHTED,
    ClusterView,
    Question,
)
from pykcp.multicluster.scheduling.selection import ClusterSelection


@dataclass(frozen=True, slots=True)
class Chosen:
    counts: Mapping[str, int | None]
    reasons: Mapping[str, str]
    unplaced: int = 0
    """Replicas that the placement's maximum leaves no room for."""


def is_divided(question: Question) -> bool:
    return question.policy.strategy == DIVIDED and question.workload.replicas is not None


def assign(question: Question, selection: ClusterSelection) -> Chosen:
    """The clusters of a workload, with the replicas of each."""
    replicas, stay = question.workload.replicas, question.stay
    if question.policy.strategy == SINGLE:
        name = next((name for name in selection.chosen if name in stay), selection.chosen[0])
        return Chosen({name: replicas}, {name: "the cluster with the best score"})
    if not is_divided(question):
        names = selection.chosen
        return Chosen(
            dict.fromkeys(names, replicas), dict.fromkeys(names, "a copy in each cluster")
        )
    total = replicas or 0
    among = _enough(question, selection)
    if not total:
        kept = [name for name in among if name in stay] or among[:1]
        return Chosen(dict.fromkeys(kept, 0), dict.fromkeys(kept, "no replicas are wanted"))
    if _is_unlimited(question, selection, total):
        counts = divide_evenly(total, among, question.workload.uid)
        return Chosen(counts, _reasons(question, counts, total, {}))
    shares = _shares(question, selection, among)
    counts = _sticky(question, shares, total)
    if question.caps and sum(counts.values()) < total:  # no other cluster takes them either
        shares = _shares(replace(question, caps={}), selection, among)
        counts = _sticky(question, shares, total)
    weights = {share.name: share.weight for share in shares}
    placed = {name: count for name, count in counts.items() if count}
    reasons = _reasons(question, placed, total, weights)
    return Chosen(placed, reasons, total - sum(placed.values()))


def _is_unlimited(question: Question, selection: ClusterSelection, total: int) -> bool:
    """Whether a new workload is divided evenly and there is room for all of it everywhere."""
    policy, requests = question.policy, question.workload.requests
    if question.stay or selection.anchors or policy.preference != EVEN:
        return False
    if policy.minimum or policy.maximum or question.caps:
        return False
    of_all = {name: amount * total for name, amount in requests.items()}
    return not requests or not any(
        lacking_resource(question.clusters[name], of_all) for name in selection.chosen
    )


def _reasons(
    question: Question, placed: Mapping[str, int], total: int, weights: Mapping[str, int]
) -> dict[str, str]:
    """`weights`: those that are not 1."""
    how = question.policy.preference
    return {
        name: f"{count} of {total} replicas, {how} with weight {weights.get(name, 1)}"
        for name, count in placed.items()
    }


def ideal(question: Question, selection: ClusterSelection) -> dict[str, int]:
    """The division that would be made if the workload were nowhere."""
    total = question.workload.replicas or 0
    shares = _shares(question, selection, _enough(question, selection))
    if question.policy.preference == AGGREGATED:
        return _sticky(question, shares, total)  # to move what runs would serve nothing
    roomy = _within_room(question, shares, total)
    counts = divide(total, roomy, question.workload.uid)
    return counts if sum(counts.values()) == total else _sticky(question, shares, total)


def _enough(question: Question, selection: ClusterSelection) -> Sequence[str]:
    """The clusters to divide among: not more than can have the minimum, and none without weight."""
    policy, names = question.policy, selection.chosen
    if policy.preference == WEIGHTED:
        heavy = [name for name in names if _weight(question, question.clusters[name]) > 0]
        names = tuple(heavy) or names
    if policy.minimum > 0:
        names = names[: max(1, (question.workload.replicas or 0) // policy.minimum)]
    return names


def _shares(question: Question, selection: ClusterSelection, names: Sequence[str]) -> list[Share]:
    """What each cluster may get."""
    policy, stay, anchors = question.policy, question.stay, selection.anchors
    caps = question.caps if _is_other_open(question, selection) else {}
    is_even = policy.preference not in (WEIGHTED, CAPACITY)
    found = []
    for name in names:
        cluster, current = question.clusters[name], stay.get(name) or 0
        cap = policy.maximum or NO_CAP
        is_open = cluster.is_ready and not cluster.unschedulable
        if not is_open or question.workload.type not in cluster.types:
            cap = min(cap, current)  # what runs there stays, nothing is added
        if name in caps:
            cap = min(cap, caps[name])
        minimum = 1 if name in anchors and not policy.minimum else policy.minimum
        weight = 1 if is_even else max(1, _weight(question, cluster))
        found.append(Share(name, weight, minimum, cap, current))
    return found


def _is_other_open(question: Question, selection: ClusterSelection) -> bool:
    """Whether some cluster could take replicas that find no node in those that are full."""
    if not question.caps:
        return False
    others = (question.clusters[name] for name in selection.chosen if name not in question.caps)
    return any(one.is_ready and not one.unschedulable for one in others)


def _weight(question: Question, cluster: ClusterView) -> int:
    policy = question.policy
    if policy.preference == WEIGHTED:
        return next((term.weight for term in policy.weights if term.matches(cluster)), 0)
    if policy.preference == CAPACITY:
        current = question.stay.get(cluster.name) or 0
        return current + (replicas_that_fit(cluster, question.workload.requests) or 0)
    return 1


def _within_room(question: Question, shares: Sequence[Share], total: int) -> list[Share]:
    """Shares that exceed what a cluster can hold, with what it has already, are capped."""
    found = []
    requests = question.workload.requests
    if not requests:
        return list(shares)
    of_all = {name: amount * total for name, amount in requests.items()}
    for share in shares:
        cluster = question.clusters[share.name]
        if not lacking_resource(cluster, of_all):
            found.append(share)  # there is room for every replica, as in most clusters
            continue
        fit = replicas_that_fit(cluster, requests)
        if fit is not None and share.current + fit < min(share.cap, total):
            share = share._replace(cap=share.current + fit)
        found.append(share)
    return found


def _sticky(question: Question, shares: Sequence[Share], total: int) -> dict[str, int]:
    """Divide within the room that clusters have. What exceeds it is divided regardless: pending
    pods are what makes a cluster grow.
    """
    roomy = _within_room(question, shares, total)
    if question.policy.preference == AGGREGATED:
        counts = _packed(total, roomy)
    else:
        counts = divide_sticky(total, roomy, question.workload.uid)
    if sum(counts.values()) < total:
        again = [s._replace(current=counts[s.name]) for s in shares]
        counts = divide_sticky(total, again, question.workload.uid)
    return counts


def _packed(total: int, shares: Sequence[Share]) -> dict[str, int]:
    """As few clusters as possible: what is there stays, then the best ones are filled in turn."""
    counts, remaining = dict.fromkeys((s.name for s in shares), 0), total
    for share in shares:
        counts[share.name] = min(share.current, share.cap, remaining)
        remaining -= counts[share.name]
    for share in shares:
        more = min(share.cap - counts[share.name], remaining)
        counts[share.name] += more
        remaining -= more
    return counts
