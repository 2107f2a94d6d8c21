"""ResourceQuota and LimitRange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykcp.apis.kube.validation.objectmeta import (
    IMMUTABLE,
    name_is_subdomain,
    validate_label_key,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, keep
from pykcp.machinery import names, quantity
from pykcp.machinery.meta import metadata, mutable_metadata, resource_version
from pykcp.machinery.status import FieldError, duplicate, forbidden, invalid, required
from pykcp.types import Object

_COUNTED = frozenset((
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_MEASURED = frozenset((
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
))  # fmt: skip
_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_POD_COMPUTE = frozenset((
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
))  # fmt: skip
_POD_SCOPES = frozenset((
    "Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
))  # fmt: skip
_SCOPES = frozenset((*_POD_SCOPES, "BestEffort", "VolumeAttributesClass"))
_EXISTS_ONLY = frozenset((
    "BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity",
))  # fmt: skip
_LIMIT_TYPES = frozenset(("Pod", "Container", "PersistentVolumeClaim"))

Amounts = Mapping[str, str]


def _round(amounts: Amounts | None) -> dict[str, str] | None:
    """Quantities are kept to the thousandth."""
    if not amounts:
        return None
    parsed = {name: quantity.parse(text) for name, text in amounts.items()}
    return {name: str(found.rounded_up(quantity.MILLI)) for name, found in parsed.items()}


def _round_in(holder: Object | None, *fields: str) -> None:
    for field in fields:
        if holder and holder.get(field):
            holder[field] = _round(holder[field])


# Names of resources


def _is_huge_pages(name: str) -> bool:
    return name.startswith("hugepages-")


def _is_quota_name(name: str) -> bool:
    known = name in _COUNTED or name in _MEASURED
    return known or _is_huge_pages(name) or name.startswith("requests.hugepages-")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    if _is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name("requests." + name)


def _resource_name_errors(name: str, path: str) -> list[FieldError]:
    errors = validate_label_key(name, path)
    if not errors and "/" not in name and not _is_quota_name(name) and name != "storage":
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return errors


def _quota_name_errors(name: str, path: str) -> list[FieldError]:
    errors = _resource_name_errors(name, path)
    if "/" not in name and not _is_quota_name(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def _container_name_errors(name: str, path: str) -> list[FieldError]:
    errors = _resource_name_errors(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not _is_huge_pages(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not _is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _amount_errors(name: str, text: str, path: str) -> list[FieldError]:
    amount = quantity.parse(text)
    errors = []
    if amount.sign < 0:
        errors.append(invalid(path, str(amount), "must be greater than or equal to 0"))
    whole = name in _COUNTED or _is_extended(name)
    if whole and amount.milli_value % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def _hard_errors(amounts: Amounts | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in (amounts or {}).items():
        errors += _quota_name_errors(name, f"{path}[{name}]")
        errors += _amount_errors(name, text, f"{path}[{name}]")
    return errors


# ResourceQuota


def _default_quota(obj: Object) -> None:
    _round_in(obj.get("spec"), "hard")
    _round_in(obj.get("status"), "hard", "used")


def _prepare_quota(obj: Object, _: Facts) -> None:
    obj["status"] = {}


def _applies(scope: str, resource: str) -> bool:
    """Whether a quota of this scope can count this resource."""
    if scope in _POD_SCOPES:
        return resource == "pods" or resource in _POD_COMPUTE
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in {"persistentvolumeclaims", "requests.storage"}
    return True


def _misapplied(scope: str, hard: Amounts) -> int:
    return sum(1 for name in hard if _is_quota_name(name) and not _applies(scope, name))


def _conflicting(scopes: Sequence[str]) -> int:
    pairs = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
    return sum(1 for one, other in pairs if one in scopes and other in scopes)


def _spec_errors(spec: Object) -> list[FieldError]:
    hard: Amounts = spec.get("hard") or {}
    errors = _hard_errors(hard, "spec.hard")
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        why = "unsupported scope applied to resource"
        errors += [invalid("spec.scopes", scopes, why)] * _misapplied(scope, hard)
    errors += [invalid("spec.scopes", scopes, "conflicting scopes")] * _conflicting(scopes)
    selector = spec.get("scopeSelector")
    if selector is not None:
        errors += _selector_errors(selector, hard)
        chosen = [e.get("scopeName", "") for e in selector.get("matchExpressions") or ()]
        why, path = "conflicting scopes", "spec.scopeSelector.matchExpressions"
        errors += [invalid(path, spec.get("scopes"), why)] * _conflicting(chosen)
    return errors


def _selector_errors(selector: Object, hard: Amounts) -> list[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    errors: list[FieldError] = []
    expressions = selector.get("matchExpressions") or []
    shown = {"MatchExpressions": [_go_expression(e) for e in expressions] or None}
    for expression in expressions:
        scope = expression.get("scopeName", "")
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        why = "unsupported scope applied to resource"
        errors += [invalid(path, shown, why)] * _misapplied(scope, hard)
        errors += _expression_errors(expression, scope, path)
    return errors


def _go_expression(expression: Object) -> Object:
    return {
        "ScopeName": expression.get("scopeName", ""),
        "Operator": expression.get("operator", ""),
        "Values": expression.get("values"),
    }


def _expression_errors(expression: Object, scope: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values")
    if scope in _EXISTS_ONLY and operator != "Exists":
        why = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
            "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(invalid(f"{path}.operator", operator, why))
    if operator in {"In", "NotIn"}:
        if not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{path}.values", why))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{path}.values", values, why))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors


def _validate_quota(obj: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), True, name_is_subdomain, kube_finalizers=True)
    errors += _spec_errors(obj.get("spec") or {})
    return errors + _status_errors(obj)


def _status_errors(obj: Object) -> list[FieldError]:
    status = obj.get("status") or {}
    errors = _hard_errors(status.get("hard"), "status.hard")
    return errors + _hard_errors(status.get("used"), "status.used")


def _validate_quota_update(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)
    spec = new.get("spec") or {}
    errors += _spec_errors(spec)
    scopes = spec.get("scopes") or []
    if set(scopes) != set((old.get("spec") or {}).get("scopes") or []):
        errors.append(invalid("spec.scopes", spec.get("scopes"), IMMUTABLE))
    return errors


def _validate_quota_status(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)
    if not resource_version(new):
        errors.append(required("resourceVersion"))
    return errors + _status_errors(new)


def _quota_warnings(new: Object, old: Object | None, _: Facts) -> list[str]:
    if old is not None:
        return []
    hard = (new.get("spec") or {}).get("hard") or {}
    warnings = []
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        request, limit = f"requests.{name}", f"limits.{name}"
        if request not in hard and name in {"cpu", "memory"}:
            request = name
        if request in hard and limit in hard:
            asked, most = quantity.parse(hard[request]), quantity.parse(hard[limit])
            if asked > most:
                text = f"ResourceQuota {request} ({asked}) should be less than {limit} ({most})"
                warnings.append(text)
    return warnings


RESOURCE_QUOTA = KindRules(
    namespaced=True,
    default=_default_quota,
    prepare_for_create=_prepare_quota,
    prepare_for_update=lambda new, old, _: keep(new, old, "status"),
    validate=_validate_quota,
    validate_update=_validate_quota_update,
    warnings=_quota_warnings,
    subresources={
        "status": KindRules(
            namespaced=True,
            default=_default_quota,
            prepare_for_update=lambda new, old, _: keep(new, old, "spec"),
            validate_update=_validate_quota_status,
        )
    },
)


# LimitRange


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
        _round_in(limit, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


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
            check = (
                _container_name_errors if kind in {"Pod", "Container"} else _resource_name_errors
            )
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
    overcommit = _is_native(name) and not _is_huge_pages(name)
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
