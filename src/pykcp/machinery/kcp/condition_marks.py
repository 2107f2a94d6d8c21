"""Setting the conditions of an object of kcp's: the same as `kcp_conditions`, in place.

The functions change the status of the object they are given; `now` is a timestamp as it is
written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery.conditions import FALSE, TRUE, conditions_of, find
from pykcp.machinery.kcp import conditions as kcp_conditions
from pykcp.machinery.kcp.conditions import ERROR
from pykcp.types import Object

_TRUE_KEYS = {"type", "status", "lastTransitionTime"}


def mark_true(obj: Object, kind: str, now: str) -> None:
    old = find(conditions_of(obj), kind)
    if old is not None and old.keys() == _TRUE_KEYS and old["status"] == TRUE:
        return  # the most frequent case by far
    _put(obj, kcp_conditions.with_true(conditions_of(obj), kind, now))


def mark_false(
    obj: Object, kind: str, reason: str, message: str, now: str, *, severity: str = ERROR
) -> None:
    before = conditions_of(obj)
    _put(obj, kcp_conditions.with_false(before, kind, now, reason, message, severity))


def drop(obj: Object, kind: str) -> None:
    """Forget a condition; where there was none, nothing changes."""
    before = conditions_of(obj)
    if find(before, kind) is not None:
        _put(obj, [c for c in before if c.get("type") != kind])


def is_false(obj: Object, kind: str) -> bool:
    """Whether it is there and False: a missing condition is not."""
    found = find(conditions_of(obj), kind)
    return found is not None and found.get("status") == FALSE


def summarise(obj: Object, kinds: Sequence[str], now: str) -> None:
    """Set `Ready` by the worst of these conditions; without any of them there is none."""
    _put(obj, kcp_conditions.with_summary(conditions_of(obj), kinds, now))


def _put(obj: Object, conditions: list[Object]) -> None:
    obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
