"""The second step: how well each of the remaining clusters suits, from 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import mul

from pykcp.multicluster.scheduling.division import tie_breakers
from pykcp.multicluster.scheduling.model import ClusterVerdict, ClusterView, Policy, WorkloadView

WEIGHTS: Mapping[str, int] = {
    "affinity": 4,
    "stay": 8,
    "balance": 1,
    "capacity": 2,
    "locality": 2,
}
"""How much each score counts. To stay outweighs the others together less preferred affinity, so that
a workload moves only for what its owner asked for."""


def score(
    clusters: Sequence[ClusterView], workload: WorkloadView, policy: Policy, present: frozenset[str]
) -> list[ClusterVerdict]:
    """Verdicts in the order of the clusters, with each score and the weighted sum."""
    most = max([cluster.bindings for cluster in clusters], default=0)
    names = tuple(workload.requests) or ("cpu",)
    room = [0 if cluster.free is None else _room(cluster.free, names) for cluster in clusters]
    widest = max(room, default=0)
    wanted = sum(abs(term.weight) for term in policy.preferred)
    near = frozenset[str]().union(*workload.leaders.values())
    verdicts = []
    for cluster, free in zip(clusters, room, strict=True):
        scores = (  # in the order of WEIGHTS
            _affinity(cluster, policy, wanted) if wanted else 0,
            100 if cluster.name in present else 0,
            100 - 100 * cluster.bindings // most if most else 100,
            100 * free // widest if widest else 0,
            100 if cluster.name in near else 0,
        )
        verdicts.append(ClusterVerdict(cluster.name, "", scores, _total(scores)))
    return verdicts


@lru_cache(maxsize=1024)  # most clusters score like others
def _total(scores: tuple[int, ...]) -> int:
    return sum(map(mul, WEIGHTS.values(), scores))


def _affinity(cluster: ClusterView, policy: Policy, wanted: int) -> int:
    return 100 * sum(t.weight for t in policy.preferred if t.matches(cluster)) // wanted


def _room(free: Mapping[str, int], names: Sequence[str]) -> int:
    """The free share of the scarcest of the resources."""
    return max(0, min([free.get(name, 0) for name in names]))


def ranking(verdicts: Sequence[ClusterVerdict], uid: str) -> list[str]:
    """Names of clusters, the best first; equal ones in an order that differs between objects."""
    names = [verdict.cluster for verdict in verdicts]
    totals = [-verdict.total for verdict in verdicts]
    ranked = sorted(zip(totals, tie_breakers(uid, names), names, strict=True))
    return [name for _, _, name in ranked]
