"""Numbers of applied configurations, which are read as YAML: 1.0 is a whole number there. Pure."""

from __future__ import annotations

from pykcp.types import JSON, Object

_TOO_LARGE = float(1 << 63)


def whole_numbers(obj: Object) -> Object:
    """The object with integers for floats without a fraction; itself if there are none."""
    return _members(obj)


def _members(obj: Object) -> Object:
    changes = {}
    for name, value in obj.items():
        new = _whole(value)
        if new is not value:
            changes[name] = new
    return {**obj, **changes} if changes else obj


def _whole(value: JSON) -> JSON:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _TOO_LARGE else value
    if isinstance(value, dict):
        return _members(value)
    if isinstance(value, list):
        items = [_whole(item) for item in value]
        changed = any(new is not old for new, old in zip(items, value, strict=True))
        return items if changed else value
    return value
