"""Rules of custom resources and of kcp's own kinds: metadata, generation, status, scale.

The schema, list types and CEL rules of the body are judged by the checks passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pykcp.apis.kube.validation.objectmeta import (
    STANDARD_FINALIZERS,
    MetaNameRule,
    name_is_subdomain,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import (
    Facts,
    KindRules,
    bump_generation,
    keep,
    set_generation,
)
from pykcp.machinery import names
from pykcp.machinery.meta import finalizers, metadata
from pykcp.machinery.status import FieldError, go_quote, invalid
from pykcp.types import Object

BodyCheck = Callable[[Object, Object | None], list[FieldError]]
"""Judges what is not metadata; new and old (None on create)."""

WHOLE = "*"
"""Not a subresource of the API: the system writes spec and status in one update."""

_INT32_MAX = (1 << 31) - 1


def _leave(_: Object) -> None:
    return None


def _accept(_: Object, __: Object | None) -> list[FieldError]:
    return []


def custom_rules(
    namespaced: bool,
    *,
    has_status: bool,
    scale: Mapping[str, Any] | None = None,
    default: Callable[[Object], None] = _leave,
    check: BodyCheck = _accept,
    check_status: BodyCheck = _accept,
    check_name: MetaNameRule = name_is_subdomain,
) -> KindRules:
    """The rules of a kind that is defined by a schema."""
    kind = _CustomKind(namespaced, has_status, scale, check, check_status, check_name)
    status_rules = KindRules(
        namespaced=namespaced,
        default=default,
        prepare_for_update=_only_status,
        validate_update=kind.validate_status_update,
        body=kind.status_body,
        warnings=_finalizer_warnings,
        unconditional_update=False,
    )
    whole_rules = KindRules(
        namespaced=namespaced,
        default=default,
        prepare_for_update=_prepare_whole,
        validate_update=kind.validate_update,
        body=kind.body,
        unconditional_update=False,
    )
    return KindRules(
        namespaced=namespaced,
        default=default,
        prepare_for_create=kind.prepare_for_create,
        prepare_for_update=kind.prepare_for_update,
        validate=kind.validate,
        validate_update=kind.validate_update,
        body=kind.body,
        warnings=_finalizer_warnings,
        subresources={"status": status_rules, WHOLE: whole_rules} if has_status else {},
        unconditional_update=False,
    )


@dataclass(frozen=True, slots=True)
class _CustomKind:
    namespaced: bool
    has_status: bool
    scale: Mapping[str, Any] | None
    check: BodyCheck
    check_status: BodyCheck
    check_name: MetaNameRule

    def prepare_for_create(self, obj: Object, _: Facts) -> None:
        if self.has_status:
            obj.pop("status", None)
        set_generation(obj)

    def prepare_for_update(self, new: Object, old: Object, _: Facts) -> None:
        if self.has_status:
            keep(new, old, "status")
        if _desired(new) != _desired(old):
            bump_generation(new, old)

    def body(self, new: Object, old: Object | None, _: Facts) -> list[FieldError]:
        errors = self.check(new, old)
        return errors + scale_spec_errors(new, self.scale) + scale_status_errors(new, self.scale)

    def status_body(self, new: Object, old: Object | None, _: Facts) -> list[FieldError]:
        return self.check_status(new, old) + scale_status_errors(new, self.scale)

    def validate(self, obj: Object, facts: Facts) -> list[FieldError]:
        errors = validate_object_meta(metadata(obj), self.namespaced, self.check_name)
        return errors + self.body(obj, None, facts)

    def validate_update(self, new: Object, old: Object, facts: Facts) -> list[FieldError]:
        errors = validate_object_meta_update(metadata(new), metadata(old))
        return errors + self.body(new, old, facts)

    def validate_status_update(self, new: Object, old: Object, facts: Facts) -> list[FieldError]:
        errors = validate_object_meta_update(metadata(new), metadata(old))
        return errors + self.status_body(new, old, facts)


def _prepare_whole(new: Object, old: Object, _: Facts) -> None:
    if _spec(new) != _spec(old):
        bump_generation(new, old)


def _only_status(new: Object, old: Object, _: Facts) -> None:
    """The old object with the new status; managedFields have to follow the request."""
    managed = metadata(new).get("managedFields")
    status = {"status": new["status"]} if "status" in new else {}
    new.clear()
    new.update(old)
    new.pop("status", None)
    new.update(status)
    new["metadata"] = {**metadata(old)}
    new["metadata"].pop("managedFields", None)
    if managed is not None:
        new["metadata"]["managedFields"] = managed


def _desired(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _spec(obj: Object) -> Object:
    return {name: value for name, value in _desired(obj).items() if name != "status"}


def _finalizer_warnings(new: Object, old: Object | None, _: Facts) -> list[str]:
    added = set(finalizers(new)) - set(finalizers(old) if old else ())
    warnings = []
    for finalizer in sorted(added):
        lead = f"metadata.finalizers: {go_quote(finalizer)}: "
        warnings += [lead + message for message in names.qualified_name(finalizer)]
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            path = " including a path (/)" if "." in finalizer else ""
            warnings.append(
                f"{lead}prefer a domain-qualified finalizer name{path} "
                "to avoid accidental conflicts with other finalizer writers"
            )
    return warnings


def scale_spec_errors(obj: Object, scale: Mapping[str, Any] | None) -> list[FieldError]:
    """The number of replicas asked for must be one."""
    return _replicas_errors(obj, scale["specReplicasPath"]) if scale else []


def scale_status_errors(obj: Object, scale: Mapping[str, Any] | None) -> list[FieldError]:
    if not scale:
        return []
    errors = _replicas_errors(obj, scale["statusReplicasPath"])
    path = scale.get("labelSelectorPath")
    if path is not None:
        value, problem = _nested(obj, path, str, "string")
        if problem:
            errors.append(invalid(path, value or "", problem))
    return errors


def _replicas_errors(obj: Object, path: str) -> list[FieldError]:
    value, problem = _nested(obj, path, int, "int64")
    number = value or 0
    if problem:
        return [invalid(path, 0, problem)]
    if number < 0:
        return [invalid(path, number, "should be a non-negative integer")]
    if number > _INT32_MAX:
        return [invalid(path, number, f"should be less than or equal to {_INT32_MAX}")]
    return []


_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64", type(None): "<nil>",
             dict: "map[string]interface {}", list: "[]interface {}"}  # fmt: skip


def _nested(obj: Object, path: str, kind: type, name: str) -> tuple[Any, str]:
    """The value at a dotted path (None if there is none), or what is wrong with it."""
    steps = path.removeprefix(".").split(".")
    value: Any = obj
    for index, step in enumerate(steps):
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            shown = "." + ".".join(steps[: index + 1])
            found = _GO_TYPES[type(value)]
            return None, (
                f"{shown} accessor error: {go_plain(value)} is of the type {found}, "
                "expected map[string]interface{}"
            )
        if step not in value:
            return None, ""
        value = value[step]
    if type(value) is not kind:
        found = _GO_TYPES[type(value)]
        shown = "." + ".".join(steps)
        return None, (
            f"{shown} accessor error: {go_plain(value)} is of the type {found}, expected {name}"
        )
    return value, ""


def go_plain(value: Any) -> str:
    """A decoded JSON value as Go's %v prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = " ".join(f"{key}:{go_plain(value[key])}" for key in sorted(value))
        return f"map[{inner}]"
    if isinstance(value, list):
        return f"[{' '.join(go_plain(item) for item in value)}]"
    return str(value)
