"""Placements as policies, and the policy of objects that no Placement selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pykcp.caching import BoundedCache
from pykcp.machinery import labels, meta
from pykcp.machinery.labels import LabelSelector, SelectorError
from pykcp.multicluster.scheduling.model import (
    EVEN,
    EVERYTHING,
    GRACEFULLY,
    Policy,
    SpreadRule,
    TaintToleration,
    WeightedTerm,
)
from pykcp.types import Object

_Selectors: TypeAlias = list[tuple[Mapping[str, Any], LabelSelector | None]]

_known_selectors: BoundedCache[tuple[str, str], _Selectors] = BoundedCache(
    "placement-selectors", 256
)
_known_policies: BoundedCache[tuple[str, str, str], Policy] = BoundedCache("placements", 256)
"""Compiled once for all workloads of a Placement, of which there may be thousands."""


def matching(placements: Sequence[Object], obj: Object) -> Object | None:
    """The Placement of an object: the most specific one (by name, by label, by kind, any), then the
    first by name.
    """
    found = [(-_precision(one, obj), meta.name(one), one) for one in placements]
    found = [one for one in found if one[0] <= 0]
    return min(found, key=lambda one: one[:2])[2] if found else None


def is_named(placement: Object, obj: Object) -> bool:
    """Whether a Placement selects an object by its kind or its name, and not just everything, or
    everything with a label.
    """
    return any(
        (selector.get("kind") or selector.get("name")) and _selects(selector, parsed, obj) > 0
        for selector, parsed in _selectors(placement)
    )


def _precision(placement: Object, obj: Object) -> int:
    """-1: the placement does not select the object."""
    selectors = _selectors(placement)
    if not selectors:
        return 0
    return max(_selects(selector, parsed, obj) for selector, parsed in selectors)


def _selectors(placement: Object) -> _Selectors:
    """The selectors of workloads, each with its labels; None where these are wrong."""
    key = _version(placement)
    known = _known_selectors.get(key)
    if known is not None:
        return known
    found: _Selectors = []
    for selector in (placement.get("spec") or {}).get("resourceSelectors") or ():
        problems: list[str] = []
        parsed = label_selector(selector, problems)
        found.append((selector, None if problems else parsed))
    return _known_selectors.put(key, found) if key[0] else found


def _version(placement: Object) -> tuple[str, str]:
    """Equal for equal content; without a UID of an object that is not stored."""
    metadata = placement["metadata"]
    return metadata.get("uid") or "", metadata.get("resourceVersion") or ""


def _selects(selector: Mapping[str, Any], parsed: LabelSelector | None, obj: Object) -> int:
    precision = 0
    for field, weight in (("apiVersion", 1), ("kind", 1)):
        wanted = selector.get(field)
        if wanted and wanted != obj.get(field):
            return -1
        precision += weight if wanted else 0
    if selector.get("labelSelector"):
        if parsed is None or not parsed.matches(meta.labels(obj)):
            return -1
        precision += 4
    if selector.get("name"):
        if selector["name"] != meta.name(obj):
            return -1
        precision += 8
    return precision


def policy_of(placement: Object | None, strategy: str) -> Policy:
    """`strategy`: the usual one of the kind."""
    if placement is None:
        return Policy(strategy=strategy)
    key = (*_version(placement), strategy)
    known = _known_policies.get(key)
    if known is None:
        known = _made_policy(placement, strategy)
        if key[0]:
            _known_policies.put(key, known)
    return known


def _made_policy(placement: Object, strategy: str) -> Policy:
    spec: Object = placement.get("spec") or {}
    problems: list[str] = []
    affinity: Object = spec.get("clusterAffinity") or {}
    division: Object = spec.get("division") or {}
    failover: Object = spec.get("failover") or {}
    rebalance: Object = spec.get("rebalance") or {}
    required: Object | None = affinity.get("required")
    grace = failover.get("graceSeconds")
    return Policy(
        placement=meta.name(placement),
        strategy=spec.get("strategy") or strategy,
        required=(_term(required, 1, problems),) if required else (),
        preferred=_terms(affinity.get("preferred"), problems),
        tolerations=tuple(_toleration(one) for one in spec.get("clusterTolerations") or ()),
        spread=tuple(_spread(one) for one in spec.get("spread") or ()),
        preference=division.get("preference") or EVEN,
        weights=_terms(division.get("weights"), problems),
        minimum=division.get("min") or 0,
        maximum=division.get("max") or 0,
        purge_mode=failover.get("purgeMode") or GRACEFULLY,
        toleration=None if grace is None else float(grace),
        rebalances=rebalance.get("enabled", True),
        moves_per_minute=rebalance.get("maxMovesPerMinute") or 0,
        problems=tuple(problems),
    )


def _terms(given: Sequence[Object] | None, problems: list[str]) -> tuple[WeightedTerm, ...]:
    return tuple(_term(one.get("selector") or {}, one["weight"], problems) for one in given or ())


def _term(selector: Object, weight: int, problems: list[str]) -> WeightedTerm:
    return WeightedTerm(
        label_selector(selector, problems),
        frozenset(selector.get("clusterNames") or ()),
        weight,
        frozenset(selector.get("exclude") or ()),
    )


def label_selector(selector: Object, problems: list[str]) -> LabelSelector:
    """The labels that a selector of clusters asks for; mistakes are added to the problems."""
    try:
        found = selector.get("labelSelector")
        return labels.from_label_selector(found) if found else EVERYTHING
    except SelectorError as error:
        problems.append(str(error))
        return EVERYTHING


def _toleration(given: Object) -> TaintToleration:
    seconds = given.get("tolerationSeconds")
    return TaintToleration(
        given.get("key") or "",
        given.get("operator") or "Equal",
        given.get("value") or "",
        given.get("effect") or "",
        None if seconds is None else float(seconds),
    )


def _spread(given: Object) -> SpreadRule:
    minimum = given.get("min")
    return SpreadRule(
        given["topologyKey"], 1 if minimum is None else minimum, given.get("max") or 0
    )
