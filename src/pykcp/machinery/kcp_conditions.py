"""Conditions as kcp keeps them in the status of its own kinds.

A false condition has a severity. They are sorted by type with `Ready` in front, and the time
says when anything about one last changed, its message included. Functions change the object
they are given; `now` is a timestamp as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery.conditions import FALSE, TRUE, conditions_of, find
from pykcp.types import Object

ERROR, WARNING, INFO = "Error", "Warning", "Info"
READY = "Ready"

_STATE = ("status", "reason", "severity", "message")


def mark_true(obj: Object, kind: str, now: str) -> None:
    _set(obj, {"type": kind, "status": TRUE}, now)


def mark_false(
    obj: Object, kind: str, reason: str, message: str, now: str, *, severity: str = ERROR
) -> None:
    fresh: Object = {"type": kind, "status": FALSE, "severity": severity}
    if reason:
        fresh["reason"] = reason
    if message:
        fresh["message"] = message
    _set(obj, fresh, now)


def drop(obj: Object, kind: str) -> None:
    """Forget a condition; where there was none, nothing changes."""
    if find(conditions_of(obj), kind) is not None:
        obj["status"]["conditions"] = [c for c in conditions_of(obj) if c.get("type") != kind]


def is_false(obj: Object, kind: str) -> bool:
    """Whether it is there and False: a missing condition is not."""
    found = find(conditions_of(obj), kind)
    return found is not None and found.get("status") == FALSE


def summarise(obj: Object, kinds: Sequence[str] | None, now: str) -> None:
    """Set `Ready` by the worst of these conditions (None: of all); no such, no `Ready`."""
    in_scope = [
        c
        for c in conditions_of(obj)
        if (c["type"] != READY if kinds is None else c["type"] in kinds)
    ]
    if not in_scope:
        return
    top = min(map(_priority, in_scope))
    worst = [c for c in in_scope if _priority(c) == top]
    shown = next((c for kind in kinds or () for c in worst if c["type"] == kind), worst[0])
    if shown["status"] == TRUE:
        mark_true(obj, READY, now)
        return
    _set(obj, {**{k: v for k, v in shown.items() if k in _STATE}, "type": READY}, now)


def _set(obj: Object, fresh: Object, now: str) -> None:
    status = obj["status"] = dict(obj.get("status") or {})
    before = conditions_of(obj)
    old = find(before, fresh["type"])
    if old is not None and _is_same(old, fresh):
        return
    others = [c for c in before if c is not old]
    status["conditions"] = sorted([*others, {"lastTransitionTime": now, **fresh}], key=_order)


def _is_same(old: Object, new: Object) -> bool:
    return all((old.get(field) or "") == (new.get(field) or "") for field in _STATE)


def _order(condition: Object) -> tuple[bool, str]:
    return condition["type"] != READY, condition["type"]


_SEVERITIES = {ERROR: 0, WARNING: 1, INFO: 2}


def _priority(condition: Object) -> int:
    match condition["status"]:
        case "False":
            return _SEVERITIES.get(condition.get("severity", ""), 99)
        case "True":
            return 3
        case _:
            return 4
