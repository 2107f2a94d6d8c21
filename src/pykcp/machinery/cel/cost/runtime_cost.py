"""Cost of an evaluation, counted while it runs.

The units and formulas are those that Kubernetes charges; a rule that stays below the
limit there stays below it here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.library.formats import Format
from pykcp.machinery.cel.library.net import CIDR, IP
from pykcp.machinery.cel.library.quantity import CelQuantity
from pykcp.machinery.cel.library.semver import Semver
from pykcp.machinery.cel.library.urls import CelURL
from pykcp.machinery.cel.runtime.operators import size
from pykcp.machinery.cel.runtime.values import Optional

CostOf = Callable[[tuple[Any, ...], Any], int]

TRAVERSAL = 0.1
"""Per character of a string that is read."""
REGEX = 0.25
"""Per character of a pattern."""
LIST_CREATE, MAP_CREATE, STRUCT_CREATE = 10, 30, 40
AUTHORIZATION = 350_000
_UNIT_EQUALITY = (CelQuantity, IP, CIDR, Format, CelURL, Semver)


def actual_size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return size(value)
    if isinstance(value, IP | CIDR):
        return value.size
    return 1


def _core_size(value: Any) -> int:
    if isinstance(value, Optional) and value.present:
        return _core_size(value.value)
    return actual_size(value)


def _ceil(value: float) -> int:
    return math.ceil(value)


def _traverse(value: Any, factor: float = 1.0) -> int:
    return _ceil(actual_size(value) * factor * TRAVERSAL)


def traversal(value: Any) -> int:
    """The cost of walking through a whole value."""
    if isinstance(value, str):
        return int(len(value.encode(errors="replace")) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(traversal(v) for v in value)
    if isinstance(value, dict):
        return sum(traversal(k) + traversal(v) for k, v in value.items())
    return 1


def _one(_args: tuple[Any, ...], _result: Any) -> int:
    return 1


def _first(factor: float = 1.0) -> CostOf:
    return lambda args, _: _traverse(args[0], factor)


def _regex(args: tuple[Any, ...], _result: Any) -> int:
    return _ceil((1.0 + actual_size(args[0])) * TRAVERSAL) * _ceil(actual_size(args[1]) * REGEX)


def _contains_ip(args: tuple[Any, ...], _result: Any) -> int:
    cost = _traverse(args[0], 2)
    return cost + (_traverse(args[1]) if isinstance(args[1], str) else 0)


def _contains_cidr(args: tuple[Any, ...], _result: Any) -> int:
    cost = _traverse(args[0], 2) + _traverse(args[0]) + 1
    return cost + (_traverse(args[1]) if isinstance(args[1], str) else 0)


def _validate(args: tuple[Any, ...], _result: Any) -> int:
    size_of_text = actual_size(args[1])
    return _ceil((1.0 + size_of_text) * TRAVERSAL) * _ceil(args[0].regex_size * REGEX)


def _selector(args: tuple[Any, ...], _result: Any) -> int:
    length = actual_size(args[1])
    requirements = _ceil(length * 0.5)
    return LIST_CREATE + _ceil(length * TRAVERSAL) + requirements * (LIST_CREATE + STRUCT_CREATE)


def _equality(args: tuple[Any, ...], _result: Any) -> int:
    if isinstance(args[0], _UNIT_EQUALITY):
        return 1
    return _smaller(args, _result)


def _smaller(args: tuple[Any, ...], _result: Any) -> int:
    return _ceil(min(_core_size(args[0]), _core_size(args[1])) * TRAVERSAL)


def _together(args: tuple[Any, ...], _result: Any) -> int:
    return _ceil((_core_size(args[0]) + _core_size(args[1])) * TRAVERSAL)


def _contains(args: tuple[Any, ...], _result: Any) -> int:
    return _traverse(args[0]) * _traverse(args[1])


def _allocating(factor: float, count: int) -> int:
    return int(count * factor) + 1 + LIST_CREATE


def _self_compare(index: int) -> CostOf:
    def cost(args: tuple[Any, ...], _result: Any) -> int:
        values = args[index]
        count = len(values)
        factor = 2.0
        if count and isinstance(values[0], str | bytes):
            factor += TRAVERSAL
        return _allocating(factor, count * count)

    return cost


def _sets(factor: int) -> CostOf:
    return lambda args, _: 1 + actual_size(args[0]) * actual_size(args[1]) * factor


def _output(_args: tuple[Any, ...], result: Any) -> int:
    return _allocating(1, len(result))


def _joined(_args: tuple[Any, ...], result: Any) -> int:
    return _traverse(result, 2)


BY_RESULT = frozenset((_output, _joined))
"""Costs that are known after the call only; these functions limit what they make."""


def _flatten(args: tuple[Any, ...], _result: Any) -> int:
    return _allocating(args[1] if len(args) > 1 else 1, len(args[0]))


def _named(names: str, cost: CostOf) -> dict[str, CostOf]:
    return dict.fromkeys(names.split(), cost)


_BY_OVERLOAD: dict[str, CostOf] = {
    "list_slice": _output,
    "lists_range": _output,
    "list_reverse": _output,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _self_compare(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: dict[str, CostOf] = {
    **_named("check", lambda _a, _r: AUTHORIZATION),
    **_named("fieldSelector labelSelector", _selector),
    **_named("isSorted sum max min indexOf lastIndexOf", lambda args, _: traversal(args[0])),
    **_named("url lowerAscii upperAscii substring trim", _first()),
    **_named("replace split", _first(2)),
    **_named("join", _joined),
    **_named("find findAll", _regex),
    **_named("cidr isIP isCIDR quantity isQuantity semver isSemver", _first()),
    **_named("ip.isCanonical", _first(2)),
    **_named("containsIP", _contains_ip),
    **_named("containsCIDR", _contains_cidr),
    **_named("validate", _validate),
    **_named("_==_", _equality),
}
_CORE: dict[str, CostOf] = {
    **_named("starts_with_string ends_with_string string_to_bytes bytes_to_string "
             "strings_quote string_format", _first()),
    **_named("in_list", lambda args, _: actual_size(args[1])),
    **_named("less_string greater_string less_equals_string greater_equals_string less_bytes "
             "greater_bytes less_equals_bytes greater_equals_bytes equals not_equals", _smaller),
    **_named("add_string add_bytes", _together),
    **_named("matches_string", _regex),
    **_named("contains_string", _contains),
}  # fmt: skip


def cost_of(function: str, overload: str) -> CostOf | int:
    """The cost of a call: a number, or a function of the arguments and the result."""
    if overload in _BY_OVERLOAD:
        return _BY_OVERLOAD[overload]
    if overload.endswith("_sort") and overload.startswith("list_"):
        return _self_compare(0)
    if overload.endswith("_sortByAssociatedKeys"):
        return _self_compare(1)
    if function == "ip":
        return 1 if overload == "cidr_ip" else _first()
    if function in _BY_FUNCTION:
        return _BY_FUNCTION[function]
    return _CORE.get(overload, 1)
