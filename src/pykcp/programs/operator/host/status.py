"""What `kcp status` shows: objects, workloads, processes and certificates. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykcp.programs.operator.configuration.status import ReplicaCounts, object_status
from pykcp.programs.operator.drivers.process.state import WorkloadReport, conditions
from pykcp.programs.operator.host.installation import ConfiguredHost
from pykcp.programs.operator.host.remote_workloads import states_elsewhere
from pykcp.types import Object


def host_status(
    configured: ConfiguredHost | None,
    reports: Sequence[WorkloadReport],
    problem: str,
    now: float,
    elsewhere: Mapping[str, str] | None = None,
) -> Object:
    """`elsewhere`: why workloads of other hosts do not count as ready (`elsewhere.py`)."""
    problems = [problem] if problem else []
    objects: list[Object] = []
    if configured is not None:
        problems += configured.problems
        objects = _objects(configured, reports, now, elsewhere or {})
    return {
        "time": int(now),
        "problems": problems,
        "objects": objects,
        "workloads": [one.to_object() for one in reports],
        "remote": [one.name for one in configured.remote] if configured is not None else [],
        "ignored": configured.manifests.ignored if configured is not None else [],
        "kubeconfigs": configured.kubeconfigs if configured is not None else {},
    }


def _objects(
    configured: ConfiguredHost,
    reports: Sequence[WorkloadReport],
    now: float,
    elsewhere: Mapping[str, str],
) -> list[Object]:
    configuration = configured.configuration
    if configuration is None:
        return []
    states = {one.name: _state(one) for one in reports}
    states |= states_elsewhere(configured, elsewhere)
    found = []
    for obj in configured.manifests.objects:
        status = object_status(obj, configuration, states, now, configured.world)
        found.append({"kind": obj["kind"], "name": obj["metadata"]["name"], "status": status})
    return found


def _state(report: WorkloadReport) -> ReplicaCounts:
    updated = sum(one.is_updated for one in report.replicas)
    message = report.problem
    if not report.is_available and not message:
        message = next(
            (one["message"] for one in conditions(report) if one["type"] == "CrashLoop"), ""
        ) or conditions(report)[0]["message"]  # fmt: skip
    return ReplicaCounts(report.desired, updated, report.ready, message)
