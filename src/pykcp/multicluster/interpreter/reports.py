"""What a leaf says about the copy in its cluster."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.machinery import conditions, meta
from pykcp.multicluster.interpreter.kinds import KindTraits, replicas_of
from pykcp.multicluster.names import ROOT_GENERATION, SYNC_STATE, UNSCHEDULABLE
from pykcp.multicluster.syncer.state import parse_state, parse_stuck
from pykcp.types import Object

HEALTHY, UNHEALTHY, PROGRESSING, UNKNOWN = "Healthy", "Unhealthy", "Progressing", "Unknown"
_AVAILABLE = ("availableReplicas", "readyReplicas")


@dataclass(frozen=True, slots=True)
class LeafReport:
    cluster: str
    status: Object
    generation: int
    """Of the root, as far as the cluster has observed it; 0 if it has observed none."""
    health: str
    message: str = ""
    is_stale: bool = False
    """The cluster cannot be asked now."""
    is_leaving: bool = False
    """The workload is being moved away from the cluster."""


def report_of(
    leaf: Object, rules: KindTraits, cluster: str, *, is_stale: bool, is_leaving: bool
) -> LeafReport:
    state = parse_state(meta.annotation(leaf, SYNC_STATE))
    status = leaf.get("status") or {}
    is_observed = _is_observed(leaf, status, None if state is None else state.applied_generation)
    if state is not None and state.reason:
        health, message = UNHEALTHY, state.error
    elif is_stale:
        health, message = UNKNOWN, "the cluster does not report"
    else:
        health, message = _health(leaf, rules, status, is_observed=is_observed)
    return LeafReport(
        cluster,
        status,
        _rendered(leaf) if is_observed else 0,
        health,
        message,
        is_stale,
        is_leaving,
    )


def _rendered(leaf: Object) -> int:
    """The generation of the root that the leaf was made of."""
    text = meta.annotation(leaf, ROOT_GENERATION)
    return int(text) if text.isdecimal() else 0


def observed_generation(leaf: Object) -> int:
    """The generation of the root that the cluster has observed; 0 if it has not observed the leaf
    as it is now.
    """
    state = parse_state(meta.annotation(leaf, SYNC_STATE))
    applied = None if state is None else state.applied_generation
    return _rendered(leaf) if _is_observed(leaf, leaf.get("status") or {}, applied) else 0


def is_applied(leaf: Object) -> bool:
    """Whether the cluster has a copy of the leaf as it is now."""
    state = parse_state(meta.annotation(leaf, SYNC_STATE))
    if state is not None and state.reason:
        return False
    applied = None if state is None else state.applied_generation
    return _is_observed(leaf, leaf.get("status") or {}, applied)


def _is_observed(leaf: Object, status: Object, applied: int | None) -> bool:
    """Whether the cluster has seen the leaf as it is now."""
    observed = status.get("observedGeneration")
    if isinstance(observed, int):
        return observed >= meta.generation(leaf)
    if applied is None:
        return False
    return bool(status) or applied >= meta.generation(leaf)


def _health(
    leaf: Object, rules: KindTraits, status: Object, *, is_observed: bool
) -> tuple[str, str]:
    if not is_observed:
        return PROGRESSING, "the cluster has not observed the latest change"
    for kind, bad in (("Failed", "True"), ("ReplicaFailure", "True"), ("Ready", "False")):
        found = conditions.find(status.get("conditions") or (), kind)
        if found is not None and found.get("status") == bad:
            return UNHEALTHY, str(found.get("message") or found.get("reason") or kind)
    wanted = replicas_of(rules, leaf)
    if wanted is None or rules.replicas[0] != ("spec", "replicas"):
        return HEALTHY, ""
    available = max(int(status.get(name) or 0) for name in _AVAILABLE)
    updated = int(status.get("updatedReplicas") or 0) if "updatedReplicas" in status else available
    if available >= wanted and updated >= wanted:
        return HEALTHY, ""
    text = f"{available} of {wanted} replicas are available"
    stuck = parse_stuck(meta.annotation(leaf, UNSCHEDULABLE))
    if stuck is not None:
        text += f", {stuck.replicas} found no node: {stuck.message}"
    return PROGRESSING, text
