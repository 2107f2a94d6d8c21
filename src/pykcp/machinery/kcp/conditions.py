"""Conditions as kcp's kinds have them: sorted, with a severity while something is wrong.

`Ready` comes first, then the others by name. The time of the last transition moves with any
change, of the message too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykcp.machinery.conditions import FALSE, TRUE
from pykcp.types import Object

READY = "Ready"
ERROR, WARNING, INFO = "Error", "Warning", "Info"
_SEVERITIES = (ERROR, WARNING, INFO)
_STATE = ("type", "status", "reason", "severity", "message")


def condition(
    kind: str,
    status: str,
    now: str,
    *,
    reason: str = "",
    severity: str = "",
    message: str = "",
) -> Object:
    made: Object = {"type": kind, "status": status, "lastTransitionTime": now}
    for name, value in (("reason", reason), ("severity", severity), ("message", message)):
        if value:
            made[name] = value
    return made


def is_same(one: Object, other: Object) -> bool:
    """Whether two conditions say the same, whenever they began to."""
    return all((one.get(key) or "") == (other.get(key) or "") for key in _STATE)


def with_condition(conditions: Sequence[Object], fresh: Object) -> list[Object]:
    """The conditions with this one set, in order; one that says the same stays as it was."""
    kept = [old for old in conditions if old.get("type") != fresh["type"]]
    old = next((old for old in conditions if old.get("type") == fresh["type"]), None)
    kept.append(old if old is not None and is_same(old, fresh) else fresh)
    return ordered(kept)


def with_true(conditions: Sequence[Object], kind: str, now: str) -> list[Object]:
    return with_condition(conditions, condition(kind, TRUE, now))


def with_false(
    conditions: Sequence[Object],
    kind: str,
    now: str,
    reason: str,
    message: str = "",
    severity: str = ERROR,
) -> list[Object]:
    fresh = condition(kind, FALSE, now, reason=reason, severity=severity, message=message)
    return with_condition(conditions, fresh)


def ordered(conditions: Iterable[Object]) -> list[Object]:
    return sorted(conditions, key=lambda one: (one.get("type") != READY, one.get("type") or ""))


def with_summary(conditions: Sequence[Object], kinds: Sequence[str], now: str) -> list[Object]:
    """`Ready` says the worst of the given conditions; without any of them there is none."""
    found = [one for one in conditions if one.get("type") in kinds]
    if not found:
        return list(conditions)
    worst = _worst(found)
    if worst is None:
        return with_true(conditions, READY, now)
    summary = condition(
        READY,
        worst["status"],
        now,
        reason=worst.get("reason") or "",
        severity=worst.get("severity") or "",
        message=worst.get("message") or "",
    )
    return with_condition(conditions, summary)


def _worst(found: Sequence[Object]) -> Object | None:
    for severity in _SEVERITIES:
        for one in found:
            if one.get("status") == FALSE and one.get("severity") == severity:
                return one
    return next((one for one in found if one.get("status") != TRUE), None)
