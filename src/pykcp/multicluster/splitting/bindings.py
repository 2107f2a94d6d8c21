"""Bindings as API objects: what a decision becomes. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from pykcp.machinery import conditions, meta
from pykcp.machinery.conditions import FALSE, TRUE
from pykcp.multicluster.names import GROUP, VERSION
from pykcp.multicluster.scheduling.model import (
    ClusterVerdict,
    Leaving,
    PlacementDecision,
    Policy,
    WorkloadView,
)
from pykcp.multicluster.scheduling.scores import WEIGHTS
from pykcp.multicluster.scheduling.snapshot import MOVED_AT
from pykcp.multicluster.splitting.departing import Departures
from pykcp.multicluster.splitting.inventory import KnownBinding
from pykcp.multicluster.splitting.keys import RootKey, binding_name
from pykcp.types import Object

TYPE = "workloads.kcp.dev/type"
"""Annotation of bindings: the type of the workload, as `deployments.apps`."""
SCHEDULED, PAUSED, HELD = "Scheduled", "EvictionPaused", "HeldInLostCluster"
_TOTAL = attrgetter("total")
_MOST_EXPLAINED = 10
"""Clusters whose verdicts a Binding lists, if there are more than it chose."""
_PAUSED_TEXT = "more than half of the clusters are not Ready: nothing is evicted"


def new_binding(key: RootKey, root: Object, spec: Object) -> Object:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Binding",
        "metadata": {
            "name": binding_name(key),
            "namespace": key.namespace,
            "annotations": {TYPE: key.type},
            "ownerReferences": [
                {
                    "apiVersion": root["apiVersion"],
                    "kind": root["kind"],
                    "name": key.name,
                    "uid": meta.uid(root),
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": spec,
    }


def spec_of(
    root: Object,
    policy: Policy,
    workload: WorkloadView,
    decision: PlacementDecision,
    required_by: Sequence[Object],
) -> Object:
    spec: Object = {
        "ref": {
            "apiVersion": root["apiVersion"],
            "kind": root["kind"],
            "name": meta.name(root),
            "uid": meta.uid(root),
        },
        "clusters": [
            _target(name, replicas, decision.reasons.get(name, ""))
            for name, replicas in sorted(decision.clusters.items())
        ],
    }
    if decision.leaving:
        spec["evicting"] = [_eviction(one) for one in decision.leaving]
    if policy.placement:
        spec["placement"] = policy.placement
    if workload.replicas is not None:
        spec["replicas"] = workload.replicas
    if required_by:
        spec["requiredBy"] = list(required_by)
    return spec


def _target(name: str, replicas: int | None, reason: str) -> Object:
    made: Object = {"name": name}
    if replicas is not None:
        made["replicas"] = replicas
    if reason:
        made["reason"] = reason
    return made


def _eviction(one: Leaving) -> Object:
    made: Object = {
        "cluster": one.cluster,
        "since": meta.now_rfc3339(one.since),
        "deadline": meta.now_rfc3339(one.deadline),
        "reason": one.reason,
    }
    if one.replicas is not None:
        made["replicas"] = one.replicas
    return made


def all_clusters(binding: Object) -> frozenset[str]:
    """The clusters of a workload, those that it is leaving included."""
    spec = binding.get("spec") or {}
    chosen = [one["name"] for one in spec.get("clusters") or ()]
    return frozenset((*chosen, *(one["cluster"] for one in spec.get("evicting") or ())))


def known(binding: Object) -> KnownBinding:
    """What is remembered of a Binding."""
    scheduled = conditions.find(conditions.conditions_of(binding), SCHEDULED)
    refusal = ""
    if scheduled is not None and scheduled.get("status") == FALSE:
        refusal = f"{scheduled.get('reason')}: {scheduled.get('message')}"
    spec = f"{meta.uid(binding)}/{meta.generation(binding)}"
    return KnownBinding(spec, all_clusters(binding), refusal)


def shares(binding: Object) -> list[tuple[str, int | None]]:
    """The replicas that each cluster runs now: its share, and what has not left it yet."""
    spec = binding.get("spec") or {}
    counts: dict[str, int | None] = {
        one["name"]: one.get("replicas") for one in spec.get("clusters") or ()
    }
    for one in spec.get("evicting") or ():
        more, own = one.get("replicas"), counts.get(one["cluster"])
        counts[one["cluster"]] = more if own is None else own + (more or 0)
    return list(counts.items())


def note_move(binding: Object, now: float) -> None:
    binding["metadata"] = dict(binding["metadata"])
    meta.set_annotation(binding, MOVED_AT, meta.now_rfc3339(now))


def scheduling_status(
    binding: Object,
    decision: PlacementDecision,
    departures: Departures,
    now: float,
) -> Object:
    """The status with what the scheduler has to say in it."""
    status: Object = dict(binding.get("status") or {})
    before = status.get("conditions") or []
    found = conditions.with_condition(
        before,
        SCHEDULED,
        TRUE if decision.is_scheduled else FALSE,
        reason=decision.reason,
        message=decision.message,
        now=now,
    )
    paused = departures.is_paused and _PAUSED_TEXT
    found = _set_or_drop(found, PAUSED, "TooManyClustersNotReady", paused, now)
    reason, text = _why_held(departures)
    found = _set_or_drop(found, HELD, reason, text, now)
    explained = _explanation(decision)
    is_same = found == before and {one["name"] for one in explained} == {
        one["name"] for one in status.get("explanation") or ()
    }
    if is_same:
        return status  # scores alone are no reason to write
    status["conditions"], status["explanation"] = found, explained
    return status


def _why_held(departures: Departures) -> tuple[str, str]:
    """Why a workload stays in a lost cluster: a reason and a text, or none."""
    if departures.held:
        return "ClusterNotReady", (
            f"not started in another cluster, since {', '.join(departures.held)} may still run it; "
            "failover.purgeMode Directly of a Placement does it nevertheless"
        )
    if departures.stranded:
        names = ", ".join(departures.stranded)
        return "NoOtherCluster", f"stays in {names}: no other cluster could run all of it"
    return "", ""


def _set_or_drop(
    found: list[Object], kind: str, reason: str, message: object, now: float
) -> list[Object]:
    if not message:
        return conditions.without_condition(found, kind)
    return conditions.with_condition(
        found, kind, TRUE, reason=reason, message=str(message), now=now
    )


def _explained(decision: PlacementDecision) -> list[ClusterVerdict]:
    """The clusters to explain, by name: those that were chosen, and the best others. With many
    clusters the condition Scheduled counts the rest by their reasons.
    """
    verdicts = decision.verdicts
    if len(verdicts) > _MOST_EXPLAINED:
        chosen = [one for one in verdicts if one.cluster in decision.clusters]
        others = [one for one in verdicts if one.cluster not in decision.clusters]
        more = max(0, _MOST_EXPLAINED - len(chosen))
        verdicts = (*chosen, *heapq.nlargest(more, others, key=_TOTAL))
    return sorted(verdicts, key=lambda one: one.cluster)


def _explanation(decision: PlacementDecision) -> list[Object]:
    made = []
    for verdict in _explained(decision):
        name = verdict.cluster
        is_chosen = name in decision.clusters
        if verdict.rejection:
            reason = verdict.rejection
        elif is_chosen:
            reason = decision.reasons.get(name, "")
        else:
            reason = "was not needed"
        scores = _scores_as_text(verdict.scores)
        if scores:
            reason = f"{reason} ({scores})"
        made.append({"name": name, "chosen": is_chosen, "reason": reason, "score": verdict.total})
    return made


@lru_cache(maxsize=1024)  # most clusters score like others
def _scores_as_text(scores: tuple[int, ...]) -> str:
    return ", ".join(
        f"{part} {value}" for part, value in zip(WEIGHTS, scores, strict=False) if value
    )
