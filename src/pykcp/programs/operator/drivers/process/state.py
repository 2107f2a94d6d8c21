"""How workloads and their processes fare, as `kcp status` shows it and conditions report it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pykcp.types import Object

STARTING, READY, NOT_READY, BACK_OFF, STOPPING = (
    "Starting", "Ready", "NotReady", "BackOff", "Stopping",
)  # fmt: skip
_ERROR = "Error: "
"""Programs print this before what a user did wrong."""


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
    waiting = [
        f"{state.name}-{one.number}: {text}" for one in state.replicas if (text := _waiting(one))
    ]
    head = f"{state.ready} of {state.desired} replicas are ready"
    return _condition("Available", False, "ReplicasUnavailable", "; ".join((head, *waiting)))


def _waiting(replica: ReplicaState) -> str:
    """Why a replica is not ready; while it starts again, what went wrong before says more."""
    if replica.phase == STARTING and replica.restart_reason:
        return f"it starts again; before: {replica.restart_reason}"
    return replica.message


def _failure(workload: str, replica: ReplicaState) -> str:
    head = f"{workload}-{replica.number}: {replica.message}"
    return "\n".join((head, *replica.lines))


def ending(code: int | None, lines: Sequence[str]) -> str:
    """Why a process has ended: how, and the last error in its log."""
    errors = [one.removeprefix(_ERROR) for one in lines if one.startswith(_ERROR)]
    if code is None:
        how = "the process has ended"
    elif code < 0:
        how, lines = f"ended by signal {_signal_name(-code)}", ()
    else:
        how = f"ended with exit code {code}"
    last = (errors or (lines if code else ()) or [""])[-1]
    return f"{how}: {last}" if last else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)


def _condition(name: str, status: bool, reason: str, message: str) -> Object:
    return {
        "type": name,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
    }


def all_available(states: Sequence[WorkloadReport]) -> bool:
    """Everything is ready, and no process of an older revision is left."""
    current = all(replica.is_updated for one in states for replica in one.replicas)
    return current and all(one.is_available for one in states)
