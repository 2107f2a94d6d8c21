"""Sets of fields seen through a shape: what an object claims, and what old sets mean today."""

from __future__ import annotations

from pykcp.machinery.patch.elements import in_order
from pykcp.machinery.patch.fieldset import Fields, as_member, below
from pykcp.machinery.patch.shapes import (
    AnyShape,
    ListShape,
    MapShape,
    ScalarMapShape,
    ScalarShape,
    Shape,
)
from pykcp.machinery.patch.shaping import DEDUCED
from pykcp.types import JSON


def claimed(shape: Shape, value: JSON) -> Fields:
    """The set that an applied configuration claims: what it says, not what it passes through."""
    node = _claim(shape, value)
    return below(node) if node else {}


def _claim(shape: Shape, value: JSON) -> Fields | None:
    """The node of a value; None if it claims nothing."""
    if isinstance(shape, AnyShape):
        shape = shape.of(value)
    if isinstance(shape, MapShape):
        if shape.is_atomic:
            return {}
        return _claim_map(shape, value) if isinstance(value, dict) else None
    if isinstance(shape, ListShape):
        if shape.is_atomic:
            return {}
        return _claim_list(shape, value) if isinstance(value, list) else None
    return {}


def _claim_map(shape: MapShape, value: dict[str, JSON]) -> Fields | None:
    out: Fields = {}
    members, names = shape.members, shape.names
    for name in sorted(value):
        member = members[name]
        if type(member) is ScalarShape:
            out["f:" + name] = {}
            continue
        item = value[name]
        node = None if member is None else _claim(member, item)
        # A declared field is passed through; a key that someone chose is claimed itself.
        if name not in names or item is None or item == {}:
            node = as_member(node or {})
        if node is not None:
            out["f:" + name] = node
    return out or None


def _claim_list(shape: ListShape, value: list[JSON]) -> Fields | None:
    out: Fields = {}
    for item in value:
        element = shape.element(item)
        out[element] = {} if element in out else as_member(_claim(shape.items, item) or {})
    if len(out) > 1:
        return {element: out[element] for element in in_order(out)}
    return out or None


def named(shape: Shape | None, fields: Fields) -> Fields:
    """The set with every declared field on the way to a member made a member too."""
    if isinstance(shape, MapShape):
        return _named_in_map(shape, fields)
    if isinstance(shape, ListShape):
        items: Shape | None = shape.items
    elif isinstance(shape, AnyShape):
        return _named_in_map(shape.maps, fields)
    else:
        items = None
    return {
        element: named(items if element[0] == "k" else None, node) if node else node
        for element, node in fields.items()
    }


def _named_in_map(shape: MapShape, fields: Fields) -> Fields:
    out: Fields = {}
    members, names = shape.members, shape.names
    for element, node in fields.items():
        if node:
            if element[0] == "f":
                name = element[2:]
                node = named(members[name], node)
                if name in names and "." not in node:
                    node = {".": {}, **node}
            else:
                node = named(None, node)
        out[element] = node
    return out


def reconciled(shape: Shape, fields: Fields) -> Fields:
    """The set in terms of today's schema: what has become atomic is owned whole.

    What has become granular needs nothing: the field itself stays owned.
    """
    if isinstance(shape, AnyShape):
        shape = shape.maps
    if isinstance(shape, MapShape):
        if not shape.names and shape.others is DEDUCED:
            return fields
    elif not isinstance(shape, ListShape):
        return fields
    changes: Fields = {}
    for element, node in fields.items():
        if node:
            below_it = shape.members[element[2:]] if isinstance(shape, MapShape) else shape.items
            if below_it is None:
                continue
            new = _reconciled_node(below_it, node)
            if new is not node:
                changes[element] = new
    return {**fields, **changes} if changes else fields


def _reconciled_node(shape: Shape, node: Fields) -> Fields:
    if isinstance(shape, AnyShape):
        shape = shape.maps
    if isinstance(shape, (MapShape, ListShape)) and shape.is_atomic:
        return {}
    if type(shape) is ScalarMapShape:
        return node  # whatever is below is a scalar
    return reconciled(shape, node)
