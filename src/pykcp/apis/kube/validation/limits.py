"""LimitRange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykcp.apis.kube.validation.amounts import (
    Amounts,
    container_name_errors,
    is_huge_pages,
    is_native,
    resource_name_errors,
    round_in,
)
from pykcp.apis.kube.validation.objectmeta import (
    name_is_subdomain,
    validate_label_key,
    validate_object_meta,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules
from pykcp.machinery import quantity
from pykcp.machinery.meta import metadata, mutable_metadata
from pykcp.machinery.status import FieldError, duplicate, forbidden, invalid, required
from pykcp.types import Object

_LIMIT_TYPES = frozenset(("Pod", "Container", "PersistentVolumeClaim"))


def _default_limit_range(obj: Object) -> None:
    for limit in (obj.get("spec") or {}).get("limits") or ():
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            request = {
                **(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {}),
            }  # fmt: skip
            if default:
                limit["default"] = default
            if request:
                limit["defaultRequest"] = request
        round_in(limit, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _prepare_limit_range(obj: Object, facts: Facts) -> None:
    if not metadata(obj).get("name"):
        mutable_metadata(obj)["name"] = facts.new_uid()


def _validate_limit_range(obj: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), True, name_is_subdomain, kube_finalizers=True)
    seen: set[str] = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = limit.get("type", "")
        errors += _limit_type_errors(kind, f"{path}.type")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _limit_errors(limit, kind, path)
    return errors


def _limit_type_errors(kind: str, path: str) -> list[FieldError]:
    errors = validate_label_key(kind, path)
    if not errors and "/" not in kind and kind not in _LIMIT_TYPES:
        return [invalid(path, kind, "must be a standard limit type or fully qualified")]
    return errors


def _limit_errors(limit: Object, kind: str, path: str) -> list[FieldError]:
    fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"]
    amounts: dict[str, dict[str, quantity.Quantity]] = {field: {} for field in fields}
    errors: list[FieldError] = []
    for field in fields:
        if field == "maxLimitRequestRatio":
            errors += _storage_errors(limit, kind, path)
        given: Amounts = limit.get(field) or {}
        if kind == "Pod" and field.startswith("default"):
            if given:
                why = "may not be specified when `type` is 'Pod'"
                errors.append(forbidden(f"{path}.{field}", why))
            continue
        for name, text in given.items():
            check = container_name_errors if kind in {"Pod", "Container"} else resource_name_errors
            errors += check(name, f"{path}.{field}[{name}]")
            amounts[field][name] = quantity.parse(text)
    for name in dict.fromkeys(name for field in fields for name in amounts[field]):
        errors += _bound_errors(name, amounts, path)
    return errors


def _storage_errors(limit: Object, kind: str, path: str) -> list[FieldError]:
    if kind != "PersistentVolumeClaim":
        return []
    if "storage" in (limit.get("min") or {}) or "storage" in (limit.get("max") or {}):
        return []
    why = "either minimum or maximum storage value is required, but neither was provided"
    return [required(f"{path}.limits", why)]


def _bound_errors(
    name: str, amounts: Mapping[str, Mapping[str, quantity.Quantity]], path: str
) -> list[FieldError]:
    """Minimum, default request, default and maximum must not cross."""
    low, high = amounts["min"].get(name), amounts["max"].get(name)
    default, request = amounts["default"].get(name), amounts["defaultRequest"].get(name)
    errors: list[FieldError] = []

    def cross(lower: Any, upper: Any, field: str, shown: Any, words: tuple[str, str]) -> None:
        if lower is not None and upper is not None and lower > upper:
            why = f"{words[0]} value {lower} is greater than {words[1]} value {upper}"
            errors.append(invalid(f"{path}.{field}[{name}]", str(shown), why))

    cross(low, high, "min", low, ("min", "max"))
    cross(low, request, "defaultRequest", request, ("min", "default request"))
    cross(request, high, "defaultRequest", request, ("default request", "max"))
    cross(request, default, "defaultRequest", request, ("default request", "default limit"))
    cross(low, default, "default", low, ("min", "default"))
    cross(default, high, "default", high, ("default", "max"))
    errors += _ratio_errors(name, amounts, path)
    overcommit = is_native(name) and not is_huge_pages(name)
    if not overcommit and default is not None and request is not None and default != request:
        why = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", str(request), why))
    return errors


def _ratio_errors(
    name: str, amounts: Mapping[str, Mapping[str, quantity.Quantity]], path: str
) -> list[FieldError]:
    ratio = amounts["maxLimitRequestRatio"].get(name)
    if ratio is None:
        return []
    at = f"{path}.maxLimitRequestRatio[{name}]"
    errors = []
    if ratio < quantity.parse("1"):
        errors.append(invalid(at, str(ratio), f"ratio {ratio} is less than 1"))
    low, high = amounts["min"].get(name), amounts["max"].get(name)
    if low is not None and high is not None:
        most = _quotient(high.milli_value, low.milli_value)
        if ratio.milli_value / 1000 > most:
            shown = "+Inf" if most == float("inf") else f"{most:f}"
            why = f"ratio {ratio} is greater than max/min = {shown}"
            errors.append(invalid(at, str(ratio), why))
    return errors


def _quotient(high: int, low: int) -> float:
    if low:
        return high / low
    return float("inf") if high else float("nan")


LIMIT_RANGE = KindRules(
    namespaced=True,
    default=_default_limit_range,
    prepare_for_create=_prepare_limit_range,
    validate=_validate_limit_range,
    validate_update=lambda new, _, facts: _validate_limit_range(new, facts),
    create_on_update=True,
)
