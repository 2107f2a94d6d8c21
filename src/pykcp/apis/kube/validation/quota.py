"""ResourceQuota."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.apis.kube.validation.amounts import Amounts, hard_errors, is_quota_name, round_in
from pykcp.apis.kube.validation.objectmeta import (
    IMMUTABLE,
    name_is_subdomain,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, keep
from pykcp.machinery import quantity
from pykcp.machinery.meta import metadata, resource_version
from pykcp.machinery.status import FieldError, invalid, required, too_many
from pykcp.types import Object

_POD_COMPUTE = frozenset((
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
))  # fmt: skip
_POD_SCOPES = frozenset((
    "Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity",
))  # fmt: skip
_MOST = 10_000
"""Names, scopes and values of one quota: each write that it counts reads all of them. Upstream's
store, which takes 1.5 MiB for an object, does not take the status of a much larger one."""
_SCOPES = frozenset((*_POD_SCOPES, "BestEffort", "VolumeAttributesClass"))
_EXISTS_ONLY = frozenset((
    "BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity",
))  # fmt: skip


def _default_quota(obj: Object) -> None:
    round_in(obj.get("spec"), "hard")
    round_in(obj.get("status"), "hard", "used")


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
    return sum(1 for name in hard if is_quota_name(name) and not _applies(scope, name))


def _conflicting(scopes: Sequence[str]) -> int:
    pairs = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
    return sum(1 for one, other in pairs if one in scopes and other in scopes)


def _size_errors(spec: Object) -> list[FieldError]:
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    parts = [spec.get("hard"), spec.get("scopes"), expressions]
    parts += [expression.get("values") for expression in expressions]
    size = sum(len(part) for part in parts if part)
    return [too_many("spec", size, _MOST)] if size > _MOST else []


def _spec_errors(spec: Object) -> list[FieldError]:
    hard: Amounts = spec.get("hard") or {}
    errors = hard_errors(hard, "spec.hard")
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
    spec = obj.get("spec") or {}
    errors += _size_errors(spec) or _spec_errors(spec)
    return errors + _status_errors(obj)


def _status_errors(obj: Object) -> list[FieldError]:
    status = obj.get("status") or {}
    errors = hard_errors(status.get("hard"), "status.hard")
    return errors + hard_errors(status.get("used"), "status.used")


def _validate_quota_update(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec != before and (too_large := _size_errors(spec)):
        return errors + too_large
    errors += _spec_errors(spec)
    scopes = spec.get("scopes") or []
    if set(scopes) != set(before.get("scopes") or []):
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
