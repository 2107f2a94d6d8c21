"""Conditions of a terminating namespace, with upstream's messages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object


@dataclass(slots=True)
class RemainingObjects:
    """What is left of a namespace's content after an attempt to delete it."""

    by_kind: dict[GroupVersionResource, int] = field(default_factory=dict)
    by_finalizer: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.by_kind and not self.errors


# Type, reason and message when all is well; upstream's order.
_WELL = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)

NAMED_FINALIZERS = 100
"""Finalizers that are named: of one object, and in a condition."""


def unexpected_remains(namespace: str, kind: GroupVersionResource) -> str:
    """The error for content that should have gone: it has no finalizers."""
    shown = f"{kind.group}/{kind.version}, Resource={kind.resource}"
    return f"unexpected items still remain in namespace: {namespace} for gvr: {shown}"


def update_conditions(
    old: Sequence[Object], remains: RemainingObjects, now: str
) -> list[Object] | None:
    """The namespace's new conditions; None if nothing changed."""
    trouble = _trouble(remains)
    conditions = [dict(condition) for condition in old]
    by_type = {condition.get("type"): condition for condition in conditions}
    is_changed = False
    for kind, reason, message in _WELL:
        if kind in trouble:
            reason, message = trouble[kind]
        wanted = {
            "status": "True" if kind in trouble else "False",
            "reason": reason,
            "message": message,
        }
        existing = by_type.get(kind)
        if existing is None:
            conditions.append({"type": kind, "lastTransitionTime": now, **wanted})
        elif any(existing.get(name) != value for name, value in wanted.items()):
            if existing.get("status") != wanted["status"]:
                existing["lastTransitionTime"] = now
            existing.update(wanted)
        else:
            continue
        is_changed = True
    return conditions if is_changed else None


def _trouble(remains: RemainingObjects) -> dict[str, tuple[str, str]]:
    """Reason and message of the conditions that are true."""
    out = {}
    if remains.errors:
        texts = ", ".join(sorted(remains.errors))
        out["NamespaceDeletionContentFailure"] = (
            "ContentDeletionFailed",
            f"Failed to delete all resource types, {len(remains.errors)} remaining: {texts}",
        )
    if remains.by_kind:
        kinds = sorted(
            f"{kind.resource}.{kind.group} has {count} resource instances"
            for kind, count in remains.by_kind.items()
        )
        out["NamespaceContentRemaining"] = (
            "SomeResourcesRemain",
            f"Some resources are remaining: {', '.join(kinds)}",
        )
    if remains.by_finalizer:
        named = sorted(remains.by_finalizer.items())[:NAMED_FINALIZERS]
        finalizers = [f"{name} in {count} resource instances" for name, count in named]
        out["NamespaceFinalizersRemaining"] = (
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {', '.join(finalizers)}",
        )
    return out
