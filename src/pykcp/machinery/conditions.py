"""Status conditions: find, test, set, drop.

A condition is a dict with type, status (True, False, Unknown), reason, message and the time
of its last transition. Setting keeps that time unless the status changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery.meta import now_rfc3339
from pykcp.types import Object

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def conditions_of(obj: Object) -> list[Object]:
    """The conditions in an object's status."""
    return (obj.get("status") or {}).get("conditions") or []


def find(conditions: Sequence[Object], kind: str) -> Object | None:
    for condition in conditions:
        if condition.get("type") == kind:
            return condition
    return None


def status_of(obj: Object, kind: str) -> str:
    """True, False or Unknown; Unknown also when there is no such condition."""
    condition = find(conditions_of(obj), kind)
    return str(condition.get("status") or UNKNOWN) if condition else UNKNOWN


def is_true(obj: Object, kind: str) -> bool:
    return status_of(obj, kind) == TRUE


def with_condition(
    conditions: Sequence[Object],
    kind: str,
    status: str,
    *,
    reason: str = "",
    message: str = "",
    now: float,
    more: Object | None = None,
) -> list[Object]:
    """The conditions with this one set: in its old place, or at the end."""
    old = find(conditions, kind)
    stays = old is not None and old.get("status") == status and old.get("lastTransitionTime")
    fresh: Object = {
        "type": kind,
        "status": status,
        "lastTransitionTime": old["lastTransitionTime"] if old and stays else now_rfc3339(now),
    }
    if reason:
        fresh["reason"] = reason
    if message:
        fresh["message"] = message
    fresh.update(more or {})
    if old is None:
        return [*conditions, fresh]
    return [fresh if condition is old else condition for condition in conditions]


def without_condition(conditions: Sequence[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition.get("type") != kind]
