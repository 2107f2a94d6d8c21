"""Lists in strategic merge: which items are the same, and in which order they stand.

Items of keyed lists are the same if their merge keys are, scalars if they are equal.
A merged list keeps the patch's order among the patch's items and the server's among the
server's, and weaves the two by where the server had them.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pykcp.machinery.patch import gotext
from pykcp.machinery.patch.gotext import go_type
from pykcp.machinery.patch.refusals import unexpected, unprocessable
from pykcp.machinery.status import StatusError
from pykcp.types import JSON, Object

DIRECTIVE: Final = "$patch"
SET_ORDER: Final = "$setElementOrder"


def check_order(given: list[Any], order: list[Any], merge_key: str) -> None:
    """The elements of a patch must stand in the order directive, in the same order."""
    if not order or not given:
        return
    wanted = _split_deletions(given)[0] if merge_key else given
    position = 0
    for name in order:
        while position < len(wanted) and _has_directive(wanted[position]):
            position += 1
        if position == len(wanted):
            return
        if _same_element(wanted[position], name, merge_key):
            position += 1
    if position < len(wanted):
        raise unexpected(
            f"The order in patch list:\n{gotext.show(given)}\n doesn't match "
            f"{SET_ORDER} list:\n{gotext.show(order)}\n"
        )


def _same_element(left: JSON, right: JSON, merge_key: str) -> bool:
    if not merge_key:
        return _same(left, right)
    for item in (left, right):
        if not isinstance(item, dict):
            raise bad_type({}, item)
    for item in (left, right):
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
    return _same(left[merge_key], right[merge_key])


def partition(merged: list[Any], named: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The elements that a list names, and those only the server has."""
    inside: list[Any] = []
    outside: list[Any] = []
    if not merge_key:
        names = {identity(item) for item in named}
        for item in merged:
            (inside if identity(item) in names else outside).append(item)
        return inside, outside
    bad = next((i for i, item in enumerate(named) if not isinstance(item, dict)), None)
    names = {identity(item[merge_key]) for item in named[:bad] if merge_key in item}
    for item in merged:
        if not isinstance(item, dict):
            raise bad_type({}, item)
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        if identity(item[merge_key]) in names:
            inside.append(item)
        elif bad is not None:
            raise unexpected(f"value for key {bad} is not a map")
        else:
            outside.append(item)
    return inside, outside


def in_element_order(
    given: list[Any],
    others: list[Any],
    given_order: list[Any],
    server_order: list[Any],
    merge_key: str,
    *,
    is_map: bool,
) -> list[Any]:
    """One list of both, each in its own order, woven by where the server had them."""
    key = merge_key if is_map else None
    on_server = _positions(server_order, key)
    given = _sorted_like(given, given_order, _positions(given_order, key), key)
    others = _sorted_like(others, server_order, on_server, key)
    mine = [_position(on_server, item, key) for item in others]
    theirs = [_position(on_server, item, key) for item in given]
    out: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(given):
        if 0 <= mine[left] < theirs[right]:
            out.append(others[left])
            left += 1
        else:
            out.append(given[right])
            right += 1
    return out + others[left:] + given[right:]


def _positions(order: list[Any], key: str | None) -> dict[Any, int]:
    """Where each element comes first."""
    out: dict[Any, int] = {}
    for index, item in enumerate(order):
        out.setdefault(_name(item, key), index)
    return out


def _name(item: JSON, key: str | None) -> Any:
    """The identity of an element: its merge key, or itself if there is none."""
    if key is None:
        return identity(item)
    return identity(item.get(key) if isinstance(item, dict) else None)


def _position(positions: dict[Any, int], item: JSON, key: str | None) -> int:
    return positions.get(_name(item, key), -1)


def _sorted_like(
    items: list[Any], order: list[Any], positions: dict[Any, int], key: str | None
) -> list[Any]:
    deletions: list[Any] = []
    if key is not None:
        for item in items + order:
            if not isinstance(item, dict):
                raise bad_type({}, item)
            if key not in item:
                raise no_merge_key(item, key)
        items, deletions = _split_deletions(items)
    # What upstream's insertion sort does, which takes an element that the order does not know
    # for less than any other: it goes before all that came earlier, unknown ones included, and
    # only what is less than all of those will come before it.
    ranks: list[tuple[float, int, int]] = []
    least = math.inf
    for index, item in enumerate(items):
        rank = _position(positions, item, key)
        if rank < 0:
            ranks.append((least, 0, -index))
        else:
            ranks.append((rank, 1, index))
            least = min(least, rank)
    return [items[abs(index)] for *_, index in sorted(ranks)] + deletions


def _split_deletions(items: list[Any]) -> tuple[list[Any], list[Any]]:
    kept: list[Any] = []
    deleted: list[Any] = []
    for item in items:
        if not isinstance(item, dict):
            raise bad_type({}, item)
        (deleted if item.get(DIRECTIVE) == "delete" else kept).append(item)
    return kept, deleted


def _has_directive(item: JSON) -> bool:
    return isinstance(item, dict) and DIRECTIVE in item


def deduplicated(items: list[Any]) -> list[Any]:
    """Each scalar once; the order is set later."""
    return list({identity(item): item for item in items}.values())


MAP: Final = "map[string]interface {}"
_LIST: Final = "[]interface {}"


def element_type(*lists: list[Any]) -> str:
    """The one type of all elements."""
    found = [go_type(item) for items in lists for item in items]
    if not found:
        raise unexpected("no elements in any of the given slices")
    if found[0] == _LIST:
        raise unprocessable("lists of lists are not supported")
    if found.count(found[0]) < len(found):
        shown = " ".join(gotext.show(items) for items in lists)
        raise unexpected(f"list element types are not identical: [{shown}]")
    return found[0]


def identity(value: JSON) -> tuple[type, JSON]:
    """A value as a member of a set: equal for equal values of one type."""
    kind = type(value)
    if kind is dict:
        return kind, frozenset((key, identity(item)) for key, item in value.items())
    return kind, tuple(map(identity, value)) if kind is list else value


def _same(left: JSON, right: JSON) -> bool:
    return type(left) is type(right) and bool(left == right)


def bad_type(expected: JSON, actual: JSON) -> StatusError:
    return unexpected(f"expected a {go_type(expected)}, but received a {go_type(actual)}")


def no_merge_key(item: Object, merge_key: str) -> StatusError:
    return unexpected(f"map: {gotext.show(item)} does not contain declared merge key: {merge_key}")
