"""Annotations that preserve fields of exports and bindings that exist in only one version."""

from __future__ import annotations

from typing import Any

import orjson

from pykcp.types import Object

_PREFIX = "apis.v1alpha2.kcp.io/"
RESOURCE_SCHEMAS = _PREFIX + "resource-schemas"
PERMISSION_CLAIMS = _PREFIX + "permission-claims"
ACCEPTABLE_CLAIMS = _PREFIX + "acceptable-permission-claims"
STATUS_EXPORT_CLAIMS = _PREFIX + "status-export-permission-claims"
STATUS_APPLIED_CLAIMS = _PREFIX + "status-applied-permission-claims"
OLD_CLAIMS = _PREFIX + "v1alpha1-permission-claims"
OLD_STATUS_EXPORT_CLAIMS = _PREFIX + "v1alpha1-status-export-permission-claims"
OLD_STATUS_APPLIED_CLAIMS = _PREFIX + "v1alpha1-status-applied-permission-claims"
BINDING_ANNOTATIONS = frozenset((ACCEPTABLE_CLAIMS, STATUS_EXPORT_CLAIMS, STATUS_APPLIED_CLAIMS))
"""Those of a v1alpha1 binding."""


class BadAnnotation(ValueError):
    """An annotation does not hold what it is for."""


_SELECTOR = {
    "matchLabels": None,
    "matchExpressions": [{"key": str, "operator": str, "values": [str]}],
    "matchAll": bool,
}
_CLAIM = {
    "group": str,
    "resource": str,
    "identityHash": str,
    "state": str,
    "verbs": [str],
    "selector": _SELECTOR,
    "defaultSelector": _SELECTOR,
    "all": bool,
    "resourceSelector": [{"name": str, "namespace": str}],
}
_VIRTUAL = {"reference": {"apiGroup": str, "kind": str, "name": str}, "identityHash": str}
_SCHEMA = {"name": str, "group": str, "schema": str, "storage": {"crd": {}, "virtual": _VIRTUAL}}
_SHAPES: dict[str, Any] = {RESOURCE_SCHEMAS: [_SCHEMA]}


def _fits(value: Any, shape: Any) -> bool:
    """Whether a value has the types of a shape; None in a shape stands for a map of texts."""
    if value is None:
        return True
    if shape is None:
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            _fits(value.get(name), inner) for name, inner in shape.items()
        )
    return isinstance(value, shape)


def read_annotation(name: str, text: Any) -> list[Object]:
    """The schemas or claims that one of our annotations holds; raises BadAnnotation."""
    try:
        found = orjson.loads(text)
    except (ValueError, TypeError) as error:
        raise BadAnnotation(str(error)) from error
    if not _fits(found, _SHAPES.get(name, [_CLAIM])):
        raise BadAnnotation(f"{name} does not hold what it is for")
    return [one or {} for one in found or ()]
