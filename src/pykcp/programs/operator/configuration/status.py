"""Conditions and phases, derived anew each time from what was configured and what runs."""

from __future__ import annotations

import re
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
_SCHEDULABLE, _SYNCED = "Schedulable", "Synced"
_INSIDE = {
    "RootShard": "The Shard object in root has the labels of this object.",
    "Shard": "The Shard object in root has the labels of this object.",
    "Kubeconfig": "The roles of this object are bound.",
}
"""Kinds for which something is done inside of the installation."""


@dataclass(frozen=True, slots=True)
class AccessNotes:
    """What was found out, and what failed, inside of an installation."""

    is_closed: bool | None = None
    """Whether the Shard object in root keeps new workspaces away; None if it was not read."""
    problem: tuple[str, str] | None = None
    """Reason and message of what failed the last time."""
    was_tried: bool = False


NOTHING_KNOWN = AccessNotes()


@dataclass(frozen=True, slots=True)
class ReplicaCounts:
    """What a driver says about a workload."""

    desired: int
    updated: int
    ready: int
    message: str = ""
    """Why it is not available: the last lines of a log, for instance."""
    exists: bool = True
    is_refused: bool = False
    """Whether the server has refused what the workload is to be now; `message` says why."""
    is_unknown: bool = False
    """Whether it runs where it cannot be seen from here; `message` says why."""

    @property
    def is_available(self) -> bool:
        known = self.exists and not self.is_refused and not self.is_unknown
        return known and self.updated == self.ready == self.desired


def object_status(
    obj: Object,
    configuration: Configuration,
    states: Mapping[str, ReplicaCounts],
    now: float,
    world: World | None = None,
    notes: AccessNotes = NOTHING_KNOWN,
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
        *_scheduling(kind, obj, notes.is_closed),
        *_access(kind, notes, found),
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


def _scheduling(kind: str, obj: Object, is_closed: bool | None) -> Sequence[Stated]:
    """Whether new workspaces are placed on a shard: what its Shard object says, once it is read."""
    if kind not in ("RootShard", "Shard"):
        return ()
    wanted = bool(at(obj, "unschedulable"))
    if not (wanted if is_closed is None else is_closed):
        return ((_SCHEDULABLE, conditions.TRUE, "Schedulable", ""),)
    why = "spec.unschedulable keeps new workspaces away."
    if not wanted:
        why = "The Shard object in root is marked as unschedulable."
    return ((_SCHEDULABLE, conditions.FALSE, "Unschedulable", why),)


def _access(kind: str, notes: AccessNotes, old: Sequence[Object]) -> Sequence[Stated]:
    """Whether labels, registrations and roles inside of the installation are as they should be."""
    if kind not in _INSIDE or not notes.was_tried:
        return ()
    if notes.problem is None:
        return ((_SYNCED, conditions.TRUE, "Synced", _INSIDE[kind]),)
    reason, message = notes.problem
    before = conditions.find(old, _SYNCED) or {}
    # Numbers of ports and times must not make a write of every attempt: each brings the next one.
    if _without_numbers(before.get("message") or "") == _without_numbers(message):
        message = before["message"]
    return ((_SYNCED, conditions.FALSE, reason, message),)


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", "", text)


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
        if state is not None and state.is_refused:
            why = f"{one.name}: {state.message}"
            return AVAILABLE, conditions.FALSE, "DeploymentUnavailable", why
        if state is not None and state.is_unknown:
            return AVAILABLE, conditions.UNKNOWN, "NotReached", f"{one.name}: {state.message}"
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
