"""LogicalClusters and the Workspaces that own them: names, labels, phases. Pure.

Functions that change something change the object they are given; `now` is a timestamp as it
is written.
"""

from __future__ import annotations

from typing import Any

import orjson

from pykcp.machinery import meta
from pykcp.machinery.conditions import conditions_of, find
from pykcp.machinery.kcp.condition_marks import is_false, mark_false, mark_true
from pykcp.machinery.kcp.conditions import INFO, with_condition
from pykcp.machinery.kcp.hashes import (
    INITIALIZER_LABEL_PREFIX,
    TERMINATOR_LABEL_PREFIX,
    initializer_label,
    terminator_label,
)
from pykcp.types import Object

PHASE_LABEL = "tenancy.kcp.io/phase"
TYPE_ANNOTATION = "internal.tenancy.kcp.io/type"
PATH_ANNOTATION = "kcp.io/path"
OWNER_ANNOTATION = "experimental.tenancy.kcp.io/owner"
REQUIRED_GROUPS_ANNOTATION = "authorization.kcp.io/required-groups"
SHARD_ANNOTATION = "core.kcp.io/shard"
SHARD_HASH_ANNOTATION = "internal.tenancy.kcp.io/shard"
CLUSTER_ANNOTATION = "internal.tenancy.kcp.io/cluster"
OWNER_SHARD_ANNOTATION = "internal.tenancy.kcp.io/owner-shard"
"""Of a LogicalCluster whose Workspace is on another shard: that shard, when it was created."""
UNSCHEDULABLE_ANNOTATION = "experimental.core.kcp.io/unschedulable"
INACTIVE_ANNOTATIONS = ("core.kcp.io/inactive", "internal.kcp.io/inactive")

DELETION_FINALIZER = "core.kcp.io/logicalcluster-deletion"
TERMINATORS_FINALIZER = "kcp.io/has-terminators"
WORKSPACE_FINALIZER = "core.kcp.io/logicalcluster"

SCHEDULING, INITIALIZING, READY = "Scheduling", "Initializing", "Ready"
UNAVAILABLE, INACTIVE = "Unavailable", "Inactive"
TERMINATING, DELETING = "Terminating", "Deleting"

INITIALIZED, SCHEDULED = "WorkspaceInitialized", "WorkspaceScheduled"
CONTENT_DELETED = "WorkspaceContentDeleted"
_WAITING, _DISAPPEARED = "InitializerExists", "WorkspaceDisappeared"


def phase_of(obj: Object) -> str:
    found: str = (obj.get("status") or {}).get("phase") or ""
    return found


def initializers_of(obj: Object) -> list[str]:
    return (obj.get("status") or {}).get("initializers") or []


def terminators_of(obj: Object) -> list[str]:
    return (obj.get("status") or {}).get("terminators") or []


def is_inactive(cluster: Object) -> bool:
    return any(meta.annotation(cluster, key) == "true" for key in INACTIVE_ANNOTATIONS)


def settle(cluster: Object, url: str, shard: str, now: str) -> None:
    """A LogicalCluster as it is to be: phase, conditions, labels, finalizer, URL."""
    status = cluster["status"] = dict(cluster.get("status") or {})
    if meta.is_deleting(cluster):
        status["phase"] = TERMINATING if terminators_of(cluster) else DELETING
    else:
        _advance(cluster, now)
    status = cluster["status"]
    status["URL"] = url
    _label(cluster)
    _guard_terminators(cluster)
    annotations = cluster["metadata"].setdefault("annotations", {})
    annotations[SHARD_ANNOTATION] = shard
    if phase_of(cluster) == READY:
        trim_owner(cluster)


def _advance(cluster: Object, now: str) -> None:
    status, spec = cluster["status"], cluster.get("spec") or {}
    if phase_of(cluster) in ("", SCHEDULING):
        status["phase"] = INITIALIZING
        for part in ("initializers", "terminators"):
            if spec.get(part):
                status[part] = list(spec[part])
    phase = phase_of(cluster)
    if phase == INITIALIZING:
        waiting = initializers_of(cluster)
        if waiting:
            message = f"Initializers still exist: [{' '.join(waiting)}]"
            mark_false(cluster, INITIALIZED, _WAITING, message, now, severity=INFO)
        else:
            cluster["status"]["phase"] = READY
            mark_true(cluster, INITIALIZED, now)
    elif phase == READY and is_inactive(cluster):
        status["phase"] = INACTIVE
    elif phase == INACTIVE and not is_inactive(cluster):
        status["phase"] = READY


def _label(cluster: Object) -> None:
    """Phase, initializers and terminators as labels, by which they are found."""
    own = (INITIALIZER_LABEL_PREFIX, TERMINATOR_LABEL_PREFIX)
    kept = {k: v for k, v in meta.labels(cluster).items() if not k.startswith(own)}
    kept[PHASE_LABEL] = phase_of(cluster)
    kept.update(initializer_label(each) for each in initializers_of(cluster))
    kept.update(terminator_label(each) for each in terminators_of(cluster))
    cluster["metadata"]["labels"] = kept


def _guard_terminators(cluster: Object) -> None:
    """It stays for as long as a terminator has something to do."""
    finalizers = [f for f in meta.finalizers(cluster) if f != TERMINATORS_FINALIZER]
    if terminators_of(cluster):
        finalizers.append(TERMINATORS_FINALIZER)
    if finalizers != meta.finalizers(cluster):
        cluster["metadata"]["finalizers"] = finalizers


def trim_owner(obj: Object) -> None:
    """Who made it is needed in full only until it is ready; then the name is enough."""
    text = meta.annotation(obj, OWNER_ANNOTATION)
    if not text:
        return
    owner = user_of(text)
    if owner is None:
        del obj["metadata"]["annotations"][OWNER_ANNOTATION]
        return
    short = orjson.dumps({"username": owner["username"]} if owner.get("username") else {})
    obj["metadata"]["annotations"][OWNER_ANNOTATION] = short.decode()


def user_of(text: str) -> dict[str, Any] | None:
    """The UserInfo in an owner annotation; None if it is none."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def creator_of(cluster: Object) -> str:
    """The user who owns a logical cluster; "" if there is none."""
    created_by = (cluster.get("spec") or {}).get("createdBy") or {}
    if created_by.get("username"):
        return str(created_by["username"])
    owner = user_of(meta.annotation(cluster, OWNER_ANNOTATION)) or {}
    return str(owner.get("username") or "")


def revive(workspace: Object, cluster: Object) -> None:
    """Both as they were before they were deleted.

    Terminators have had their say; they shall have it again when it is deleted again.
    """
    for obj in (workspace, cluster):
        metadata = obj["metadata"]
        metadata.pop("deletionTimestamp", None)
        metadata.pop("deletionGracePeriodSeconds", None)
        status = obj["status"] = dict(obj.get("status") or {})
        kept = [c for c in conditions_of(obj) if c.get("type") != CONTENT_DELETED]
        status["conditions"] = kept
        status["phase"] = INITIALIZING if initializers_of(obj) else READY
        metadata["labels"] = {**meta.labels(obj), PHASE_LABEL: status["phase"]}
    terminators = (cluster.get("spec") or {}).get("terminators")
    if terminators:
        cluster["status"]["terminators"] = list(terminators)
    _copy(workspace, cluster, "terminators")


# --- workspaces ------------------------------------------------------------------------


def mirror(workspace: Object, cluster: Object | None, now: str) -> None:
    """A Workspace follows its LogicalCluster; None: there is none (any more)."""
    workspace["status"] = dict(workspace.get("status") or {})
    if meta.is_deleting(workspace):
        _mirror_deletion(workspace, cluster, now)
    elif cluster is None:
        message = f"LogicalCluster {workspace['spec'].get('cluster')} not found"
        mark_false(workspace, INITIALIZED, _DISAPPEARED, message, now)
    else:
        _mirror_life(workspace, cluster, now)
    _judge(workspace)
    labels = dict(meta.labels(workspace))
    labels[PHASE_LABEL] = phase_of(workspace)
    workspace["metadata"]["labels"] = labels
    if phase_of(workspace) == READY:
        trim_owner(workspace)


def _mirror_life(workspace: Object, cluster: Object, now: str) -> None:
    status = workspace["status"]
    if phase_of(workspace) in ("", SCHEDULING):
        status["phase"] = INITIALIZING
    if _has_reason(workspace, _DISAPPEARED):
        mark_true(workspace, INITIALIZED, now)
        status = workspace["status"]
    if phase_of(workspace) != INITIALIZING:
        return
    _copy(workspace, cluster, "terminators")
    if phase_of(cluster) in ("", SCHEDULING):
        message = "LogicalCluster is not initializing yet"
        mark_false(workspace, INITIALIZED, _WAITING, message, now, severity=INFO)
        return
    _copy(workspace, cluster, "initializers")
    waiting = initializers_of(cluster)
    if waiting:
        message = f"Initializers still exist: [{' '.join(waiting)}]"
        mark_false(workspace, INITIALIZED, _WAITING, message, now, severity=INFO)
        return
    if phase_of(cluster) == INITIALIZING:
        return  # it cannot be entered before its own phase is Ready
    workspace["status"]["phase"] = READY
    mark_true(workspace, INITIALIZED, now)


def _mirror_deletion(workspace: Object, cluster: Object | None, now: str) -> None:
    if cluster is None:
        mark_true(workspace, CONTENT_DELETED, now)
        return
    _copy(workspace, cluster, "terminators")
    workspace["status"]["phase"] = TERMINATING if terminators_of(cluster) else DELETING
    condition = find(conditions_of(cluster), CONTENT_DELETED)
    if condition is not None:
        status = workspace["status"]
        status["conditions"] = with_condition(conditions_of(workspace), condition)


def _copy(workspace: Object, cluster: Object, part: str) -> None:
    found = (cluster.get("status") or {}).get(part)
    if found:
        workspace["status"][part] = list(found)
    else:
        workspace["status"].pop(part, None)


def _judge(workspace: Object) -> None:
    """A workspace of which something is wrong is not available; what it waits for is not wrong."""
    phase = phase_of(workspace)
    if phase in (TERMINATING, DELETING):
        return
    is_wrong = any(
        str(c.get("type")).startswith("Workspace")
        and c.get("status") == "False"
        and c.get("severity") != INFO
        for c in conditions_of(workspace)
    )
    if is_wrong and phase != UNAVAILABLE:
        workspace["status"]["phase"] = UNAVAILABLE
    elif not is_wrong and phase == UNAVAILABLE:
        is_placed = bool((workspace.get("spec") or {}).get("cluster"))
        is_ready = not is_false(workspace, INITIALIZED)
        workspace["status"]["phase"] = (
            SCHEDULING if not is_placed else READY if is_ready else INITIALIZING
        )


def _has_reason(workspace: Object, reason: str) -> bool:
    found = find(conditions_of(workspace), INITIALIZED)
    return found is not None and found.get("reason") == reason


def is_waiting_for_cluster(workspace: Object) -> bool:
    return _has_reason(workspace, _DISAPPEARED)
