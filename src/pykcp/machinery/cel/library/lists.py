"""Lists, sets and optionals."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.arithmetic import add, greater, less
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.operators import equal, size
from pykcp.machinery.cel.runtime.values import (
    NONE,
    CostExceeded,
    Duration,
    EvalError,
    Optional,
    Timestamp,
    UInt,
)

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SORTED_KINDS = (
    "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp",
    "string", "bytes",
)  # fmt: skip
MAX_RANGE = 1_000_000
"""Every element costs a unit: a longer range is over the limit of any evaluation."""


def is_sorted(values: list[Any]) -> bool:
    spend(len(values))
    return not any(greater(a, b) for a, b in itertools.pairwise(values))


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def total(values: list[Any]) -> Any:
        spend(len(values))
        return functools.reduce(add, values, zero)

    return total


def maximum(values: list[Any]) -> Any:
    if not values:
        raise EvalError("max called on empty list")
    spend(len(values))
    return functools.reduce(lambda best, v: v if less(best, v) else best, values)


def minimum(values: list[Any]) -> Any:
    if not values:
        raise EvalError("min called on empty list")
    spend(len(values))
    return functools.reduce(lambda best, v: v if greater(best, v) else best, values)


def index_of(values: list[Any], item: Any) -> int:
    spend(len(values))
    return next((i for i, v in enumerate(values) if equal(v, item)), -1)


def last_index_of(values: list[Any], item: Any) -> int:
    spend(len(values))
    for i in range(len(values) - 1, -1, -1):
        if equal(values[i], item):
            return i
    return -1


def slice_list(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def flatten(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvalError("level must be non-negative")
    spend(len(values) // 4 + 1)
    out: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth > 0:
            out.extend(flatten(value, depth - 1))
        else:
            out.append(value)
    return out


def sort(values: list[Any]) -> list[Any]:
    return sort_by(values, values)


def sort_by(values: list[Any], keys: list[Any]) -> list[Any]:
    if not values:
        return values
    kind = kind_of(keys[0])
    if any(kind_of(k) != kind for k in keys):
        raise EvalError("list elements must have the same type")
    if kind not in _SORTED_KINDS:
        raise EvalError("list elements must be comparable")
    order = sorted(range(len(values)), key=lambda i: keys[i])
    return [values[i] for i in order]


def lists_range(count: int) -> list[int]:
    if count > MAX_RANGE:
        raise CostExceeded
    return list(range(count))


def distinct(values: list[Any]) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if not any(equal(value, seen) for seen in out):
            out.append(value)
    return out


# --- sets


def sets_contains(values: list[Any], part: list[Any]) -> bool:
    return all(any(equal(v, p) for v in values) for p in part)


def sets_intersects(a: list[Any], b: list[Any]) -> bool:
    return any(equal(x, y) for x in a for y in b)


def sets_equivalent(a: list[Any], b: list[Any]) -> bool:
    return sets_contains(a, b) and sets_contains(b, a)


# --- optionals


def is_zero(value: Any) -> bool:
    """Whether a value is the zero of its type; values of Kubernetes' types never are."""
    if value is None or value is False:
        return True
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == -62135596800 * 10**9
    if isinstance(value, Optional):
        return not value.present
    if isinstance(value, int | float):
        return value == 0
    if isinstance(value, str | bytes | list | dict):
        return size(value) == 0
    return False


def unwrap(values: list[Any]) -> list[Any]:
    return [v.value for v in values if v.present]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"list_{k}_is_sorted_bool": is_sorted for k in _COMPARABLE},
    **{f"list_{k}_max_{k}": maximum for k in _COMPARABLE},
    **{f"list_{k}_min_{k}": minimum for k in _COMPARABLE},
    "list_int_sum_int": _sum(0),
    "list_uint_sum_uint": _sum(UInt(0)),
    "list_double_sum_double": _sum(0.0),
    "list_duration_sum_duration": _sum(Duration(0)),
    "list_a_index_of_int": index_of,
    "list_a_last_index_of_int": last_index_of,
    "list_slice": slice_list,
    "list_flatten": flatten,
    "list_flatten_int": flatten,
    **{f"list_{k}_sort": sort for k in _SORTED_KINDS},
    **{f"list_{k}_sortByAssociatedKeys": sort_by for k in _SORTED_KINDS},
    "lists_range": lists_range,
    "list_reverse": lambda values: list(reversed(values)),
    "list_distinct": distinct,
    "list_sets_contains_list": sets_contains,
    "list_sets_equivalent_list": sets_equivalent,
    "list_sets_intersects_list": sets_intersects,
    "optional_of": Optional,
    "optional_none": lambda: NONE,
    "optional_ofNonZeroValue": lambda value: NONE if is_zero(value) else Optional(value),
    "optional_value": Optional.get,
    "optional_hasValue": lambda value: value.present,
    "optional_unwrap": unwrap,
    "optional_unwrapOpt": unwrap,
    "list_first": lambda values: Optional(values[0]) if values else NONE,
    "list_last": lambda values: Optional(values[-1]) if values else NONE,
}
