"""The third step: how many clusters, and which, so that the rules of spreading hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykcp.multicluster.scheduling.model import ClusterView, SpreadRule

BY_CLUSTER = "cluster"
"""The topology key that counts clusters."""


@dataclass(frozen=True, slots=True)
class ClusterSelection:
    chosen: tuple[str, ...]
    """In the order of their ranking."""
    anchors: frozenset[str] = frozenset()
    """Clusters that need at least one replica, so that enough groups have one."""
    problem: str = ""
    """Why the rules cannot be kept."""


def select(
    ranked: Sequence[str], clusters: Mapping[str, ClusterView], rules: Sequence[SpreadRule]
) -> ClusterSelection:
    """The clusters to use, best first.

    Rules about labels come first: the best groups are taken, up to `maximum`. The rule about
    clusters then takes one cluster of each group in turn.
    """
    if not rules:
        return ClusterSelection(tuple(ranked))
    chosen, anchors = list(ranked), set[str]()
    grouped: list[list[str]] = [[name] for name in ranked]
    for rule in rules:
        if rule.topology_key == BY_CLUSTER:
            continue
        groups = _groups(chosen, clusters, rule.topology_key)
        if len(groups) < rule.minimum:
            return ClusterSelection((), problem=_too_few(rule, len(groups)))
        if rule.maximum:
            groups = groups[: rule.maximum]
        kept = {name for group in groups for name in group}
        chosen = [name for name in chosen if name in kept]
        anchors = {name for name in anchors if name in kept}
        anchors.update(group[0] for group in groups[: rule.minimum])
        grouped = groups
    for rule in rules:
        if rule.topology_key == BY_CLUSTER:
            if len(chosen) < rule.minimum:
                return ClusterSelection((), problem=_too_few(rule, len(chosen)))
            if rule.maximum and len(chosen) > rule.maximum:
                chosen = _in_turn(chosen, grouped, rule.maximum)
            anchors.update(chosen[: rule.minimum])
    kept = set(chosen)
    return ClusterSelection(tuple(chosen), frozenset(name for name in anchors if name in kept))


def _groups(
    ranked: Sequence[str], clusters: Mapping[str, ClusterView], key: str
) -> list[list[str]]:
    """Clusters by the value of a label, in the order of the best of each group."""
    groups: dict[str, list[str]] = {}
    for name in ranked:
        value = clusters[name].labels.get(key)
        if value is not None:
            groups.setdefault(value, []).append(name)
    return list(groups.values())


def _in_turn(ranked: Sequence[str], groups: Sequence[Sequence[str]], count: int) -> list[str]:
    """`count` clusters: the best of every group, then the second ones."""
    allowed, taken = set(ranked), list[str]()
    waiting = [[name for name in group if name in allowed] for group in groups]
    while len(taken) < count and any(waiting):
        for group in waiting:
            if group and len(taken) < count:
                taken.append(group.pop(0))
    order = {name: index for index, name in enumerate(ranked)}
    return sorted(taken, key=order.__getitem__)


def _too_few(rule: SpreadRule, found: int) -> str:
    what = "cluster(s)" if rule.topology_key == BY_CLUSTER else f"value(s) of {rule.topology_key}"
    return f"the placement needs at least {rule.minimum} {what} and {found} can be used"
