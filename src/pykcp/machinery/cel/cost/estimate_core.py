"""Estimates for CEL's own operators and functions."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.machinery.cel.cost.estimate import (
    ONE,
    UNLIMITED,
    Arg,
    CostEstimate,
    Estimate,
    Estimator,
    scale,
)
from pykcp.machinery.cel.cost.runtime_cost import REGEX, TRAVERSAL
from pykcp.machinery.cel.front.ast import CallNode

Core = Callable[[Estimator, CallNode, str, Arg | None, list[Estimate]], CostEstimate | None]


def _core_format(
    e: Estimator, _n: CallNode, _o: str, target: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    if target is None:
        return None
    size = target.size or Estimate(0, UNLIMITED)
    return CostEstimate(size.by(TRAVERSAL))


def _core_convert(shrink: bool) -> Core:
    def core(
        e: Estimator, node: CallNode, _o: str, _t: Arg | None, _c: list[Estimate]
    ) -> CostEstimate | None:
        size = e.size_or_unknown(node.args[0])
        result = (
            Estimate(size.least // 4, size.most)
            if shrink
            else Estimate(size.least, size.most * 4 % 2**64)
        )
        return CostEstimate(size.by(TRAVERSAL), result)

    return core


def _core_quote(
    e: Estimator, node: CallNode, _o: str, _t: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    size = e.size_or_unknown(node.args[0])
    return CostEstimate(size.by(TRAVERSAL), Estimate(size.least + 2, (size.most * 2 + 2) % 2**64))


def _core_affix(
    e: Estimator, node: CallNode, _o: str, _t: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    return CostEstimate(e.size_or_unknown(node.args[0]).by(TRAVERSAL))


def _core_in(
    e: Estimator, node: CallNode, _o: str, _t: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    return CostEstimate(e.size_or_unknown(node.args[1]).by(1))


def _core_matches(
    e: Estimator, node: CallNode, _o: str, target: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    if target is None:
        return None
    text = (target.size or Estimate(0, UNLIMITED)).plus(ONE).by(TRAVERSAL)
    return CostEstimate(text.times(e.size_or_unknown(node.args[0]).by(REGEX)))


def _core_contains(
    e: Estimator, node: CallNode, _o: str, target: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    if target is None:
        return None
    text = (target.size or Estimate(0, UNLIMITED)).by(TRAVERSAL)
    return CostEstimate(text.times(e.size_or_unknown(node.args[0]).by(TRAVERSAL)))


def _core_logical(
    _e: Estimator, _n: CallNode, _o: str, _t: Arg | None, costs: list[Estimate]
) -> CostEstimate | None:
    return CostEstimate(Estimate(costs[0].least, costs[0].plus(costs[1]).most))


def _core_conditional(
    e: Estimator, node: CallNode, _o: str, _t: Arg | None, costs: list[Estimate]
) -> CostEstimate | None:
    then, other = node.args[1], node.args[2]
    size = e.size_or_unknown(then).union(e.size_or_unknown(other))
    entries = e.entries_of(then)
    joined = entries.union(e.entries_of(other)) if entries is not None else None
    if joined is not None:
        e.entries[id(node)] = joined
    return CostEstimate(costs[0].plus(costs[1].union(costs[2])), size)


def _core_add(
    e: Estimator, node: CallNode, overload: str, _t: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    left, right = node.args
    size = e.size_or_unknown(left).plus(e.size_or_unknown(right))
    entries = e.entries_of(left)
    joined = entries.union(e.entries_of(right)) if entries is not None else None
    if joined is not None:
        e.entries[id(node)] = joined
    return CostEstimate(ONE if overload == "add_list" else size.by(TRAVERSAL), size)


def _core_compare(
    e: Estimator, node: CallNode, _o: str, _t: Arg | None, _c: list[Estimate]
) -> CostEstimate | None:
    most = min(e.size_or_unknown(a).most for a in node.args)
    return CostEstimate(Estimate(1 if most > 0 else 0, scale(most, TRAVERSAL)))


CORE: dict[str, Core] = {
    "string_format": _core_format,
    "string_to_bytes": _core_convert(shrink=False),
    "bytes_to_string": _core_convert(shrink=True),
    "strings_quote": _core_quote,
    "starts_with_string": _core_affix,
    "ends_with_string": _core_affix,
    "in_list": _core_in,
    "matches_string": _core_matches,
    "contains_string": _core_contains,
    "logical_or": _core_logical,
    "logical_and": _core_logical,
    "conditional": _core_conditional,
    "add_string": _core_add,
    "add_bytes": _core_add,
    "add_list": _core_add,
    **dict.fromkeys(
        [
            "less_string",
            "greater_string",
            "less_equals_string",
            "greater_equals_string",
            "less_bytes",
            "greater_bytes",
            "less_equals_bytes",
            "greater_equals_bytes",
            "equals",
            "not_equals",
        ],
        _core_compare,
    ),
}
