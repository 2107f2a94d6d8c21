"""What `kubectl get pods` shows: the state of a pod in one word, and how often it was restarted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pykcp.machinery.durations import age_since
from pykcp.machinery.schema.definition import Cell
from pykcp.types import Object

_NONE = "<none>"
_TERMINAL = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Summary:
    """The cells that follow from the states of containers."""

    total: int
    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""
    is_initializing: bool = False

    def count(self, container: Object) -> None:
        """The restarts of a container and when the last of them was."""
        self.restarts += container.get("restartCount") or 0
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def _spec(pod: Object) -> Mapping[str, Any]:
    return pod.get("spec") or {}


def _status(pod: Object) -> Mapping[str, Any]:
    return pod.get("status") or {}


def _has(pod: Object, condition: str) -> bool:
    found = _status(pod).get("conditions") or ()
    return any(c.get("type") == condition and c.get("status") == "True" for c in found)


def _summary(pod: Object) -> _Summary:
    spec, status = _spec(pod), _status(pod)
    init = {c.get("name"): c for c in spec.get("initContainers") or ()}
    restartable = {name for name, c in init.items() if c.get("restartPolicy") == "Always"}
    out = _Summary(
        len(spec.get("containers") or ()) + len(restartable),
        status.get("reason") or status.get("phase") or "",
    )
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            out.reason = "SchedulingGated"
    sidecars = _Summary(0, "")
    _count_init(pod, out, sidecars, restartable)
    if not out.is_initializing or _has(pod, "Initialized"):
        out.restarts, out.last_restart = sidecars.restarts, sidecars.last_restart
        _count_containers(pod, out)
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            out.reason = "Unknown"
        elif status.get("phase") not in _TERMINAL:
            out.reason = "Terminating"
    return out


def _count_init(pod: Object, out: _Summary, sidecars: _Summary, restartable: set[Any]) -> None:
    total = len(_spec(pod).get("initContainers") or ())
    for index, container in enumerate(_status(pod).get("initContainerStatuses") or ()):
        out.count(container)
        is_sidecar = container.get("name") in restartable
        if is_sidecar:
            sidecars.count(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            out.ready += bool(container.get("ready"))
            continue
        out.is_initializing = True
        if terminated is not None:
            out.reason = f"Init:{_ending(terminated)}"
        elif waiting.get("reason") not in (None, "", "PodInitializing"):
            out.reason = f"Init:{waiting['reason']}"
        else:
            out.reason = f"Init:{index}/{total}"
        return


def _ending(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _count_containers(pod: Object, out: _Summary) -> None:
    is_running, failure = False, ""
    for container in reversed(_status(pod).get("containerStatuses") or ()):
        out.count(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            out.reason = waiting["reason"]
        elif terminated is not None:
            out.reason = _ending(terminated)
            if terminated.get("exitCode"):
                failure = out.reason
        elif container.get("ready") and state.get("running") is not None:
            is_running = True
            out.ready += 1
    if out.reason != "Completed":
        return
    if is_running and _has(pod, "Ready"):
        out.reason = "Running"
    elif failure:
        out.reason = failure
    elif is_running:
        out.reason = "NotReady"


def _ready(pod: Object, _now: datetime) -> str:
    found = _summary(pod)
    return f"{found.ready}/{found.total}"


def _reason(pod: Object, _now: datetime) -> str:
    return _summary(pod).reason


def _restarts(pod: Object, now: datetime) -> str:
    found = _summary(pod)
    if found.restarts and found.last_restart:
        return f"{found.restarts} ({age_since(found.last_restart, now)} ago)"
    return str(found.restarts)


def _age(pod: Object, now: datetime) -> str:
    return age_since(pod["metadata"].get("creationTimestamp"), now)


def _address(pod: Object, _now: datetime) -> str:
    addresses = _status(pod).get("podIPs") or ()
    return str(addresses[0].get("ip") or _NONE) if addresses else _NONE


def _readiness_gates(pod: Object, _now: datetime) -> str:
    gates = _spec(pod).get("readinessGates") or ()
    if not gates:
        return _NONE
    return f"{sum(_has(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


COLUMNS: tuple[tuple[str, Cell, bool], ...] = (
    ("Ready", _ready, False),
    ("Status", _reason, False),
    ("Restarts", _restarts, False),
    ("Age", _age, False),
    ("IP", _address, True),
    ("Node", lambda pod, _now: _spec(pod).get("nodeName") or _NONE, True),
    ("Nominated Node", lambda pod, _now: _status(pod).get("nominatedNodeName") or _NONE, True),
    ("Readiness Gates", _readiness_gates, True),
)
"""Titles, cells, and whether only `-o wide` shows them."""
