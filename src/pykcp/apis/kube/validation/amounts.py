"""Resource names and quantities, for quotas."""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.apis.kube.validation.objectmeta import validate_label_key
from pykcp.machinery import names, quantity
from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

_COUNTED = frozenset((
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_MEASURED = frozenset((
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
))  # fmt: skip

Amounts = Mapping[str, str]


def _round(amounts: Amounts | None) -> dict[str, str] | None:
    """Quantities are kept to the thousandth."""
    if not amounts:
        return None
    parsed = {name: quantity.parse(text) for name, text in amounts.items()}
    return {name: str(found.rounded_up(quantity.MILLI)) for name, found in parsed.items()}


def round_in(holder: Object | None, *fields: str) -> None:
    for field in fields:
        if holder and holder.get(field):
            holder[field] = _round(holder[field])


def _is_huge_pages(name: str) -> bool:
    return name.startswith("hugepages-")


def is_quota_name(name: str) -> bool:
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
    if not errors and "/" not in name and not is_quota_name(name) and name != "storage":
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return errors


def _quota_name_errors(name: str, path: str) -> list[FieldError]:
    errors = _resource_name_errors(name, path)
    if "/" not in name and not is_quota_name(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
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


def hard_errors(amounts: Amounts | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in (amounts or {}).items():
        errors += _quota_name_errors(name, f"{path}[{name}]")
        errors += _amount_errors(name, text, f"{path}[{name}]")
    return errors
