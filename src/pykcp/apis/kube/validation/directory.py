"""Which rules belong to which kind. Modules are imported when first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from pykcp.apis.kube.validation.rules import KindRules

_WHERE: dict[tuple[str, str], tuple[str, str]] = {
    ("", "namespaces"): ("core", "NAMESPACE"),
    ("", "configmaps"): ("core", "CONFIG_MAP"),
    ("", "secrets"): ("core", "SECRET"),
    ("", "serviceaccounts"): ("core", "SERVICE_ACCOUNT"),
}


@cache
def strategy_for(group: str, resource: str) -> KindRules:
    """The rules of a built-in kind; raises KeyError for one that is not built in."""
    module, name = _WHERE[group, resource]
    rules = getattr(import_module(f"pykcp.apis.kube.validation.{module}"), name)
    assert isinstance(rules, KindRules)
    return rules
