"""How workloads and their processes fare, as `kcp status` shows it and conditions report it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pykcp.types import Object

STARTING, READY, NOT_READY, BACK_OFF, STOPPING = (
    "Starting", "Ready", "NotReady", "BackOff", "Stopping",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplicaState:
    number: int
    phase: str
    revision: str
    is_updated: bool
    """Whether it runs the newest revision."""
    pid: int = 0
    host: str = ""
    port: int = 0
    since: float = 0.0
    restarts: int = 0
    restart_reason: str = ""
    """Why the last run ended; kept while the next one is well."""
    exit_code: int | None = None
    """Of the last run; negative for a signal. None if unknown."""
    message: str = ""
    lines: tuple[str, ...] = ()
    """The last lines of its log, if it has failed."""


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    name: str
    component: str
    owner: str
    """Kind and name: `Shard/alpha`."""
    address: str
    desired: int
    revision: str
    replicas: tuple[ReplicaState, ...] = ()
    problem: str = ""
    """Why the workload as a whole cannot be run: a full disk, an unknown version."""
    ignored: tuple[str, ...] = ()
    """Fields without effect on this platform."""

    @property
    def ready(self) -> int:
        """Replicas that are ready and up to date."""
        return sum(one.phase == READY and one.is_updated for one in self.replicas)

    @property
    def is_available(self) -> bool:
        return not self.problem and self.ready >= self.desired

    def to_object(self) -> Object:
        return {
            **asdict(self),
            "ready": self.ready,
            "available": self.is_available,
            "conditions": conditions(self),
        }

    @classmethod
    def from_object(cls, obj: Object) -> WorkloadReport:
        """The value that `to_object` described."""
        kept = {name: obj[name] for name in cls.__dataclass_fields__}
        replicas = tuple(
            ReplicaState(**{**one, "lines": tuple(one["lines"])}) for one in obj["replicas"]
        )
        return cls(**{**kept, "replicas": replicas, "ignored": tuple(obj["ignored"])})


def conditions(state: WorkloadReport) -> list[Object]:
    """The conditions of a workload, without the time of their last change."""
    found = [_available(state)]
    failing = [one for one in state.replicas if one.phase == BACK_OFF]
    if failing:
        message = "; ".join(_failure(state.name, one) for one in failing)
        found.append(_condition("CrashLoop", True, "ProcessEnded", message))
    else:
        found.append(_condition("CrashLoop", False, "ProcessesRunning", ""))
    if state.ignored:
        message = "not applicable to processes: " + ", ".join(state.ignored)
        found.append(_condition("FieldsIgnored", True, "NotApplicable", message))
    return found


def _available(state: WorkloadReport) -> Object:
    if state.problem:
        return _condition("Available", False, "DeploymentUnavailable", state.problem)
    if state.is_available:
        return _condition("Available", True, "ReplicasUp", "")
    waiting = [f"{state.name}-{one.number}: {one.message}" for one in state.replicas if one.message]
    head = f"{state.ready} of {state.desired} replicas are ready"
    return _condition("Available", False, "ReplicasUnavailable", "; ".join((head, *waiting)))


def _failure(workload: str, replica: ReplicaState) -> str:
    code = "unknown" if replica.exit_code is None else str(replica.exit_code)
    head = f"{workload}-{replica.number}: exit code {code}, {replica.message}"
    return "\n".join((head, *replica.lines))


def _condition(name: str, status: bool, reason: str, message: str) -> Object:
    return {
        "type": name,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
    }


def all_available(states: Sequence[WorkloadReport]) -> bool:
    return all(one.is_available for one in states)
