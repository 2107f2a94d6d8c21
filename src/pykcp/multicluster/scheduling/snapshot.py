"""Clusters and bindings as API objects, read as the values that decisions are made on."""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.machinery import conditions, meta, quantity
from pykcp.machinery.quantity import QuantityError
from pykcp.multicluster.names import TAINT_NOT_READY, TAINT_UNREACHABLE
from pykcp.multicluster.scheduling.model import ClusterView, Leaving, Placed, Taint
from pykcp.types import Object

ACCEPTED, INCOMPATIBLE = "Accepted", "Incompatible"
_STATE_TAINTS = (TAINT_NOT_READY, TAINT_UNREACHABLE)
_HEARTBEAT = "HeartbeatHealthy"
"""Condition of Clusters that report by themselves."""
MOVED_AT = "workloads.kcp.dev/rebalanced-at"
"""Annotation of bindings: when the last rebalancing step was taken."""


def cluster_view(cluster: Object, bindings: int = 0, started: float = 0.0) -> ClusterView:
    """A Cluster object. `started`: a cluster does not count as lost since before this time, when
    nothing could be heard of it.
    """
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    ready = conditions.find(conditions.conditions_of(cluster), "Ready") or {}
    is_ready = ready.get("status") == conditions.TRUE
    since = seconds(ready.get("lastTransitionTime")) or seconds(meta.creation_timestamp(cluster))
    taints = [_taint(one) for one in (*(spec.get("taints") or ()), *(status.get("taints") or ()))]
    if not is_ready:
        lost = [t.since for t in taints if t.key in _STATE_TAINTS and t.since]
        since = max(min([since, *lost]), started)
    return ClusterView(
        name=meta.name(cluster),
        labels=dict(meta.labels(cluster)),
        is_ready=is_ready,
        ready_since=since,
        is_reachable=ready.get("status") == conditions.FALSE,
        is_terminating=meta.is_deleting(cluster),
        unschedulable=bool(spec.get("unschedulable")),
        evict_after=seconds(spec["evictAfter"]) if spec.get("evictAfter") else None,
        taints=tuple(t for t in taints if t.key not in _STATE_TAINTS),
        types=accepted_types(cluster),
        free=free_capacity(status),
        bindings=bindings,
        serves_others=_serves_others(cluster),
    )


def _serves_others(cluster: Object) -> bool:
    """A syncer that runs elsewhere says whether it sees other workspaces than its own."""
    if conditions.find(conditions.conditions_of(cluster), _HEARTBEAT) is None:
        return True
    return bool((cluster.get("status") or {}).get("servesConsumers"))


def accepted_types(cluster: Object) -> frozenset[str]:
    """The types that a cluster synchronizes, as `deployments.apps`."""
    synced = (cluster.get("status") or {}).get("syncedResources") or ()
    return frozenset(
        type_name(one.get("group") or "", one["resource"])
        for one in synced
        if one.get("state") == ACCEPTED
    )


def type_name(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _taint(given: Object) -> Taint:
    added = seconds(given.get("timeAdded"))
    return Taint(given["key"], given["effect"], given.get("value") or "", added)


def seconds(text: str | None) -> float:
    """A timestamp as seconds; 0 if there is none."""
    if not text:
        return 0.0
    try:
        return meta.parse_rfc3339(text)
    except ValueError:
        return 0.0


def free_capacity(status: Object) -> Mapping[str, int] | None:
    """Allocatable minus requested, in thousandths."""
    allocatable = status.get("allocatable")
    if not allocatable:
        return None
    requested = status.get("requested") or {}
    return {
        name: milli(amount) - milli(requested.get(name, 0)) for name, amount in allocatable.items()
    }


def milli(amount: str | float) -> int:
    try:
        return quantity.parse(amount).milli_value
    except QuantityError:
        return 0


def placed_of(
    binding: Object | None, leaves: frozenset[str], clusters: Mapping[str, ClusterView]
) -> Placed:
    """Where a Binding says that the workload is. Only reports of clusters that are Ready count as
    available.
    """
    if binding is None:
        return Placed(leaves=leaves)
    spec, status = binding.get("spec") or {}, binding.get("status") or {}
    reports = {one["name"]: one for one in status.get("clusters") or ()}
    return Placed(
        clusters={one["name"]: one.get("replicas") for one in spec.get("clusters") or ()},
        leaving=tuple(_leaving(one) for one in spec.get("evicting") or ()),
        available={
            name: _available(one)
            for name, one in reports.items()
            if name in clusters
            and clusters[name].is_ready
            and one.get("health") == "Healthy"
            and not one.get("stale")
        },
        leaves=leaves,
        moved_at=seconds(meta.annotation(binding, MOVED_AT)),
    )


def _leaving(given: Object) -> Leaving:
    return Leaving(
        given["cluster"],
        seconds(given.get("since")),
        seconds(given.get("deadline")),
        given.get("reason") or "",
        given.get("replicas"),
    )


def _available(report: Object) -> int | None:
    """Replicas, for kinds that report any."""
    status = report.get("status") or {}
    for name in ("availableReplicas", "readyReplicas", "numberAvailable"):
        if name in status:
            return int(status[name])
    return 0 if "replicas" in status else None
