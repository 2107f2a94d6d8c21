"""The status of a Cluster: conditions, taints, and which of its types are synchronized. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykcp.machinery.conditions import FALSE, TRUE, UNKNOWN, conditions_of, find
from pykcp.machinery.kcp.conditions import ERROR, condition, with_condition
from pykcp.machinery.negotiation.resource import ImportedResource
from pykcp.multicluster.clusters.health import Readiness
from pykcp.multicluster.importing.table import ImportSummary
from pykcp.multicluster.names import (
    TAINT_NOT_READY,
    TAINT_UNREACHABLE,
    TAINT_UNSCHEDULABLE,
)
from pykcp.multicluster.syncer.types import ACCEPTED
from pykcp.types import Object

READY, SYNCER_READY = "Ready", "SyncerReady"
IMPORTER_READY, REACHABLE = "APIImporterReady", "DownstreamReachable"
HEARTBEAT_HEALTHY = "HeartbeatHealthy"

INVALID_KUBECONFIG = "InvalidKubeConfig"
NO_KUBECONFIG = "NoKubeConfig"
ERROR_CLIENT = "ErrorCreatingClient"
ERROR_SYNCER, ERROR_INSTALLING = "ErrorStartingSyncer", "ErrorInstallingSyncer"
ERROR_IMPORTER = "ErrorStartingAPIImporter"
IDENTITY_CHANGED = "ClusterIdentityChanged"

PENDING, INCOMPATIBLE = "Pending", "Incompatible"
LEFT = "it is not synchronized any more; objects of it are still in the cluster"
"""Of a type that the Cluster has no longer, or that is not wanted."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a condition shall say; None for a status removes it."""

    kind: str
    status: str | None
    reason: str = ""
    message: str = ""


def true(kind: str) -> Mark:
    return Mark(kind, TRUE)


def false(kind: str, reason: str, message: str = "") -> Mark:
    return Mark(kind, FALSE, reason, message)


def unknown(kind: str, reason: str, message: str = "") -> Mark:
    return Mark(kind, UNKNOWN, reason, message)


def with_marks(conditions: Sequence[Object], marks: Iterable[Mark], now: str) -> list[Object]:
    """Times of transition change with the status only: messages of failing clusters vary."""
    found = list(conditions)
    for mark in marks:
        old = find(found, mark.kind)
        if mark.status is None:
            found = [one for one in found if one.get("type") != mark.kind]
            continue
        fresh = condition(
            mark.kind,
            mark.status,
            old["lastTransitionTime"] if old and old.get("status") == mark.status else now,
            reason=mark.reason,
            message=mark.message,
            severity=ERROR if mark.status == FALSE else "",
        )
        found = with_condition(found, fresh)
    return found


def ready_mark(verdict: Readiness) -> Mark:
    return Mark(READY, verdict.status, verdict.reason, verdict.message)


def verdict_of(cluster: Object) -> Readiness | None:
    """What the object says about readiness; None if it says nothing."""
    found = find(conditions_of(cluster), READY)
    if found is None:
        return None
    return Readiness(found["status"], found.get("reason") or "", found.get("message") or "")


def health_taints(
    verdict: Readiness, *, is_cordoned: bool, before: Sequence[Object], now: str
) -> list[Object]:
    """Taints by the state of the cluster; those that stay keep their time."""
    keys = []
    if verdict.status == FALSE:
        keys.append(TAINT_NOT_READY)
    elif verdict.status == UNKNOWN:
        keys.append(TAINT_UNREACHABLE)
    if is_cordoned:
        keys.append(TAINT_UNSCHEDULABLE)
    times = {one.get("key"): one.get("timeAdded") for one in before}
    return [
        {"key": key, "effect": "NoSchedule", "timeAdded": times.get(key) or now} for key in keys
    ]


def synced_resources(
    types: Iterable[ImportedResource],
    built_in: Iterable[ImportedResource],
    imports: Iterable[ImportSummary],
    failed: dict[str, str],
) -> list[Object]:
    """The types of a cluster and whether they can be synchronized."""
    found: dict[tuple[str, str], Object] = {}
    for one in types:
        entry = _entry(one.group, one.plural, one.version, PENDING)
        if one.name in failed:
            entry |= {"state": INCOMPATIBLE, "message": failed[one.name]}
        found[one.group, one.plural] = entry
    for one in built_in:
        found[one.group, one.plural] = _entry(one.group, one.plural, one.version, ACCEPTED)
    for state in imports:
        entry = _entry(state.group, state.plural, state.version, PENDING)
        if state.is_compatible is False:
            entry |= {"state": INCOMPATIBLE, "message": state.message}
        elif state.is_compatible and state.is_available:
            entry["state"] = ACCEPTED
        found[state.group, state.plural] = entry
    return [found[key] for key in sorted(found)]


def without(before: Iterable[Object], found: Iterable[Object]) -> list[Object]:
    """The types of a Cluster that are not found any more."""
    known = {_type_of(one) for one in found}
    return [one for one in before if _type_of(one) not in known]


def is_left(entry: Object) -> bool:
    """Whether a type is listed only since objects of it are left."""
    return bool(entry.get("message") == LEFT)


def in_order(resources: Iterable[Object]) -> list[Object]:
    return sorted(resources, key=_type_of)


def _type_of(entry: Object) -> tuple[str, str]:
    return entry.get("group") or "", entry["resource"]


def _entry(group: str, plural: str, version: str, state: str) -> Object:
    return {"group": group, "resource": plural, "version": version, "state": state}


def accepted(resources: Iterable[Object]) -> tuple[str, ...]:
    """The types to synchronize, as `deployments.apps` or `configmaps`."""
    return tuple(
        ".".join(filter(None, (one["resource"], one.get("group"))))
        for one in resources
        if one.get("state") == ACCEPTED
    )
