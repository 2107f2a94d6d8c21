"""Aggregated ClusterRoles: their rules are those of the roles their selectors choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from pykcp.machinery import labels
from pykcp.steps import Steps
from pykcp.types import Object

MAX_SIZE = 3 * 1024 * 1024
"""Octets of aggregated rules: no more than a request could bring."""


class TooManyRules(Exception):
    """The selected roles have more rules than one role can hold."""


def is_aggregated(cluster_role: Object) -> bool:
    return cluster_role.get("aggregationRule") is not None


def aggregated_rules(cluster_role: Object, all_cluster_roles: Iterable[Object]) -> Steps[list[Any]]:
    """The rules an aggregated role should have: by selector, then by name, each rule once.

    Raises TooManyRules.
    """
    own_name = _name(cluster_role)
    candidates = sorted((r for r in all_cluster_roles if _name(r) != own_name), key=_name)
    by_label = _by_label(candidates)
    rules: dict[bytes, Any] = {}
    size = 0
    taken: set[int] = set()
    for selector in (cluster_role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        chosen = yield from labels.from_label_selector_in_steps(selector)
        for number in _possible(chosen, by_label, range(len(candidates))):
            role = candidates[number]
            yield
            if number in taken or not chosen.matches(_labels(role)):
                continue
            taken.add(number)
            for rule in role.get("rules") or ():
                text = orjson.dumps(rule, option=orjson.OPT_SORT_KEYS)
                size += len(text) if text not in rules else 0
                if size > MAX_SIZE:
                    raise TooManyRules
                rules[text] = rule
                yield
    return list(rules.values())


_ByLabel = dict[tuple[str, str], list[int]]


def _by_label(roles: Sequence[Object]) -> _ByLabel:
    found: _ByLabel = {}
    for number, role in enumerate(roles):
        for label in _labels(role).items():
            found.setdefault(label, []).append(number)
    return found


def _possible(
    selector: labels.LabelSelector, by_label: _ByLabel, everything: Sequence[int]
) -> Sequence[int]:
    """The roles that have a label which the selector asks for, if it asks for one."""
    for requirement in selector.requirements:
        if requirement.operator == "=":
            return by_label.get((requirement.key, requirement.values[0]), ())
    return everything


def _name(role: Object) -> str:
    name: str = (role.get("metadata") or {}).get("name", "")
    return name


def _labels(role: Object) -> dict[str, str]:
    return (role.get("metadata") or {}).get("labels") or {}
