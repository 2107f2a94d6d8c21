"""One status of the reports of several clusters, as if one cluster ran the workload.

Counts are added, conditions joined, addresses listed one after the other. What is left is taken
if all clusters agree, and otherwise found in the Binding only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from pykcp.machinery import conditions
from pykcp.machinery.conditions import FALSE, TRUE, UNKNOWN
from pykcp.multicluster.interpreter.reports import LeafReport
from pykcp.types import Object

_COUNT = re.compile(
    r".*[rR]eplicas|number[A-Z].*|.*Number[A-Z].*|active|succeeded|failed|ready|terminating"
)
_NOT_ADDED = ("collisionCount",)
_LISTS = ("addresses", "ingress")
_NEGATIVE = frozenset(("Failed", "ReplicaFailure", "FailureTarget", "Suspended", "Degraded"))
"""Conditions that are bad news if they are True."""
_OF_ALL = frozenset(("Complete", "SuccessCriteriaMet"))
"""Conditions that hold when they hold in every cluster; a cluster without one is not done."""
_FIRST, _LAST = frozenset(("startTime",)), frozenset(("completionTime", "lastScheduleTime"))


def aggregate(root: Object, reports: Sequence[LeafReport]) -> Object:
    """The status of the root object."""
    generation = (root.get("metadata") or {}).get("generation") or 0
    before = root.get("status") or {}
    counted = [report for report in reports if report.status]
    settled = [report for report in counted if not report.is_leaving] or counted
    made: Object = {}
    for name in _names(report.status for report in counted):
        if name in ("observedGeneration", "conditions"):
            continue
        value = _merged(name, [r.status[name] for r in counted if name in r.status], settled)
        if value is not None:
            made[name] = value
    if any("observedGeneration" in report.status for report in counted):
        made["observedGeneration"] = _observed(before, generation, reports)
    joined = _conditions(settled)
    if joined:
        made["conditions"] = joined
    return made


def _names(statuses: Iterable[Object]) -> list[str]:
    return list(dict.fromkeys(name for status in statuses for name in status))


def _observed(before: Object, generation: int, reports: Sequence[LeafReport]) -> int:
    """Moves on only when every cluster has observed the latest generation."""
    current = [report for report in reports if not report.is_leaving]
    if current and all(report.generation >= generation for report in current):
        return generation
    known = before.get("observedGeneration")
    return known if isinstance(known, int) and known < generation else max(0, generation - 1)


def _merged(name: str, values: list[Any], settled: Sequence[LeafReport]) -> Any:
    if _is_count(name, values):
        return sum(values)
    if name in _FIRST:
        return min(values)
    if name in _LAST:
        complete = name != "completionTime" or len(values) >= len(settled)
        return max(values) if complete else None
    if all(isinstance(value, list) for value in values) and name in _LISTS:
        return [item for value in values for item in value]
    if all(isinstance(value, dict) for value in values) and len(values) > 1:
        inner = {
            key: _merged(key, [value[key] for value in values if key in value], settled)
            for key in _names(values)
        }
        return {key: value for key, value in inner.items() if value is not None}
    return values[0] if all(value == values[0] for value in values) else None


def _is_count(name: str, values: Sequence[Any]) -> bool:
    are_numbers = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    return are_numbers and name not in _NOT_ADDED and _COUNT.fullmatch(name) is not None


# --- conditions ----------------------------------------------------------------


def _conditions(reports: Sequence[LeafReport]) -> list[Object]:
    kinds = dict.fromkeys(
        condition["type"]
        for report in reports
        for condition in report.status.get("conditions") or ()
    )
    joined = (_joined(kind, reports) for kind in kinds)
    return [condition for condition in joined if condition is not None]


def _joined(kind: str, reports: Sequence[LeafReport]) -> Object | None:
    found = [
        (report, condition)
        for report in reports
        if (condition := conditions.find(report.status.get("conditions") or (), kind)) is not None
    ]
    if kind in _OF_ALL and len(found) < len(reports):
        return None
    order = (TRUE, UNKNOWN, FALSE) if kind in _NEGATIVE else (FALSE, UNKNOWN, TRUE)
    told = [(_told(report, condition), report, condition) for report, condition in found]
    status = next(status for status in order if any(one[0] == status for one in told))
    deciding = [(report, condition) for one, report, condition in told if one == status]
    made = dict(deciding[0][1], status=status)
    for name in ("lastTransitionTime", "lastUpdateTime", "lastProbeTime"):
        times = [condition[name] for _, condition in deciding if condition.get(name)]
        if times:
            made[name] = max(times)
    if len(reports) > 1:
        texts = (
            f"{r.cluster}: {c.get('message') or c.get('reason') or status}" for r, c in deciding
        )
        made["message"] = "; ".join(texts)
    if any(report.is_stale for report, _ in deciding) and status == UNKNOWN:
        made["reason"] = "ClusterNotReady"
    return made


def _told(report: LeafReport, condition: Object) -> str:
    """A report that may be outdated proves nothing good."""
    status = str(condition.get("status") or UNKNOWN)
    return UNKNOWN if report.is_stale and status == TRUE else status
