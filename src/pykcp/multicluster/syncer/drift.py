"""Whether an object of a cluster still has all that was applied. Pure.

Servers add defaults, and other controllers their own fields: those do not count. What the server
writes differently (quantities) is compared by value.
"""

from __future__ import annotations

from typing import Any

from pykcp.machinery.quantity import QuantityError, parse

_VOLATILE = frozenset(
    ("resourceVersion", "managedFields", "generation", "uid", "creationTimestamp")
)


def covers(live: Any, applied: Any) -> bool:
    """Whether `live` has every field of `applied` with its value."""
    if isinstance(applied, dict):
        return isinstance(live, dict) and all(
            _has(live, name, value) for name, value in applied.items()
        )
    if isinstance(applied, list):
        return isinstance(live, list) and _covers_list(live, applied)
    return live == applied or _is_same_quantity(live, applied)


def _has(live: dict[str, Any], name: str, value: Any) -> bool:
    found = live.get(name)
    if found is None:
        return value in (None, {}, [])  # servers drop what is empty
    return covers(found, value)


def _covers_list(live: list[Any], applied: list[Any]) -> bool:
    if len(live) == len(applied) and all(map(covers, live, applied)):
        return True
    # Other managers may have added elements to a list of objects, and orders may differ.
    return all(isinstance(one, dict) for one in applied) and all(
        any(covers(found, one) for found in live) for one in applied
    )


def _is_same_quantity(live: Any, applied: Any) -> bool:
    if not isinstance(live, str) or not isinstance(applied, str | int | float):
        return False
    if isinstance(applied, bool):
        return False
    try:
        return parse(live) == parse(applied)
    except QuantityError:
        return False


def without_volatile(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without what every write changes, and without its status: what drift is about."""
    kept = {name: value for name, value in obj.items() if name != "status"}
    metadata = kept.get("metadata") or {}
    kept["metadata"] = {k: v for k, v in metadata.items() if k not in _VOLATILE}
    return kept
