"""Events: one kind under two groups, core and events.k8s.io.

Both are stored alike, in the core form; the newer group only names the fields otherwise and
judges more strictly. Its rules take objects in its own form. Upstream judges the core form
whichever was sent, so errors name core fields.
"""

from __future__ import annotations

from typing import Any

from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    name_is_subdomain,
    same,
    unchanged,
    validate_label_key,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules
from pykcp.machinery import names
from pykcp.machinery.meta import metadata, namespace
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_FROM_CORE = {core: own for own, core in _TO_CORE.items()}
_ALWAYS_IN_CORE = ("reportingComponent", "reportingInstance")
"""The core group writes them even if they are empty, the newer one does not."""
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def to_core(event: Object) -> Object:
    """An event of events.k8s.io as the core group writes it."""
    core = {_TO_CORE.get(name, name): value for name, value in event.items()}
    for name in _ALWAYS_IN_CORE:
        core.setdefault(name, "")
    return core


def from_core(event: Object) -> Object:
    """A core event as events.k8s.io writes it."""
    own = {
        _FROM_CORE.get(name, name): value
        for name, value in event.items()
        if value != "" or name not in _ALWAYS_IN_CORE
    }
    own.setdefault("regarding", {})
    return own


def _reference(event: Object, name: str) -> Object:
    found: Object = event.get(name) or {}
    return found


def _legacy_errors(event: Object, controller_path: str) -> list[FieldError]:
    """What every event must fulfil. An `eventTime` marks a new one, which owes more."""
    at, about = namespace(event), _reference(event, "involvedObject").get("namespace", "")
    astray = invalid("involvedObject.namespace", about, "does not match event.namespace")
    errors: list[FieldError] = []
    if not event.get("eventTime"):
        if (at not in {"", "default"}) if not about else (at != about):
            errors.append(astray)
    else:
        if not about and at not in {"default", "kube-system"}:
            errors.append(astray)
        errors += _new_event_errors(event, controller_path)
    return errors + each_invalid("namespace", at, names.dns1123_subdomain(at))


def _new_event_errors(event: Object, controller_path: str) -> list[FieldError]:
    controller = event.get("reportingComponent", "")
    errors = [] if controller else [required(controller_path)]
    errors += validate_label_key(controller, controller_path)
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field, "")
        if not value:
            errors.append(required(field))
        errors += _length_errors(field, value, 128)
    return errors + _length_errors("message", event.get("message", ""), 1024)


def _length_errors(field: str, value: str, limit: int) -> list[FieldError]:
    if names.byte_length(value) <= limit:
        return []
    return [invalid(field, "", f"can have at most {limit} characters")]


def _series_errors(event: Object) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _validate_strictly(event: Object, _: Facts) -> list[FieldError]:
    core = to_core(event)
    errors = _legacy_errors(core, "reportingController")
    errors += validate_object_meta(metadata(core), True, name_is_subdomain, kube_finalizers=True)
    errors += _series_errors(core)
    if not core.get("eventTime"):
        errors.append(required("eventTime"))
    kind = core.get("type", "")
    if kind not in {"Normal", "Warning"}:
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    source = core.get("source") or {}
    outdated = {
        "firstTimestamp": core.get("firstTimestamp"),
        "lastTimestamp": core.get("lastTimestamp"),
        "count": core.get("count"),
        "source": source.get("component") or source.get("host"),
    }
    errors += [invalid(field, "", "needs to be unset") for field, v in outdated.items() if v]
    return errors


_REFERENCE_GO = {
    "kind": "Kind", "namespace": "Namespace", "name": "Name", "uid": "UID",
    "apiVersion": "APIVersion", "resourceVersion": "ResourceVersion", "fieldPath": "FieldPath",
}  # fmt: skip


def _go_reference(reference: Object | None) -> Object | None:
    """A reference as upstream's internal type shows in an error."""
    if reference is None:
        return None
    return {go: reference.get(name, "") for name, go in _REFERENCE_GO.items()}


def _go_source(source: Object | None) -> Object:
    found = source or {}
    return {"Component": found.get("component", ""), "Host": found.get("host", "")}


def _validate_update_strictly(new: Object, old: Object, _: Facts) -> list[FieldError]:
    fresh, stored = to_core(new), to_core(old)
    errors = _legacy_errors(fresh, "reportingController")
    errors += validate_object_meta_update(metadata(fresh), metadata(stored), kube_finalizers=True)
    if not same(fresh.get("series"), stored.get("series")):
        errors += _series_errors(fresh)
    for field, path, shown in _FIXED:
        errors += unchanged(shown(fresh.get(field)), shown(stored.get(field)), path)
    return errors


def _text(value: Any) -> Any:
    return value or ""


def _number(value: Any) -> Any:
    return value or 0


def _as_is(value: Any) -> Any:
    return value


def _embedded(value: Any) -> Any:
    return _go_reference(value or {})


_FIXED = (
    ("involvedObject", "involvedObject", _embedded),
    ("reason", "reason", _text),
    ("message", "message", _text),
    ("source", "source", _go_source),
    ("firstTimestamp", "firstTimestamp", _as_is),
    ("lastTimestamp", "lastTimestamp", _as_is),
    ("count", "count", _number),
    ("reason", "reason", _text),
    ("type", "type", _text),
    ("eventTime", "eventTime", _as_is),
    ("action", "action", _text),
    ("related", "related", _go_reference),
    ("reportingComponent", "reportingController", _text),
    ("reportingInstance", "reportingInstance", _text),
)


def _selectable(event: Object) -> dict[str, str]:
    about = _reference(event, "involvedObject")
    controller = event.get("reportingComponent", "")
    return {
        **{f"involvedObject.{name}": about.get(name, "") for name in _REFERENCE},
        "reason": event.get("reason", ""),
        "reportingComponent": controller,
        "source": (event.get("source") or {}).get("component") or controller,
        "type": event.get("type", ""),
    }


def _validate(event: Object, _: Facts) -> list[FieldError]:
    return _legacy_errors(event, "reportingComponent")


EVENT = KindRules(
    namespaced=True,
    validate=_validate,
    validate_update=lambda new, _, facts: _validate(new, facts),
    body=lambda new, _, facts: _validate(new, facts),
    field_labels=(
        *(f"involvedObject.{name}" for name in _REFERENCE),
        "reason", "reportingComponent", "source", "type", "metadata.namespace", "metadata.name",
    ),
    selectable=_selectable,
    create_on_update=True,
)  # fmt: skip

FIELD_LABELS_TO_CORE = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _REFERENCE},
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
    "metadata.namespace": "metadata.namespace",
    "metadata.name": "metadata.name",
}
"""Selectable fields of events.k8s.io, and how the stored form names them."""

NEW_EVENT = KindRules(
    namespaced=True,
    validate=_validate_strictly,
    validate_update=_validate_update_strictly,
    field_labels=tuple(FIELD_LABELS_TO_CORE),
    selectable=lambda event: _selectable(to_core(event)),
    error_group="",
    create_on_update=True,
)
