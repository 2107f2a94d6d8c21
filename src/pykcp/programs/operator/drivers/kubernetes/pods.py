"""Why the pods of a workload do not run, in the words of Kubernetes and of the programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykcp.types import Object

_LINES, _LENGTH = 5, 1000
_BEGINNING = ("ContainerCreating", "PodInitializing")
_PLAIN = ("Error", "Completed", "")


def pods_problem(pods: Iterable[Object]) -> str:
    """Of the newest pod that has a problem; "" if there is none."""
    living = [one for one in pods if not one["metadata"].get("deletionTimestamp")]
    living.sort(key=lambda one: str(one["metadata"].get("name")))
    living.sort(key=lambda one: str(one["metadata"].get("creationTimestamp")), reverse=True)
    for pod in living:
        for problem in _problems(pod):
            return f"pod {pod['metadata']['name']}: {problem}"
    return ""


def _problems(pod: Object) -> Iterator[str]:
    status = pod.get("status") or {}
    for part in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(part) or ():
            if problem := _of_container(container):
                yield f"{container['name']}: {problem}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield str(condition.get("message") or condition.get("reason") or "is not scheduled")
    if status.get("phase") == "Failed":
        yield str(status.get("message") or status.get("reason") or "has failed")


def _of_container(status: Object) -> str:
    if status.get("ready"):
        return ""
    state, last = status.get("state") or {}, status.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated")
    # A container that waits to be restarted has no more to say than that it waits.
    if ended and (ended.get("exitCode") or ended.get("signal")):
        return _end(ended)
    reason = str(waiting.get("reason") or "")
    if not reason or reason in _BEGINNING:
        return ""
    return f"{reason}: {waiting['message']}" if waiting.get("message") else reason


def _end(ended: Object) -> str:
    """The last lines of the program: pods are told to keep them."""
    reason = str(ended.get("reason") or "")
    how = f"ended with exit code {ended.get('exitCode')}"
    if reason not in _PLAIN:
        how = f"{reason}, {how}"
    lines = [line.strip() for line in str(ended.get("message") or "").splitlines() if line.strip()]
    said = " | ".join(lines[-_LINES:])[-_LENGTH:]
    return f"{how}: {said}" if said else how
