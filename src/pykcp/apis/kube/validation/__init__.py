"""What each built-in kind accepts: defaults, preparation, validation, immutability.

One module per API group, pure functions on plain dicts. `strategy_for` finds the rules of a
kind, `before_create` and `before_update` run them in upstream's order, `custom_rules` makes
the rules of kinds that are defined by a schema.
"""

from __future__ import annotations

from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.directory import strategy_for
from pykcp.apis.kube.validation.rules import (
    Facts,
    KindRules,
    before_create,
    before_update,
)

__all__ = [
    "Facts",
    "KindRules",
    "before_create",
    "before_update",
    "custom_rules",
    "strategy_for",
]
