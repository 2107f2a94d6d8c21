"""Sets of fields, kept in the form in which they are stored and served.

A set is a tree of dicts keyed by path elements (`f:data`, `k:{"name":"a"}`, `v:"x"`), the
FieldsV1 of managedFields itself, so that nothing is converted on the way in or out:

    {"f:data": {".": {}, "f:a": {}}}        the fields .data and .data.a
    {"f:data": {"f:a": {}}}                 only .data.a

Read as a *set*, a dict holds elements, and `{}` is the empty set. Read as a *node*, below
an element, `{}` says that the element is a member and nothing below it is; a node with
children says that of itself with `"."`. No node is a lone `{".": {}}`, none has an empty
child, and elements stand in order: the functions here keep it so.

Trees are shared freely and never changed once another can see them; a function that has
nothing to change returns its argument itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from pykcp.machinery.patch.elements import in_order

Fields: TypeAlias = dict[str, Any]
"""A set, or a node of one."""

Path: TypeAlias = tuple[str, ...]
"""Path elements from the root down."""


def from_paths(paths: Iterable[Iterable[str]]) -> Fields:
    """The set of the given paths, each a sequence of field names: `[("metadata", "name")]`."""
    trees: list[Fields] = []
    for path in paths:
        tree: Fields = {}
        for name in reversed(list(path)):
            tree = {"f:" + name: tree}
        trees.append(tree)
    return union_all(trees)


def is_member(node: Fields) -> bool:
    """Whether the element above a node is itself in the set."""
    return not node or "." in node


def as_member(node: Fields) -> Fields:
    """The node with its own element in the set."""
    return node if is_member(node) else {".": {}, **node}


def below(node: Fields) -> Fields:
    """A node read as the set of what is below it."""
    if "." not in node:
        return node
    return {element: child for element, child in node.items() if element != "."}


def union(left: Fields, right: Fields) -> Fields:
    """What is in either."""
    if not left or left is right:
        return right
    if not right:
        return left
    out = dict(left)
    for element, node in right.items():
        mine = out.get(element)
        out[element] = node if mine is None else _union_node(mine, node)
    if len(out) > len(left):
        return {element: out[element] for element in in_order(out)}
    return out


def _union_node(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    if not left:
        return as_member(right)
    if not right:
        return as_member(left)
    return union(left, right)


def union_all(sets: Iterable[Fields]) -> Fields:
    """What is in any of many; each is gone through once."""
    given = [fields for fields in sets if fields]
    if len(given) < 2:
        return given[0] if given else {}
    nodes: dict[str, list[Fields]] = {}
    for fields in given:
        for element, node in fields.items():
            nodes.setdefault(element, []).append(node)
    return {element: _union_nodes(nodes[element]) for element in in_order(nodes)}


def _union_nodes(nodes: list[Fields]) -> Fields:
    both = union_all(nodes)
    return both if all(nodes) else as_member(both)


def difference(left: Fields, right: Fields) -> Fields:
    """What is in the first only. A field goes without what is below it; that stays."""
    if not left or not right:
        return left
    out: Fields = {}
    is_same = True
    for element, node in left.items():
        other = right.get(element)
        if other is not None:
            rest = _difference_node(node, other)
            is_same = is_same and rest is node
            if rest is None:
                continue
            node = rest
        out[element] = node
    return left if is_same else out


def _difference_node(left: Fields, right: Fields) -> Fields | None:
    if not left:
        return None if is_member(right) else left
    if not right:
        return below(left)
    rest = difference(left, right)
    if not rest:
        return None
    return {} if len(rest) == 1 and "." in rest else rest


def contains(whole: Fields, part: Fields) -> bool:
    """Whether every member of the second is one of the first."""
    for element, node in part.items():
        mine = whole.get(element)
        if mine is None:
            return False
        if node:
            if not contains(mine, node):
                return False
        elif mine and "." not in mine:
            return False
    return True


def recursive_difference(left: Fields, right: Fields) -> Fields:
    """What is in the first, less the fields of the second with all that is below them."""
    if not left or not right:
        return left
    out: Fields = {}
    is_same = True
    for element, node in left.items():
        other = right.get(element)
        if other is not None:
            if is_member(other):
                is_same = False
                continue
            if node:
                rest = recursive_difference(node, other)
                is_same = is_same and rest is node
                if not rest:
                    continue
                node = {} if len(rest) == 1 and "." in rest else rest
        out[element] = node
    return left if is_same else out


def intersection(left: Fields, right: Fields) -> Fields:
    """What is in both."""
    out: Fields = {}
    for element, node in left.items():
        other = right.get(element)
        if other is not None:
            both = _intersection_node(node, other)
            if both is not None:
                out[element] = both
    return out


def _intersection_node(left: Fields, right: Fields) -> Fields | None:
    if is_member(left) and is_member(right):
        both = intersection(below(left), below(right))
        return {".": {}, **both} if both else {}
    return intersection(left, right) or None


def leaves(fields: Fields) -> Fields:
    """The members that have none below them."""
    return {element: leaves(below(node)) for element, node in fields.items()}


def has(fields: Fields, path: Path) -> bool:
    """Whether the field at a path is a member."""
    node = fields
    for element in path:
        if element not in node:
            return False
        node = node[element]
    return bool(path) and is_member(node)


def paths(fields: Fields) -> Iterator[Path]:
    """Every member: at each level first the members, then what is below them."""
    waiting: list[tuple[Fields, Path]] = [(fields, ())]
    while waiting:
        node, prefix = waiting.pop()
        for element, child in node.items():
            if element != "." and is_member(child):
                yield (*prefix, element)
        waiting += ((c, (*prefix, e)) for e, c in reversed(node.items()) if c)


def count(fields: Fields) -> int:
    """How many members there are."""
    found = 0
    waiting = [fields]
    while waiting:
        node = waiting.pop()
        for element, child in node.items():
            found += element != "." and is_member(child)
            if child:
                waiting.append(child)
    return found
