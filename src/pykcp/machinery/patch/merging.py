"""Merging a configuration into an object, and taking fields out of one."""

from __future__ import annotations

from typing import Any

from pykcp.machinery.patch.fieldset import Fields, below, is_member
from pykcp.machinery.patch.shapes import ABSENT, AnyShape, ListShape, MapShape, Shape
from pykcp.types import JSON, Object


def merge(shape: Shape, live: JSON, config: JSON) -> JSON:
    """The live value with all that a configuration says; it removes nothing.

    Either may be ABSENT. Items that both have stand as the configuration has them.
    """
    if config is ABSENT:
        return live
    if live is ABSENT:
        return config
    if isinstance(shape, AnyShape):
        if shape.of(live) is not shape.of(config):
            return config
        shape = shape.of(config)
    if isinstance(shape, MapShape) and not shape.is_atomic and (live or config):
        return _merge_maps(shape, live or {}, config or {})
    if isinstance(shape, ListShape) and not shape.is_atomic and (live or config):
        return _merge_lists(shape, live or [], config or [])
    return config


def _merge_maps(shape: MapShape, live: Object, config: Object) -> Object:
    out = dict(live)
    for name, item in config.items():
        member = shape.members[name]
        assert member is not None, "the configuration was checked"
        out[name] = merge(member, live.get(name, ABSENT), item)
    return out


class _Items:
    """The items of a list by name; several of one name stand for none of them."""

    def __init__(self, shape: ListShape, items: list[JSON]) -> None:
        self.names = [shape.element(item) for item in items]
        self.by_name: dict[str, JSON] = {}
        for name, item in zip(self.names, items, strict=True):
            self.by_name[name] = None if name in self.by_name else item


def _merge_lists(shape: ListShape, live: list[JSON], config: list[JSON]) -> list[JSON]:
    """All items of both: shared ones in the configuration's order, the others around them."""
    left, right = _Items(shape, live), _Items(shape, config)
    shared = [name for name in right.names if name in left.by_name]
    out: list[JSON] = []
    merged: set[str] = set()
    here = there = 0
    next_shared = 0

    def take(name: str) -> None:
        nonlocal there, next_shared
        merged.add(name)
        before = left.by_name.get(name, ABSENT)
        out.append(merge(shape.items, before, right.by_name[name]))
        there += 1
        if next_shared < len(shared) and shared[next_shared] == name:
            next_shared += 1

    while here < len(left.names) or there < len(right.names):
        if here < len(left.names) and there < len(right.names):
            name = left.names[here]
            if name == right.names[there]:
                take(name)
                here += 1
                continue
            if name in right.by_name and next_shared < len(shared) and shared[next_shared] != name:
                here += 1  # shared, but its turn has not come
                continue
        if here < len(left.names):
            name = left.names[here]
            if name not in right.by_name:
                out.append(live[here])
                here += 1
                continue
            if name in merged:
                here += 1
        if there < len(right.names):
            take(right.names[there])
    return out


def remove(shape: Shape, value: JSON, fields: Fields) -> JSON:
    """The value without the fields of a set; null if nothing is left of it."""
    if isinstance(shape, AnyShape):
        shape = shape.of(value)
    if isinstance(shape, MapShape):
        return _remove_from_map(shape, value, fields)
    if isinstance(shape, ListShape):
        return _remove_from_list(shape, value, fields)
    return value


def _remove_from_map(shape: MapShape, value: JSON, fields: Fields) -> Object | None:
    if not isinstance(value, dict) or not value or shape.is_atomic:
        return None
    out: Object = {}
    had_matches = False
    for name, item in value.items():
        node = fields.get("f:" + name)
        if node is not None:
            if is_member(node):
                continue
            had_matches = True
            item = _remove_inside(shape.members[name], item, node)
        out[name] = item
    return out if out or had_matches else None


def _remove_from_list(shape: ListShape, value: JSON, fields: Fields) -> list[JSON] | None:
    if not isinstance(value, list) or not value or shape.is_atomic:
        return None
    out: list[JSON] = []
    for item in value:
        node = fields.get(shape.element(item))
        if node is not None:
            if is_member(node):
                continue
            item = _remove_inside(shape.items, item, node)
        out.append(item)
    return out or None


def _remove_inside(shape: Shape | None, item: JSON, node: Fields) -> JSON:
    """An item without what a set has below it; a container stays one, if an empty one."""
    assert shape is not None, "the object was checked"
    rest: Any = remove(shape, item, below(node))
    if rest is None and isinstance(item, (dict, list)):
        return type(item)()
    return rest
