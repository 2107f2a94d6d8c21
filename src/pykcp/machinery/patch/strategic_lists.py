"""Lists in strategic merge: which items are the same, and in which order they stand.

Items of keyed lists are the same if their merge keys are, scalars if they are equal.
A merged list keeps the patch's order among the patch's items and the server's among the
server's, and weaves the two by where the server had them.
"""

from __future__ import annotations

from collections.abc import Callable
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


def has_key_value(item: Object, key: str, value: JSON) -> bool:
    return key in item and _same(item[key], value)


def partition(merged: list[Any], named: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """The elements that a list names, and those only the server has."""
    if not merge_key:
        names = {identity(item) for item in named}
        inside = [item for item in merged if identity(item) in names]
        return inside, [item for item in merged if identity(item) not in names]
    inside, outside = [], []
    for item in merged:
        if not isinstance(item, dict):
            raise bad_type({}, item)
        if merge_key not in item:
            raise no_merge_key(item, merge_key)
        for index, other in enumerate(named):
            if not isinstance(other, dict):
                raise unexpected(f"value for key {index} is not a map")
            if has_key_value(other, merge_key, item[merge_key]):
                inside.append(item)
                break
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

    def place(order: list[Any]) -> Callable[[Any], int]:
        return lambda item: _position(order, item, merge_key, is_map=is_map)

    given = _sorted_like(given, given_order, place(given_order), merge_key, is_map=is_map)
    others = _sorted_like(others, server_order, place(server_order), merge_key, is_map=is_map)
    on_server = place(server_order)
    out: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(given):
        here, there = on_server(others[left]), on_server(given[right])
        if 0 <= here < there:
            out.append(others[left])
            left += 1
        else:
            out.append(given[right])
            right += 1
    return out + others[left:] + given[right:]


def _position(order: list[Any], item: JSON, merge_key: str, *, is_map: bool) -> int:
    def name(value: JSON) -> JSON:
        if not is_map:
            return value
        return value.get(merge_key) if isinstance(value, dict) else None

    wanted = name(item)
    return next((i for i, other in enumerate(order) if _same(name(other), wanted)), -1)


def _sorted_like(
    items: list[Any],
    order: list[Any],
    position: Callable[[Any], int],
    merge_key: str,
    *,
    is_map: bool,
) -> list[Any]:
    deletions: list[Any] = []
    if is_map:
        for item in items + order:
            if not isinstance(item, dict):
                raise bad_type({}, item)
            if merge_key not in item:
                raise no_merge_key(item, merge_key)
        items, deletions = _split_deletions(items)
    # Insertion, as upstream sorts: an element that the order does not know goes before
    # all that came earlier, so that two unknown ones change places.
    out: list[tuple[int, Any]] = []
    for item in items:
        rank = position(item)
        at = len(out)
        while at and not (0 <= out[at - 1][0] <= rank):
            at -= 1
        out.insert(at, (rank, item))
    return [item for _, item in out] + deletions


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
    """Each scalar once; a repeated one gives its place to the last (the order is set later)."""
    out = list(items)
    first = 0
    while first < len(out) - 1:
        other = first + 1
        while other < len(out):
            if _same(out[first], out[other]):
                last = out.pop()
                if other < len(out):
                    out[other] = last
            else:
                other += 1
        first += 1
    return out


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
    """A value as a member of a set."""
    return type(value), repr(value) if isinstance(value, (dict, list)) else value


def _same(left: JSON, right: JSON) -> bool:
    return type(left) is type(right) and bool(left == right)


def bad_type(expected: JSON, actual: JSON) -> StatusError:
    return unexpected(f"expected a {go_type(expected)}, but received a {go_type(actual)}")


def no_merge_key(item: Object, merge_key: str) -> StatusError:
    return unexpected(f"map: {gotext.show(item)} does not contain declared merge key: {merge_key}")
