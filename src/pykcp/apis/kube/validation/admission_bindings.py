"""Bindings of admission policies, validating and mutating."""

from __future__ import annotations

from pykcp.apis.kube.validation.admission_match import (
    choice_errors,
    default_match_resources,
    match_resources_errors,
    name_warnings,
    operations_errors,
)
from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    name_is_subdomain,
    same,
    validate_label_selector,
    validate_object_meta,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, bump_generation, set_generation
from pykcp.machinery import names
from pykcp.machinery.meta import metadata, name
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from pykcp.types import Object

_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _default_binding(obj: Object) -> None:
    default_match_resources(_spec(obj).get("matchResources"))


def _binding_errors(obj: Object, *, mutating: bool) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, name_is_subdomain)
    spec = _spec(obj)
    policy = spec.get("policyName", "")
    if not policy:
        errors.append(required("spec.policyName"))
    else:
        errors += each_invalid("spec.policyName", policy, names.dns1123_subdomain(policy))
    errors += _param_ref_errors(spec.get("paramRef"), "spec.paramRef")
    match = spec.get("matchResources")
    errors += match_resources_errors(match, "spec.matchResources")
    if not mutating:
        return errors + _actions_errors(spec.get("validationActions") or [])
    if match is not None:
        errors += operations_errors(match, "spec.matchResources.resourceRules.operations")
    return errors


def _param_ref_errors(reference: Object | None, path: str) -> list[FieldError]:
    if reference is None:
        return []
    param, selector = reference.get("name", ""), reference.get("selector")
    both = "name and selector are mutually exclusive"
    errors = each_invalid(f"{path}.name", param, names.path_segment_name(param)) if param else []
    if param and selector is not None:
        errors.append(forbidden(f"{path}.name", both))
    errors += validate_label_selector(selector, f"{path}.selector")
    if param and selector is not None:
        errors.append(forbidden(f"{path}.selector", both))
    if not param and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    at = f"{path}.parameterNotFoundAction"
    if not action:
        return [*errors, required(at)]
    return errors + choice_errors(action, _NOT_FOUND_ACTIONS, at)


def _actions_errors(actions: list[str]) -> list[FieldError]:
    path = "spec.validationActions"
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, action in enumerate(actions):
        errors += choice_errors(action, _ACTIONS, f"{path}[{index}]")
        if action in seen:
            errors.append(duplicate(f"{path}[{index}]", action))
        seen.add(action)
        if len(errors) > MAX_FIELD_ERRORS:
            break
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, why))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def _prepare_update(new: Object, old: Object, _: Facts) -> None:
    if not same(_spec(new), _spec(old)):
        bump_generation(new, old)


def _warnings(new: Object, _: Object | None, __: Facts) -> list[str]:
    return name_warnings(name(new))


VALIDATING_POLICY_BINDING = KindRules(
    default=_default_binding,
    prepare_for_create=lambda obj, _: set_generation(obj),
    prepare_for_update=_prepare_update,
    validate=lambda obj, _: _binding_errors(obj, mutating=False),
    validate_update=lambda new, _, __: _binding_errors(new, mutating=False),
    warnings=_warnings,
    unconditional_update=False,
)

MUTATING_POLICY_BINDING = KindRules(
    default=_default_binding,
    prepare_for_create=lambda obj, _: set_generation(obj),
    prepare_for_update=_prepare_update,
    validate=lambda obj, _: _binding_errors(obj, mutating=True),
    validate_update=lambda new, _, __: _binding_errors(new, mutating=True),
    warnings=_warnings,
    unconditional_update=False,
)
