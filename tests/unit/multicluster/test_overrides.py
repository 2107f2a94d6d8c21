"""Overrides of Placements: what they make of a leaf, and what they may cost."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pykcp.multicluster.interpreter.kinds import rules_of
from pykcp.multicluster.scheduling.model import ClusterView
from pykcp.multicluster.splitting.overrides import BadOverride, overridden
from pykcp.types import Object

RULES = rules_of("configmaps", {}, has_scale=False)


def leaf() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"a": "x" * 100_000},
        "list": [{"n": 1}],
    }


def changed(*patches: list[dict[str, Any]]) -> Object:
    placement = {"spec": {"overrides": [{"jsonPatch": patch} for patch in patches]}}
    return overridden(leaf(), RULES, placement, ClusterView("c"))


def test_the_leaf_stays_as_it_is() -> None:
    """Each patch sees what the one before made; what was given is shared, but not changed."""
    given = leaf()
    before = copy.deepcopy(given)
    patch = [{"op": "replace", "path": "/list/0/n", "value": 2}]
    placement = {"spec": {"overrides": [{"jsonPatch": patch}, {"jsonPatch": [*patch, *patch]}]}}
    made = overridden(given, RULES, placement, ClusterView("c"))
    assert made["list"] == [{"n": 2}]
    assert given == before


def test_copies_are_limited_for_all_of_them_together() -> None:
    copied = [{"op": "copy", "from": "/data/a", "path": "/data/b"}]
    assert changed(copied, copied)["data"]["b"] == "x" * 100_000
    with pytest.raises(BadOverride, match=r"overrides\[2\]: Unable to complete the copy"):
        changed(copied, copied, copied)
