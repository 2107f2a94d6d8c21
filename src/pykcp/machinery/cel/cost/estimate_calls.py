"""Estimates for calls: how much one costs, and how large its result may be."""

from __future__ import annotations

import math
from collections.abc import Callable

from pykcp.machinery.cel.cost.estimate import (
    NOTHING,
    ONE,
    UNLIMITED,
    Arg,
    CostEstimate,
    Estimate,
    Estimator,
    fixed,
)
from pykcp.machinery.cel.cost.estimate_core import CORE
from pykcp.machinery.cel.cost.runtime_cost import (
    AUTHORIZATION,
    LIST_CREATE,
    REGEX,
    STRUCT_CREATE,
    TRAVERSAL,
)
from pykcp.machinery.cel.front.ast import CallNode, Literal

_ADDRESS = Estimate(4, 16)
_MAX_FORMAT_SIZE, _MAX_NAME_REGEX = 64, 128
_UNIT_STRUCTS = frozenset(
    {"kubernetes.Quantity", "kubernetes.Semver"}
    | {f"kubernetes.authorization.{n}" for n in
       ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")}
)  # fmt: skip

Known = Callable[[Estimator, str, Arg | None, list[Arg]], CostEstimate | None]


def call_estimate(
    e: Estimator, node: CallNode, overload: str, target: Arg | None, args: list[Arg],
    costs: list[Estimate],
) -> CostEstimate:  # fmt: skip
    total = NOTHING
    for cost in costs:
        total = total.plus(cost)
    known = _list_function(e, overload, target, args)
    if known is None:
        function = _KUBERNETES.get(node.function)
        known = function(e, overload, target, args) if function is not None else None
    if known is not None:
        return CostEstimate(known.cost.plus(total), known.size)
    core = CORE.get(overload)
    if core is not None:
        found = core(e, node, overload, target, costs)
        if found is not None:
            keeps = overload in ("logical_or", "logical_and", "conditional")
            return CostEstimate(found.cost if keeps else found.cost.plus(total), found.size)
    return CostEstimate(ONE.plus(total))


# --- Kubernetes' libraries


def _unit(_e: Estimator, _o: str, _t: Arg | None, _a: list[Arg]) -> CostEstimate:
    return CostEstimate(ONE)


def _check(_e: Estimator, _o: str, _t: Arg | None, _a: list[Arg]) -> CostEstimate:
    return CostEstimate(fixed(AUTHORIZATION))


def _selector(e: Estimator, _o: str, _t: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if len(args) != 1:
        return None
    length = e.arg_size(args[0])
    requirements = length.by(0.5).by(float(LIST_CREATE + STRUCT_CREATE))
    return CostEstimate(fixed(LIST_CREATE).plus(length.by(TRAVERSAL)).plus(requirements))


def _element(target: Arg) -> Arg | None:
    if not target.type.params:
        return None
    path = (*target.path, "@items") if target.path is not None else None
    return Arg(None, target.type.params[0], path, None)


def _walk(e: Estimator, _o: str, target: Arg | None, _a: list[Arg]) -> CostEstimate | None:
    if target is None:
        return None
    size, element = e.arg_size(target), _element(target)
    if element is None:
        return CostEstimate(size.by(TRAVERSAL))
    cost = ONE
    if element.type.kind in ("string", "bytes"):
        cost = cost.plus(e.arg_size(element).by(TRAVERSAL))
    return CostEstimate(size.times(cost))


def _argument_traversal(factor: float, *, sized: bool = False) -> Known:
    def known(e: Estimator, _o: str, _t: Arg | None, args: list[Arg]) -> CostEstimate | None:
        if not args:
            return None
        size = e.arg_size(args[0])
        return CostEstimate(size.by(factor * TRAVERSAL), size if sized else None)

    return known


def _target_traversal(
    e: Estimator, _o: str, target: Arg | None, _a: list[Arg]
) -> CostEstimate | None:
    if target is None:
        return None
    size = e.arg_size(target)
    return CostEstimate(size.by(TRAVERSAL), size)


def _replace(e: Estimator, _o: str, target: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = e.arg_size(target), e.arg_size(args[0]), e.arg_size(args[1])
    most_count, most_kept = 0, 0
    if old.least == 0:
        most_count, most_kept = min(size.most + 1, UNLIMITED), size.most
    elif new.most <= old.least:
        most_kept = size.most
    else:
        most_count = math.ceil(float(size.most) / float(old.least))
    least_count, least_kept = 0, 0
    if old.most == 0:
        least_count, least_kept = min(size.least + 1, UNLIMITED), size.least
    elif old.most <= new.least:
        least_kept = size.least
    else:
        least_count = math.ceil(float(size.least) / float(old.most))
    result = Estimate(least_count, most_count).times(new).plus(Estimate(least_kept, most_kept))
    return CostEstimate(size.by(2 * TRAVERSAL), result)


def _split(e: Estimator, _o: str, target: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if target is None:
        return None
    size = e.arg_size(target)
    most = size.most
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value % 2**64
    return CostEstimate(size.by(2 * TRAVERSAL), Estimate(0, most))


def _join(e: Estimator, _o: str, target: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if target is None:
        return None
    count, element = e.arg_size(target), _element(target)
    size = count.times(e.arg_size(element)) if element is not None else NOTHING
    if args:
        gaps = Estimate(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(e.arg_size(args[0]).times(gaps))
    return CostEstimate(size.by(TRAVERSAL), size)


def _find(e: Estimator, _o: str, target: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if target is None or not args:
        return None
    size = e.arg_size(target)
    cost = size.plus(ONE).by(TRAVERSAL).times(e.arg_size(args[0]).by(REGEX))
    return CostEstimate(cost, Estimate(0, size.most))


def _ip(e: Estimator, overload: str, target: Arg | None, args: list[Arg]) -> CostEstimate | None:
    if overload == "cidr_ip":
        return CostEstimate(ONE)
    return _argument_traversal(1)(e, overload, target, args)


def _contains_ip(
    e: Estimator, overload: str, _t: Arg | None, args: list[Arg]
) -> CostEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).by(TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost = cost.plus(e.arg_size(args[0]).by(TRAVERSAL))
    return CostEstimate(cost)


def _contains_cidr(
    e: Estimator, overload: str, _t: Arg | None, args: list[Arg]
) -> CostEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).by(TRAVERSAL).plus(_ADDRESS.by(TRAVERSAL)).plus(ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.plus(e.arg_size(args[0]).by(TRAVERSAL))
    return CostEstimate(cost)


def _validate(e: Estimator, _o: str, _t: Arg | None, args: list[Arg]) -> CostEstimate | None:
    return CostEstimate(e.arg_size(args[0]).by(TRAVERSAL).by(_MAX_NAME_REGEX * REGEX))


def _equals(_e: Estimator, _o: str, _t: Arg | None, args: list[Arg]) -> CostEstimate | None:
    left, right = args
    if left.type != right.type:
        return None
    name = left.type.name
    if left.type.kind == "opaque" and name in ("net.IP", "net.CIDR"):
        return CostEstimate(ONE)
    if left.type.kind != "struct":
        return None
    if name in _UNIT_STRUCTS:
        return CostEstimate(ONE)
    if name == "kubernetes.NamedFormat":
        return CostEstimate(Estimate(1, _MAX_FORMAT_SIZE).by(TRAVERSAL))
    if name == "kubernetes.URL":
        most = right.size.most if right.size is not None else 1
        return CostEstimate(Estimate(1, most).by(TRAVERSAL))
    return None


def _named(names: str, known: Known) -> dict[str, Known]:
    return dict.fromkeys(names.split(), known)


_KUBERNETES: dict[str, Known] = {
    **_named("check", _check),
    **_named(
        "serviceAccount path group resource subresource namespace name allowed reason error "
        "errored masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast "
        "isLinkLocalUnicast isGlobalUnicast format.named sign asInteger isInteger "
        "asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch "
        "getScheme getHostname getHost getPort getEscapedPath getQuery",
        _unit,
    ),
    **_named("fieldSelector labelSelector", _selector),
    **_named("isSorted sum max min indexOf lastIndexOf", _walk),
    **_named("url", _argument_traversal(1, sized=True)),
    **_named("lowerAscii upperAscii substring trim", _target_traversal),
    **_named("replace", _replace),
    **_named("split", _split),
    **_named("join", _join),
    **_named("find findAll", _find),
    **_named("cidr isIP isCIDR quantity isQuantity semver isSemver", _argument_traversal(1)),
    **_named("ip", _ip),
    **_named("ip.isCanonical", _argument_traversal(2)),
    **_named("containsIP", _contains_ip),
    **_named("containsCIDR", _contains_cidr),
    **_named("validate", _validate),
    **_named("_==_", _equals),
}


# --- the list library


def _list_function(
    e: Estimator, overload: str, target: Arg | None, args: list[Arg]
) -> CostEstimate | None:
    match overload:
        case "list_slice" if target is not None:
            size = e.arg_size(target)
            start, end = _int(args[0], 0), _int(args[1], size.most)
            return _allocating(1, fixed((end - start) % 2**64))
        case "lists_range":
            return _allocating(1, fixed(_int(args[0], UNLIMITED)))
        case "list_reverse" if target is not None:
            return _allocating(1, e.arg_size(target))
        case "list_flatten" | "list_flatten_int" if target is not None:
            depth = _int(args[0], UNLIMITED) if args else 1
            return _allocating(float(depth), e.arg_size(target))
        case "list_distinct" if target is not None:
            size = e.arg_size(target)
            return _allocating(2.0, size.times(size))
        case "list_sets_contains_list" | "list_sets_intersects_list":
            return CostEstimate(e.arg_size(args[0]).times(e.arg_size(args[1])).plus(ONE))
        case "list_sets_equivalent_list":
            return CostEstimate(e.arg_size(args[0]).times(e.arg_size(args[1])).by(2).plus(ONE))
    if overload.endswith("_sort") and target is not None:
        return _sort(e, target, overload.removesuffix("_sort"))
    if overload.endswith("_sortByAssociatedKeys"):
        return _sort(e, args[0], overload.removesuffix("_sortByAssociatedKeys"))
    return None


def _sort(e: Estimator, values: Arg, kind: str) -> CostEstimate:
    size = e.arg_size(values)
    factor = 2.0 + (TRAVERSAL if kind in ("list_string", "list_bytes") else 0)
    return _allocating(factor, size.times(size))


def _allocating(factor: float, size: Estimate) -> CostEstimate:
    return CostEstimate(size.by(factor).plus(ONE).plus(fixed(LIST_CREATE)), size)


def _int(arg: Arg, default: int) -> int:
    if isinstance(arg.node, Literal) and type(arg.node.value) is int:
        return max(arg.node.value, 0)
    return default
