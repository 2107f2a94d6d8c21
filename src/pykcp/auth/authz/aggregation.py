"""Aggregated ClusterRoles: their rules are those of the roles their selectors choose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykcp.machinery import labels
from pykcp.types import Object


def is_aggregated(cluster_role: Object) -> bool:
    return cluster_role.get("aggregationRule") is not None


def aggregated_rules(cluster_role: Object, all_cluster_roles: Iterable[Object]) -> list[Any]:
    """The rules an aggregated role should have: by selector, then by name, each rule once."""
    candidates = sorted(all_cluster_roles, key=_name)
    own_name = _name(cluster_role)
    rules: list[Any] = []
    for selector in (cluster_role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        chosen = labels.from_label_selector(selector)
        for role in candidates:
            if _name(role) == own_name or not chosen.matches(_labels(role)):
                continue
            for rule in role.get("rules") or ():
                if rule not in rules:
                    rules.append(rule)
    return rules


def _name(role: Object) -> str:
    name: str = (role.get("metadata") or {}).get("name", "")
    return name


def _labels(role: Object) -> dict[str, str]:
    return (role.get("metadata") or {}).get("labels") or {}
