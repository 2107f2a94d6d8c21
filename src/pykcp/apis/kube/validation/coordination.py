"""Leases."""

from __future__ import annotations

from pykcp.apis.kube.validation.objectmeta import (
    name_is_subdomain,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules
from pykcp.machinery.meta import metadata
from pykcp.machinery.status import FieldError, invalid
from pykcp.types import Object

_COORDINATED = ("strategy", "preferredHolder")


def _drop_coordinated(obj: Object, old: Object | None) -> None:
    """Coordinated leader election is off by default upstream: its fields do not arrive."""
    spec = obj.get("spec")
    if not spec:
        return
    before = (old or {}).get("spec") or {}
    for field in _COORDINATED:
        if before.get(field) is None:
            spec.pop(field, None)


def _spec_errors(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        why = "must be greater than or equal to 0"
        errors.append(invalid("spec.leaseTransitions", transitions, why))
    return errors


def _validate(obj: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), True, name_is_subdomain)
    return errors + _spec_errors(obj)


def _validate_update(new: Object, old: Object, _: Facts) -> list[FieldError]:
    return validate_object_meta_update(metadata(new), metadata(old)) + _spec_errors(new)


LEASE = KindRules(
    namespaced=True,
    prepare_for_create=lambda obj, _: _drop_coordinated(obj, None),
    prepare_for_update=lambda new, old, _: _drop_coordinated(new, old),
    validate=_validate,
    validate_update=_validate_update,
    body=lambda new, *_: _spec_errors(new),
    create_on_update=True,
    unconditional_update=False,
)
