"""When a workload has to leave a cluster, and the brakes on it.

Losing the connection to a cluster does not stop what runs there, so eviction waits for a toleration.
If most clusters seem lost at once the control plane itself is the likely cause: nothing is evicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykcp.multicluster.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from pykcp.multicluster.scheduling.filters import is_allowed, separation
from pykcp.multicluster.scheduling.model import (
    DIRECTLY,
    NEVER,
    NO_EXECUTE,
    ClusterDeparture,
    ClusterView,
    Policy,
    Taint,
    WorkloadView,
    is_duplicated,
)

DELETED, DRAINED, UNHEALTHY = "ClusterDeleted", "ClusterDrained", "ClusterNotReady"
TAINTED, AFFINITY, SEPARATION = "ClusterTainted", "AffinityChanged", "WorkloadAffinityChanged"
TOLERATION = 120.0
"""Seconds that a cluster may be not Ready, unless a placement or a flag says otherwise."""
PANIC_SHARE, PANIC_COUNT = 0.5, 2


def is_panic(clusters: Sequence[ClusterView]) -> bool:
    """More than half of the clusters, and at least two, are not Ready."""
    lost = sum(not cluster.is_ready for cluster in clusters if not cluster.is_terminating)
    return lost >= PANIC_COUNT and lost > PANIC_SHARE * len(clusters)


def departure(
    name: str,
    cluster: ClusterView | None,
    workload: WorkloadView,
    policy: Policy,
    toleration: float = TOLERATION,
    calm_since: float = 0.0,
) -> ClusterDeparture | None:
    """The first reason for which a workload has to leave; None: it may stay.

    `calm_since`: when a time ended in which nothing was evicted because most clusters seemed lost.
    """
    if cluster is None:
        return ClusterDeparture(name, DELETED, 0.0, is_lost=True, is_limited=False)
    lost = not cluster.is_ready
    if cluster.is_terminating:
        return ClusterDeparture(name, DELETED, 0.0, is_lost=lost, is_limited=False)
    if not is_allowed(cluster, policy):
        return ClusterDeparture(name, AFFINITY, 0.0, is_lost=lost, is_limited=False)
    if separation(cluster, workload):
        return ClusterDeparture(name, SEPARATION, 0.0, is_lost=lost, is_limited=False)
    timed = _timed(cluster, workload, policy, toleration, calm_since)
    found = [one for one in timed if one is not None]
    return min(found, key=lambda one: one.due, default=None)


def _timed(
    cluster: ClusterView,
    workload: WorkloadView,
    policy: Policy,
    toleration: float,
    calm_since: float,
) -> tuple[ClusterDeparture | None, ...]:
    lost = not cluster.is_ready
    # The copies of other clusters replace none: it stays, and is right when the cluster returns.
    is_replaced = lost and not is_duplicated(workload, policy)
    drained = cluster.evict_after
    taints = [
        _of_taint(cluster, taint, policy, None)
        for taint in cluster.taints
        if taint.effect == NO_EXECUTE
    ]
    return (
        None if drained is None else ClusterDeparture(cluster.name, DRAINED, drained, is_lost=lost),
        _not_ready(cluster, policy, toleration, calm_since) if is_replaced else None,
        *taints,
    )


def _not_ready(
    cluster: ClusterView, policy: Policy, toleration: float, calm_since: float
) -> ClusterDeparture | None:
    if policy.purge_mode == NEVER:
        return None
    key = TAINT_NOT_READY if cluster.is_reachable else TAINT_UNREACHABLE
    taint = Taint(key, NO_EXECUTE, since=max(cluster.ready_since, calm_since))
    seconds = toleration if policy.toleration is None else policy.toleration
    return _of_taint(cluster, taint, policy, seconds)


def _of_taint(
    cluster: ClusterView, taint: Taint, policy: Policy, default: float | None
) -> ClusterDeparture | None:
    """Tolerations with the shortest time count; without any, the default or at once."""
    reason = UNHEALTHY if default is not None else TAINTED
    seconds = 0.0 if default is None else default
    covering = [one for one in policy.tolerations if one.covers(taint)]
    if covering:
        limits = [one.seconds for one in covering if one.seconds is not None]
        if not limits:
            return None
        seconds = min(limits)
    return ClusterDeparture(
        cluster.name, reason, taint.since + seconds, is_lost=not cluster.is_ready
    )


def is_held(departure: ClusterDeparture, workload: WorkloadView, policy: Policy) -> bool:
    """Whether a workload that must not run twice stays where it was lost.

    The cluster may still run it, and nothing can tell: to start it in another one could corrupt
    what both write to. `purgeMode: Directly` accepts that.
    """
    return workload.is_exclusive and departure.is_lost and policy.purge_mode != DIRECTLY


def next_due(departures: Mapping[str, ClusterDeparture], now: float) -> float | None:
    """Seconds until the first departure that is not due yet."""
    later = [one.due - now for one in departures.values() if one.due > now]
    return min(later, default=None)
