"""Reconciles the bootstrap objects that exist when a server starts again.

Missing permissions are added, additional ones stay, and an object that is annotated not to be
updated is left unchanged.
"""

from __future__ import annotations

from pykcp.auth.authz.bootstrap_policy import AUTO_UPDATE
from pykcp.auth.authz.covering import uncovered
from pykcp.auth.authz.rules import PolicyRule
from pykcp.types import Object


class RoleRefChanged(Exception):
    """A binding refers to another role; that cannot be updated, only replaced."""


def reconciled(existing: Object, expected: Object) -> Object | None:
    """The object to write in place of the existing one; None if it is well as it is.

    Raises RoleRefChanged if a binding must be replaced rather than updated.
    """
    metadata = existing.get("metadata") or {}
    if (metadata.get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return None
    result = dict(existing)
    wanted = expected["metadata"]
    result["metadata"] = _with_metadata(metadata, wanted)
    if "roleRef" in expected:
        _reconcile_binding(result, existing, expected)
    else:
        _reconcile_role(result, existing, expected)
    return None if result == existing else result


def _with_metadata(existing: Object, wanted: Object) -> Object:
    merged = dict(existing)
    for key in ("annotations", "labels"):
        if wanted.get(key):
            merged[key] = {**wanted[key], **(existing.get(key) or {})}
    return merged


def _reconcile_role(result: Object, existing: Object, expected: Object) -> None:
    parts = ("rules", "aggregationRule")
    if all(existing.get(part) == expected.get(part) for part in parts):
        return  # nearly always; comparing what rules cover takes much longer
    held = [PolicyRule.from_json(rule) for rule in existing.get("rules") or ()]
    wanted = [PolicyRule.from_json(rule) for rule in expected.get("rules") or ()]
    missing = uncovered(held, wanted) if "aggregationRule" not in expected else []
    if missing:
        result["rules"] = [*(existing.get("rules") or ()), *(rule.to_json() for rule in missing)]
    selectors = (expected.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    if not selectors:
        result.pop("aggregationRule", None)
        return
    there = (existing.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    lacking = [selector for selector in selectors if selector not in there]
    if lacking:
        result["aggregationRule"] = {"clusterRoleSelectors": [*there, *lacking]}


def _reconcile_binding(result: Object, existing: Object, expected: Object) -> None:
    if existing.get("roleRef") != expected["roleRef"]:
        raise RoleRefChanged
    there = existing.get("subjects") or []
    lacking = [subject for subject in expected.get("subjects") or () if subject not in there]
    if lacking:
        result["subjects"] = [*there, *lacking]
