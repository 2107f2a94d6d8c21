"""Conditions and phases, derived anew each time from what was configured and what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pykcp.machinery import conditions
from pykcp.programs.operator.configuration.kubeconfigs import kubeconfig_target
from pykcp.programs.operator.configuration.stage import Configuration
from pykcp.programs.operator.configuration.world import (
    AVAILABLE,
    REFERENCE_VALID,
    ROOT_SHARD,
    NotConfigurable,
    World,
    at,
    name_of,
)
from pykcp.types import Object

PROVISIONING, RUNNING, READY, FAILED, DELETING = (
    "Provisioning", "Running", "Ready", "Failed", "Deleting",
)  # fmt: skip
_SCHEDULABLE = "Schedulable"


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """What a driver says about a workload."""

    desired: int
    updated: int
    ready: int
    message: str = ""
    """Why it is not available: the last lines of a log, for instance."""
    exists: bool = True

    @property
    def is_available(self) -> bool:
        return self.exists and self.updated == self.ready == self.desired


def object_status(
    obj: Object,
    configuration: Configuration,
    states: Mapping[str, ReplicaCounts],
    now: float,
    world: World | None = None,
) -> Object:
    """The status of an object; `states` are those of workloads, by name."""
    kind, name = str(obj["kind"]), name_of(obj)
    generation = int(obj["metadata"].get("generation") or 0)
    old: Object = obj.get("status") or {}
    made = configuration.made.get((kind, name))
    problem = configuration.problems.get((kind, name))
    found: list[Object] = list(old.get("conditions") or ())
    for condition, status, reason, message in (
        *_reference(kind, problem),
        *_scheduling(kind, obj),
        _availability(kind, configuration, name, problem, states),
    ):
        found = conditions.with_condition(
            found, condition, status, reason=reason, message=message, now=now,
            more={"observedGeneration": generation},
        )  # fmt: skip
    status_: Object = {**old, "observedGeneration": generation, "conditions": found}
    status_["phase"] = _phase(kind, obj, found, problem)
    if made is not None:
        status_["addresses"] = list(made.addresses)
        status_["certificates"] = [
            {
                "name": one.name,
                "notAfter": _time(one.ends),
                "renewalTime": _time(one.renewal),
                "revision": one.revision,
            }
            for one in made.certificates
        ]
    if world is not None:
        status_ |= _of_kind(kind, obj, world)
    return status_


def _of_kind(kind: str, obj: Object, world: World) -> Object:
    if kind == "RootShard":
        return {"shards": [{"name": name_of(one)} for one in world.shards_of(name_of(obj))]}
    if kind == "Kubeconfig":
        try:
            return {"targetName": kubeconfig_target(world, obj).label}
        except NotConfigurable:
            return {}
    return {}


Stated = tuple[str, str, str, str]
"""Type, status, reason and message of a condition."""


def _reference(kind: str, problem: NotConfigurable | None) -> Sequence[Stated]:
    condition = {
        "Shard": ROOT_SHARD,
        "FrontProxy": ROOT_SHARD,
        "Kubeconfig": REFERENCE_VALID,
        "VirtualWorkspace": REFERENCE_VALID,
    }.get(kind)
    if condition is None:
        return ()
    if problem is not None and problem.condition in (ROOT_SHARD, REFERENCE_VALID):
        reason = "InvalidReference" if condition == ROOT_SHARD else "ReferenceNotFound"
        return ((condition, conditions.FALSE, reason, problem.message),)
    reason = "Valid" if condition == ROOT_SHARD else "ReferenceValid"
    return ((condition, conditions.TRUE, reason, "The reference is valid."),)


def _scheduling(kind: str, obj: Object) -> Sequence[Stated]:
    """Whether new workspaces are placed on a shard."""
    if kind not in ("RootShard", "Shard"):
        return ()
    if at(obj, "unschedulable"):
        why = "spec.unschedulable keeps new workspaces away."
        return ((_SCHEDULABLE, conditions.FALSE, "Unschedulable", why),)
    return ((_SCHEDULABLE, conditions.TRUE, "Schedulable", ""),)


def _availability(
    kind: str,
    configuration: Configuration,
    name: str,
    problem: NotConfigurable | None,
    states: Mapping[str, ReplicaCounts],
) -> Stated:
    if problem is not None:
        reason = problem.reason if problem.condition == AVAILABLE else "DeploymentUnavailable"
        return AVAILABLE, conditions.FALSE, reason, problem.message
    if kind == "Kubeconfig":
        return AVAILABLE, conditions.TRUE, "SecretsReady", "The kubeconfig is written."
    wanted = configuration.workloads_of(kind, name)
    for one in wanted:
        state = states.get(one.name)
        if state is None or not state.exists:
            why = f"{one.name} is not running yet"
            return AVAILABLE, conditions.FALSE, "DeploymentUnavailable", why
        if not state.is_available:
            why = (
                f"{one.name}: {state.ready} of {state.desired} replicas are ready, "
                f"{state.updated} of the current revision"
            )
            if state.message:
                why += f": {state.message}"
            return AVAILABLE, conditions.FALSE, "ReplicasUnavailable", why
    return AVAILABLE, conditions.TRUE, "ReplicasUp", "All replicas are ready."


def _phase(kind: str, obj: Object, found: Sequence[Object], problem: NotConfigurable | None) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return DELETING
    available = conditions.find(found, AVAILABLE)
    if available is not None and available["status"] == conditions.TRUE:
        return READY if kind == "Kubeconfig" else RUNNING
    if kind == "Kubeconfig" and problem is not None and problem.condition == REFERENCE_VALID:
        return FAILED
    return PROVISIONING


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
