"""kcp's LogicalCluster: the object whose presence makes a logical cluster exist.

Its schema is a custom resource's and so are the words of its errors. `refusal` is what kcp's
admission says to ordinary users on top of that; a refusal is a 403, not a field error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.objectmeta import same
from pykcp.machinery import meta
from pykcp.machinery.status import FieldError, go_quote, invalid, not_supported, required
from pykcp.machinery.untyped import mapping, text
from pykcp.types import Object

NAME = "cluster"
INACTIVE_ANNOTATIONS = ("core.kcp.io/inactive", "internal.kcp.io/inactive")
PHASES = (
    "Scheduling", "Initializing", "Ready", "Unavailable", "Inactive", "Terminating", "Deleting",
)  # fmt: skip
_INTERNAL = "internal."
_ORDER = {"": 1, "Scheduling": 2, "Initializing": 3, "Ready": 4}
"""Phases an ordinary user may move through, forward only; to others not at all."""
_INITIALIZER_PATTERN = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    "(:[a-z0-9][a-z0-9]([-a-z0-9]*[a-z0-9])?))|(system:.+)$"
)
_API_VERSION_PATTERN = "^([^/]+/)?[^/]+$"
_USER_FIELDS = ("username", "groups", "uid", "extra")
"""In the order in which kcp prints a user."""
_OWNER_FIELDS = ("apiVersion", "cluster", "name", "resource", "uid")


def default(obj: Object) -> None:
    """What the schema fills in."""
    obj.setdefault("spec", {}).setdefault("directlyDeletable", False)
    obj.setdefault("status", {}).setdefault("phase", "Scheduling")


def _check(obj: Object, _: Object | None) -> list[FieldError]:
    errors: list[FieldError] = []
    name = meta.name(obj)
    if name != NAME:
        errors.append(not_supported("metadata.name", name, (NAME,)))
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if spec.get("owner") is not None:
        errors += _owner_errors(spec["owner"], "spec.owner")
    for path, holder in (("spec", spec), ("status", status)):
        for field in ("initializers", "terminators"):
            errors += _step_errors(holder.get(field) or (), f"{path}.{field}")
    phase = status.get("phase")
    if phase is not None and phase not in PHASES:
        errors.append(not_supported("status.phase", phase, PHASES))
    return errors


def _owner_errors(owner: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _OWNER_FIELDS:
        at, value = f"{path}.{field}", owner.get(field)
        if value is None:
            errors.append(required(at))
            continue
        if field != "uid" and not value:
            errors.append(invalid(at, value, f"{at} in body should be at least 1 chars long"))
        if field == "apiVersion":
            errors += _pattern_errors(value, _API_VERSION_PATTERN, at)
    return errors


def _step_errors(steps: Sequence[str], path: str) -> list[FieldError]:
    found = (
        _pattern_errors(step, _INITIALIZER_PATTERN, f"{path}[{index}]")
        for index, step in enumerate(steps)
    )
    return [error for errors in found for error in errors]


def _pattern_errors(value: str, pattern: str, path: str) -> list[FieldError]:
    if re.search(pattern, value):
        return []
    return [invalid(path, value, f"{path} in body should match '{pattern}'")]


LOGICAL_CLUSTER = custom_rules(
    False, has_status=True, default=default, check=_check, check_status=_check
)


def begin_initializing(new: Object, old: Object) -> None:
    """On the way to Initializing the steps that are due are copied into the status."""
    if _phase(new) == "Initializing" and _phase(old) != "Initializing":
        for field in ("initializers", "terminators"):
            due = mapping(new.get("spec")).get(field)
            if isinstance(due, list) and due:
                new["status"][field] = list(due)
            else:
                new["status"].pop(field, None)


def _phase(obj: Object) -> str:
    return text(mapping(obj.get("status")).get("phase"))


def _steps(obj: Object, part: str) -> set[str]:
    return set((obj.get(part) or {}).get("initializers") or ())


def is_inactive(obj: Object) -> bool:
    return any(meta.annotation(obj, key) == "true" for key in INACTIVE_ANNOTATIONS)


def refusal(new: Object, old: Object) -> str | None:
    """Why an ordinary user may not make this change; None if it is fine."""
    created_by = (new.get("spec") or {}).get("createdBy")
    if not same(created_by, (old.get("spec") or {}).get("createdBy")):
        shown = {key: value for key in _USER_FIELDS if (value := (created_by or {}).get(key))}
        return invalid("spec.createdBy", shown or None, "field is immutable").text()
    if _steps(new, "spec") != _steps(old, "spec"):
        return "spec.initializers is immutable"
    if not same((new.get("spec") or {}).get("owner"), (old.get("spec") or {}).get("owner")):
        return "spec.owner is immutable"
    before, after = meta.annotations(old), meta.annotations(new)
    for key in sorted(before.keys() | after.keys()):
        if _is_systems_own(key) and before.get(key) != after.get(key):
            return f"metadata.annotations[{key}] is immutable"
    return _steps_refusal(new, old) or _phase_refusal(new, old)


def _is_systems_own(annotation: str) -> bool:
    """Whether it says where the cluster is found, of what type it is, what it has bound, …"""
    if annotation in INACTIVE_ANNOTATIONS:
        return False
    return annotation == PATH_ANNOTATION or annotation.startswith(_INTERNAL)


def _steps_refusal(new: Object, old: Object) -> str | None:
    before, after = _steps(old, "status"), _steps(new, "status")
    was, now = _phase(old), _phase(new)
    if now == "Initializing":
        if was != "Initializing" and _steps(new, "spec") != after:
            return "status.initializers do not equal spec.initializers"
        if was == "Initializing" and not before >= after:
            return "status.initializers must not grow"
        return None
    if before != after:
        return "status.initializers is immutable after initialization"
    if was == "Initializing" and after:
        return "status.initializers is not empty"
    return None


def _phase_refusal(new: Object, old: Object) -> str | None:
    was, now = _phase(old), _phase(new)
    if _ORDER.get(was, 0) > _ORDER.get(now, 0):
        return f"cannot transition from {go_quote(was)} to {go_quote(now)}"
    if now != "Ready" and is_inactive(new) and not is_inactive(old):
        return (
            'LogicalCluster can only be marked inactive in phase "Ready", '
            f"but is in phase {go_quote(now)}"
        )
    return None
