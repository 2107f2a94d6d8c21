"""Validation of access reviews, with upstream's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykcp.machinery import fields, labels, names
from pykcp.machinery.status import FieldError, forbidden, invalid, required
from pykcp.steps import Steps
from pykcp.types import Object

_EITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_BOTH = "cannot be specified in combination with resourceAttributes"
_RESOURCE = "spec.resourceAttributes"
_MOST_ERRORS = 1000
"""Enough of them: no answer names more."""
_IGNORED_METADATA = frozenset({"namespace", "managedFields"})


def subject_review_errors(review: Object) -> Steps[list[FieldError]]:
    errors = yield from _subject_errors(review.get("spec") or {})
    return errors + _metadata_errors(review, "must be empty")


def self_review_errors(review: Object) -> Steps[list[FieldError]]:
    spec = review.get("spec") or {}
    errors = _spec_errors(spec)
    errors += yield from _selector_errors(spec.get("resourceAttributes"))
    return errors + _metadata_errors(review, "must be empty")


def local_review_errors(review: Object) -> Steps[list[FieldError]]:
    spec = review.get("spec") or {}
    errors = yield from _subject_errors(spec)
    errors += _metadata_errors(review, "must be empty except for namespace")
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    namespace = (review.get("metadata") or {}).get("namespace") or ""
    if resource is not None and (resource.get("namespace") or "") != namespace:
        wrong = resource.get("namespace") or ""
        errors.append(invalid(f"{_RESOURCE}.namespace", wrong, "must match metadata.namespace"))
    if path is not None:
        why = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", _go_path(path), why))
    return errors


def _subject_errors(spec: Object) -> Steps[list[FieldError]]:
    errors = _spec_errors(spec)
    if not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        errors.append(invalid("spec.user", spec.get("user") or "", why))
    return errors + (yield from _selector_errors(spec.get("resourceAttributes")))


def _spec_errors(spec: Object) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors: list[FieldError] = []
    if resource is not None and path is not None:
        errors.append(invalid("spec.nonResourceAttributes", _go_path(path), _BOTH))
    if resource is None and path is None:
        errors.append(invalid(_RESOURCE, None, _EITHER))
    return errors


def _go_path(path: Mapping[str, Any]) -> dict[str, str]:
    """The attributes as upstream's error shows them."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _metadata_errors(review: Object, why: str) -> list[FieldError]:
    """Whatever is there besides the namespace, which is the request's own business."""
    metadata = review.get("metadata") or {}
    odd = any(value for key, value in metadata.items() if key not in _IGNORED_METADATA)
    return [invalid("metadata", metadata, why)] if odd else []


# --- selectors ----------------------------------------------------------------


def _selector_errors(resource: Mapping[str, Any] | None) -> Steps[list[FieldError]]:
    if resource is None:
        return []
    errors: list[FieldError] = []
    for key in ("fieldSelector", "labelSelector"):
        selector = resource.get(key)
        if selector is None:
            continue
        path = f"{_RESOURCE}.{key}"
        raw, wanted = selector.get("rawSelector"), selector.get("requirements")
        if raw and wanted:
            why = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", raw, why))
        if not raw and not wanted:
            why = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", why))
        for index, requirement in enumerate(wanted or ()):
            where, is_label = f"{path}.requirements[{index}]", key == "labelSelector"
            errors += yield from _requirement_errors(requirement, where, is_label=is_label)
            if len(errors) > _MOST_ERRORS:
                break
    return errors


def _requirement_errors(
    requirement: Mapping[str, Any], path: str, *, is_label: bool
) -> Steps[list[FieldError]]:
    yield
    key, values = requirement.get("key") or "", requirement.get("values") or []
    errors = _arity_errors(requirement.get("operator") or "", values, path)
    if not is_label:
        missing = [] if key else [required(f"{path}.key", "must be specified")]
        return missing + errors
    errors += [invalid(f"{path}.key", key, why) for why in names.qualified_name(key)]
    for index, value in enumerate(values):
        why_not = names.label_value(value)
        if why_not:
            errors += [invalid(f"{path}.values[{index}]", value, why) for why in why_not]
            if len(errors) > _MOST_ERRORS:
                break
        yield
    return errors


def _arity_errors(operator: str, values: Sequence[str], path: str) -> list[FieldError]:
    """Operators of tomorrow are let through, as upstream does."""
    if operator in {"In", "NotIn"} and not values:
        why = "must be specified when `operator` is 'In' or 'NotIn'"
        return [required(f"{path}.values", why)]
    if operator in {"Exists", "DoesNotExist"} and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(f"{path}.values", why)]
    return []


def selector_problems(resource: Mapping[str, Any] | None) -> Steps[list[str]]:
    """Which selectors could not be understood and were ignored, for `evaluationError`."""
    if resource is None:
        return []
    problems: list[str] = []
    for key, parse, is_good in (
        ("fieldSelector", fields.parse_in_steps, _is_good_field),
        ("labelSelector", labels.parse_in_steps, _is_good_label),
    ):
        selector = resource.get(key)
        if selector is None:
            continue
        understood = failed = 0
        if selector.get("rawSelector"):
            try:
                yield from parse(selector["rawSelector"])
            except labels.SelectorError:
                failed = 1
        else:
            for requirement in selector.get("requirements") or ():
                is_understood = yield from is_good(requirement)
                understood += is_understood
                failed += not is_understood
        if failed:
            how = "partially ignored" if understood else "ignored"
            problems.append(f"{_RESOURCE}.{key} {how} due to parse error")
    return problems


def _is_good_label(requirement: Mapping[str, Any]) -> Steps[bool]:
    yield
    try:
        yield from labels.from_label_selector_in_steps({"matchExpressions": [requirement]})
    except labels.SelectorError:
        return False
    return True


def _is_good_field(requirement: Mapping[str, Any]) -> Steps[bool]:
    yield
    is_single = len(requirement.get("values") or ()) == 1
    return requirement.get("operator") in {"In", "NotIn"} and is_single
