"""Requests that are answered and not stored: access reviews and token requests.

`validate` is all there is to them. SelfSubjectRulesReview, SelfSubjectReview and TokenReview
check nothing here: what they refuse, they refuse with a plain 400.
"""

from __future__ import annotations

from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    same,
    selector_operator_errors,
    validate_label_key,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules
from pykcp.machinery import names
from pykcp.machinery.meta import metadata
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

MIN_TOKEN_SECONDS = 10 * 60
DEFAULT_TOKEN_SECONDS = 60 * 60


def _go_non_resource(attributes: Object | None) -> Object | None:
    """Attributes as upstream's internal type shows in an error."""
    if attributes is None:
        return None
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _attributes_errors(spec: Object) -> list[FieldError]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _go_non_resource(other), why)]
    if resource is None and other is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []


def _selectors_errors(spec: Object) -> list[FieldError]:
    attributes = spec.get("resourceAttributes") or {}
    path = "spec.resourceAttributes"
    errors: list[FieldError] = []
    for field, of_labels in (("fieldSelector", False), ("labelSelector", True)):
        selector = attributes.get(field)
        if selector is not None:
            errors += _selector_errors(selector, f"{path}.{field}", of_labels)
    return errors


def _selector_errors(selector: Object, path: str, of_labels: bool) -> list[FieldError]:
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements") or []
    errors: list[FieldError] = []
    if raw and requirements:
        why = "may not specified at the same time as requirements"
        errors.append(invalid(f"{path}.rawSelector", raw, why))
    if not raw and not requirements:
        why = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(f"{path}.requirements", why))
    for index, requirement in enumerate(requirements):
        errors += _requirement_errors(requirement, f"{path}.requirements[{index}]", of_labels)
    return errors


def _requirement_errors(requirement: Object, path: str, of_labels: bool) -> list[FieldError]:
    """Unknown operators pass: newer clients may know more than this server."""
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    known = operator in {"In", "NotIn", "Exists", "DoesNotExist"}
    operators = selector_operator_errors(requirement, path) if known else []
    if not of_labels:
        missing = [] if key else [required(f"{path}.key", "must be specified")]
        return missing + operators
    errors = operators + validate_label_key(key, f"{path}.key")
    for index, value in enumerate(requirement.get("values") or ()):
        errors += each_invalid(f"{path}.values[{index}]", value, names.label_value(value))
    return errors


def _empty_meta_errors(obj: Object, why: str, *allowed: str) -> list[FieldError]:
    found = metadata(obj)
    rest = {k: v for k, v in found.items() if k not in {"managedFields", *allowed}}
    if same(rest, {}):
        return []
    return [
        invalid("metadata", {**found, "creationTimestamp": found.get("creationTimestamp")}, why)
    ]


def _subject_errors(spec: Object) -> list[FieldError]:
    errors = _attributes_errors(spec)
    if not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        errors.append(invalid("spec.user", spec.get("user", ""), why))
    return errors + _selectors_errors(spec)


def _validate_subject(obj: Object, _: Facts) -> list[FieldError]:
    return _subject_errors(obj.get("spec") or {}) + _empty_meta_errors(obj, "must be empty")


def _validate_self(obj: Object, _: Facts) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _attributes_errors(spec) + _selectors_errors(spec)
    return errors + _empty_meta_errors(obj, "must be empty")


def _validate_local(obj: Object, _: Facts) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _subject_errors(spec)
    errors += _empty_meta_errors(obj, "must be empty except for namespace", "namespace")
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != metadata(obj).get("namespace", ""):
        why = "must match metadata.namespace"
        found = resource.get("namespace", "")
        errors.append(invalid("spec.resourceAttributes.namespace", found, why))
    if other is not None:
        why = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", _go_non_resource(other), why))
    return errors


SUBJECT_ACCESS_REVIEW = KindRules(validate=_validate_subject)
SELF_SUBJECT_ACCESS_REVIEW = KindRules(validate=_validate_self)
LOCAL_SUBJECT_ACCESS_REVIEW = KindRules(namespaced=True, validate=_validate_local)
UNCHECKED_REVIEW = KindRules()


def _default_token_request(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = DEFAULT_TOKEN_SECONDS


def _validate_token_request(obj: Object, _: Facts) -> list[FieldError]:
    path, seconds = "spec.expirationSeconds", (obj.get("spec") or {}).get("expirationSeconds") or 0
    errors = []
    if seconds < MIN_TOKEN_SECONDS:
        errors.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        errors.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


TOKEN_REQUEST = KindRules(
    namespaced=True, default=_default_token_request, validate=_validate_token_request
)
"""`serviceaccounts/token`."""
