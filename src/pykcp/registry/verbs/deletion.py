"""What a delete does to an object: remove it, mark it, or nothing. Pure.

Finalizers keep an object; propagation policies are finalizers too (`orphan`,
`foregroundDeletion`) that the garbage collector takes away when it is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pykcp.machinery import meta
from pykcp.machinery.status import Conflict
from pykcp.types import Object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


@dataclass(slots=True)
class DeleteOptions:
    """The options of a DELETE, from its body or its query."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    orphan_dependents: bool | None = None
    propagation: str | None = None


class DeletionAction(Enum):
    REMOVE = "remove"
    """Take it out of the store now."""
    MARK = "mark"
    """Write the object back, marked as being deleted."""
    MARK_AND_REMOVE = "mark and remove"
    """Write it back, marked, then take it out: whoever watches it sees both."""
    NOTHING = "nothing"
    """It is being deleted already and the request changes nothing."""


def check_preconditions(obj: Object, options: DeleteOptions, group: str, kind: str) -> None:
    """Conflict, naming the kind as upstream does, if the object is not the one meant."""
    metadata = obj["metadata"]
    name, uid, version = metadata["name"], metadata.get("uid"), metadata.get("resourceVersion")
    if options.uid is not None and options.uid != uid:
        raise Conflict.resource(
            group,
            kind,
            name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != version:
        raise Conflict.resource(
            group,
            kind,
            name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified",
        )


def check_early_preconditions(
    obj: Object, options: DeleteOptions, group: str, resource: str
) -> None:
    """The same for kinds that are marked by rules of their own, which upstream words differently."""
    metadata = obj["metadata"]
    for what, wanted, found in (
        ("UID", options.uid, metadata.get("uid")),
        ("ResourceVersion", options.resource_version, metadata.get("resourceVersion")),
    ):
        if wanted is not None and wanted != found:
            raise Conflict.resource(
                group,
                resource,
                metadata["name"],
                f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}",
            )


def check_namespace_preconditions(obj: Object, options: DeleteOptions) -> None:
    check_early_preconditions(obj, options, "", "namespaces")


def plan(
    obj: Object, options: DeleteOptions, *, now: str, collects_garbage: bool
) -> DeletionAction:
    """Decide, and change the object in place when it is only to be marked."""
    metadata = obj["metadata"]
    before = list(metadata.get("finalizers") or ())
    finalizers = _with_propagation(before, options) if collects_garbage else before
    if not finalizers:
        return DeletionAction.REMOVE
    if finalizers == before and metadata.get("deletionTimestamp"):
        return DeletionAction.NOTHING
    metadata["finalizers"] = finalizers
    mark_as_deleting(metadata, now)
    return DeletionAction.MARK


def plan_namespace(obj: Object, options: DeleteOptions, now: str) -> DeletionAction:
    """A namespace is only marked; its controller empties it and then lets go of it."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = now
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        finalizers = _with_propagation(list(metadata.get("finalizers") or ()), options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        return DeletionAction.MARK
    if is_kept_namespace(obj):
        return DeletionAction.NOTHING
    return plan(obj, options, now=now, collects_garbage=True)


def is_kept_namespace(namespace: Object) -> bool:
    """A namespace has finalizers of its own; it stays until they are gone, too."""
    return bool((namespace.get("spec") or {}).get("finalizers"))


def plan_pod(obj: Object, options: DeleteOptions, now: str) -> DeletionAction:
    """A pod has time to end. Who runs it deletes it again when it has, with a period of 0."""
    metadata = obj["metadata"]
    left = metadata.get("deletionGracePeriodSeconds")
    began = metadata.get("deletionTimestamp")
    if began and left is None:
        return plan(obj, options, now=now, collects_garbage=True)
    if began:
        if not left and not metadata.get("finalizers"):
            return DeletionAction.REMOVE  # who marked it did not come to that
        period = options.grace_period
        if period is None or period >= left:
            return DeletionAction.NOTHING  # it may only become shorter
        metadata["deletionTimestamp"] = _later(began, period - left)
    else:
        period = _grace_period(obj, options)
        mark_as_deleting(metadata, _later(now, period))
    metadata["deletionGracePeriodSeconds"] = period
    finalizers = _with_propagation(list(metadata.get("finalizers") or ()), options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return DeletionAction.MARK if finalizers or period else DeletionAction.MARK_AND_REMOVE


def _grace_period(pod: Object, options: DeleteOptions) -> int:
    """The seconds a pod gets; none if nobody runs it."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
        return 0
    period = options.grace_period
    if period is None:
        period = spec.get("terminationGracePeriodSeconds") or 0
    return period if period >= 0 else 1


def _later(moment: str, seconds: int) -> str:
    return meta.now_rfc3339(meta.parse_rfc3339(moment) + seconds) if seconds else moment


CRD_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def plan_definition(obj: Object, options: DeleteOptions, now: str) -> DeletionAction:
    """A CRD stays until its objects are gone; its controller sees to that."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        metadata["finalizers"] = [
            *(f for f in metadata.get("finalizers") or () if f != CRD_FINALIZER),
            CRD_FINALIZER,
        ]
        status = obj["status"] = {**(obj.get("status") or {})}
        status["conditions"] = [
            *(c for c in status.get("conditions") or () if c.get("type") != "Terminating"),
            {
                "type": "Terminating",
                "status": "True",
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; "
                "CustomResource deletion will begin soon",
                "lastTransitionTime": now,
            },
        ]
    generation = metadata.get("generation")
    action = plan(obj, options, now=now, collects_garbage=True)
    # Upstream marks definitions by code of their own, which changes neither of these.
    metadata.pop("deletionGracePeriodSeconds", None)
    if generation is not None:
        metadata["generation"] = generation
    return action


def mark_as_deleting(metadata: Object, now: str) -> None:
    if not metadata.get("deletionTimestamp"):
        if metadata.get("generation"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = now
    metadata["deletionGracePeriodSeconds"] = 0


def is_finished(metadata: Object) -> bool:
    """Whether an update took the last finalizer away from an object being deleted."""
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def _with_propagation(existing: list[str], options: DeleteOptions) -> list[str]:
    orphan = _wants_orphans(existing, options)
    foreground = not orphan and _wants_foreground(existing, options)
    if orphan == (ORPHAN in existing) and foreground == (FOREGROUND in existing):
        return existing
    out = [f for f in existing if f not in (ORPHAN, FOREGROUND)]
    if orphan:
        out.append(ORPHAN)
    if foreground:
        out.append(FOREGROUND)
    return out


def _wants_orphans(existing: list[str], options: DeleteOptions) -> bool:
    if options.orphan_dependents is not None:
        return options.orphan_dependents
    if options.propagation is not None:
        return options.propagation == "Orphan"
    return ORPHAN in existing


def _wants_foreground(existing: list[str], options: DeleteOptions) -> bool:
    if options.orphan_dependents is not None:
        return False
    if options.propagation is not None:
        return options.propagation == "Foreground"
    return FOREGROUND in existing
