"""Constraints on single values: each function combines one keyword of two schema nodes.

A keyword that is absent constrains nothing. What comes out is never weaker than either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pykcp.machinery.negotiation.findings import Findings, text_of
from pykcp.types import JSON, Object

_CHANGED = "value has been changed in an incompatible way"
_INTEGER_FORMATS = ("int32", "int64")
_NUMBER_FORMATS = ("float", "double")


def meet_enum(left: Object, right: Object, out: Object, at: Findings) -> None:
    mine, other = left.get("enum"), right.get("enum")
    if mine is None and other is None:
        return
    if mine is None or other is None:
        common: list[JSON] = list(mine or other or ())
    else:
        texts = {text_of(value) for value in other}
        common = [value for value in mine if text_of(value) in texts]
    common.sort(key=text_of)
    place = at.at("enum")
    if not common:
        place.conflict("enum value has been changed in an incompatible way: no value is in both")
        return
    out["enum"] = common
    if mine is None or len(common) < len({text_of(value) for value in mine}):
        place.narrowed("enum values have been removed")


def meet_format(left: Object, right: Object, out: Object, at: Findings) -> None:
    mine, other = left.get("format") or "", right.get("format") or ""
    chosen = _narrower_format(mine, other)
    if chosen is None:
        at.at("format").conflict(f'format {_CHANGED} (was "{mine}", now "{other}")')
    elif chosen:
        out["format"] = chosen
        if chosen != mine:
            at.at("format").narrowed(f'format "{chosen}" has been added')


def _narrower_format(mine: str, other: str) -> str | None:
    if mine == other or not other:
        return mine
    if not mine:
        return other
    for order in (_INTEGER_FORMATS, _NUMBER_FORMATS):
        if mine in order and other in order:
            return order[0]
    return None


def meet_pattern(left: Object, right: Object, out: Object, at: Findings) -> None:
    mine, other = left.get("pattern") or "", right.get("pattern") or ""
    if mine and other and mine != other:
        at.at("pattern").conflict(f'pattern {_CHANGED} (was "{mine}", now "{other}")')
    elif mine or other:
        out["pattern"] = mine or other
        if not mine:
            at.at("pattern").narrowed("pattern has been added")


def meet_counts(left: Object, right: Object, out: Object, at: Findings, what: str) -> None:
    """`minLength` and `maxLength` and their like: the tighter of both."""
    low = _tighter(left, right, out, at, f"min{what}", max)
    high = _tighter(left, right, out, at, f"max{what}", min)
    if low is not None and high is not None and low > high:
        at.at(f"min{what}").conflict(f"min{what} {low} is above max{what} {high}")


def _tighter(
    left: Object,
    right: Object,
    out: Object,
    at: Findings,
    name: str,
    choose: Callable[[Any, Any], Any],
) -> Any:
    mine, other = left.get(name), right.get(name)
    if mine is None and other is None:
        return None
    chosen = other if mine is None else mine if other is None else choose(mine, other)
    out[name] = chosen
    if chosen != mine:
        at.at(name).narrowed(f"{name} {chosen} has been added")
    return chosen


def meet_bounds(left: Object, right: Object, out: Object, at: Findings) -> None:
    low = _bound(left, right, out, at, "minimum", "exclusiveMinimum", is_lower=True)
    high = _bound(left, right, out, at, "maximum", "exclusiveMaximum", is_lower=False)
    if low is None or high is None:
        return
    if low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1])):
        at.at("minimum").conflict("no number is within minimum and maximum of both")


def _bound(
    left: Object,
    right: Object,
    out: Object,
    at: Findings,
    name: str,
    exclusive: str,
    *,
    is_lower: bool,
) -> tuple[float, bool] | None:
    sides = [
        (side[name], bool(side.get(exclusive)))
        for side in (left, right)
        if side.get(name) is not None
    ]
    if not sides:
        return None
    sign = 1 if is_lower else -1
    chosen = max(sides, key=lambda bound: (sign * bound[0], bound[1]))
    out[name] = chosen[0]
    if chosen[1]:
        out[exclusive] = True
    if chosen != (left.get(name), bool(left.get(exclusive))):
        at.at(name).narrowed(f"{name} {chosen[0]} has been added")
    return chosen


def meet_multiple(left: Object, right: Object, out: Object, at: Findings) -> None:
    mine, other = left.get("multipleOf"), right.get("multipleOf")
    if mine is None and other is None:
        return
    if mine is None or other is None:
        chosen = other if mine is None else mine
    elif mine == other:
        chosen = mine
    elif _is_whole(mine) and _is_whole(other):
        chosen = math.lcm(int(mine), int(other))
    else:
        at.at("multipleOf").conflict(f"multipleOf {_CHANGED} (was {mine}, now {other})")
        return
    out["multipleOf"] = chosen
    if chosen != mine:
        at.at("multipleOf").narrowed(f"multipleOf {chosen} has been added")


def _is_whole(value: float) -> bool:
    return value == int(value) and value > 0


def meet_default(left: Object, right: Object, out: Object, at: Findings) -> None:
    given = [side["default"] for side in (left, right) if "default" in side]
    if not given:
        return
    # The same whatever the order of clusters, so that their registration cannot change it.
    out["default"] = min(given, key=text_of)
    if len(given) == 1 or text_of(given[0]) != text_of(given[1]):
        at.at("default").warn(f"the default is {text_of(out['default'])} in one of both only")


def meet_texts(left: Object, right: Object, out: Object) -> None:
    """Words for people; they constrain nothing."""
    for name in ("description", "title"):
        given = [side[name] for side in (left, right) if side.get(name)]
        if given:
            out[name] = min(given)
