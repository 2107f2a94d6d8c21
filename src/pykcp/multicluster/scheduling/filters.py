"""The first step of a decision: which clusters may get a workload at all, and why others may not.

These tests are for new work. A cluster that already runs the workload keeps it, also while it is
cordoned, full or does not report the type: a short failure of a cluster never removes what runs there.
When work leaves a cluster is decided in `eviction.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.multicluster.scheduling.model import (
    NO_EXECUTE,
    NO_SCHEDULE,
    ClusterView,
    Policy,
    Taint,
    WorkloadView,
)

TERMINATING = "were being deleted"
CLOSED = "had a syncer that serves the workspace of their registration only"
NOT_READY = "were not Ready"
CORDONED = "were unschedulable"
DRAINING = "were being drained"
NO_TYPE = "did not accept the type {type}"
NO_MATCH = "did not match the placement's cluster affinity"
NOT_TOGETHER = "did not match the placement's workload affinity"
NOT_APART = "did not match the placement's workload anti-affinity"
NO_ROOM = "had insufficient {resource}"
NO_TOPOLOGY = "had no label {key}"
TAINTED = "had the untolerated taint {{{taint}}}"


def rejection(cluster: ClusterView, workload: WorkloadView, policy: Policy, now: float) -> str:
    """Why the cluster cannot get the workload; empty if it can. It is asked of every cluster in
    every decision: what seldom applies is not called.
    """
    if cluster.is_terminating:
        return TERMINATING
    if cluster.is_closed:
        return CLOSED
    if policy.required and not is_allowed(cluster, policy):
        return NO_MATCH
    if cluster.evict_after is not None and is_draining(cluster, now):
        return DRAINING
    if workload.together is not None or workload.apart:
        found = separation(cluster, workload)
        if found:
            return found
    if cluster.taints:
        found = _untolerated(cluster, policy)
        if found:
            return found
    if not cluster.is_ready:
        return NOT_READY
    if cluster.unschedulable:
        return CORDONED
    if workload.type not in cluster.types:
        return NO_TYPE.format(type=workload.type)
    lacking = lacking_resource(cluster, workload.requests) if workload.requests else ""
    return NO_ROOM.format(resource=lacking) if lacking else ""


def is_allowed(cluster: ClusterView, policy: Policy) -> bool:
    """Whether the placement's affinity allows the cluster."""
    return not policy.required or any(term.matches(cluster) for term in policy.required)


def is_draining(cluster: ClusterView, now: float) -> bool:
    return cluster.evict_after is not None and cluster.evict_after <= now


def separation(cluster: ClusterView, workload: WorkloadView) -> str:
    """Whether rules about other workloads forbid the cluster."""
    if workload.together is not None and cluster.name not in workload.together:
        return NOT_TOGETHER
    return NOT_APART if cluster.name in workload.apart else ""


def _untolerated(cluster: ClusterView, policy: Policy) -> str:
    for taint in cluster.taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not is_tolerated(taint, policy):
            text = f"{taint.key}: {taint.value}" if taint.value else taint.key
            return TAINTED.format(taint=text)
    return ""


def is_tolerated(taint: Taint, policy: Policy) -> bool:
    return any(toleration.covers(taint) for toleration in policy.tolerations)


def lacking_resource(cluster: ClusterView, requests: Mapping[str, int]) -> str:
    """The resource of which the cluster has less than one replica needs."""
    if cluster.free is None:
        return ""
    for name, amount in requests.items():
        if amount > cluster.free.get(name, 0):
            return name
    return ""


def replicas_that_fit(cluster: ClusterView, requests: Mapping[str, int]) -> int | None:
    """How many more replicas there is room for; None if that is not known."""
    if cluster.free is None:
        return None
    free = cluster.free
    room = [free.get(name, 0) // amount for name, amount in requests.items() if amount > 0]
    return max(0, min(room)) if room else None
