"""Admission policies in CEL, validating and mutating.

Expressions are compiled by the check that comes with the request's facts; without one they
are only looked at from outside. Whether the user may read a policy's parameters is a matter
for authorization and not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pykcp.apis.kube.validation.admission_match import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    Expressions,
    choice_errors,
    default_match_resources,
    match_conditions_errors,
    match_resources_errors,
    name_warnings,
    operations_errors,
)
from pykcp.apis.kube.validation.objectmeta import (
    name_is_subdomain,
    same,
    validate_conditions,
    validate_label_key,
    validate_object_meta,
)
from pykcp.apis.kube.validation.rules import (
    Facts,
    KindRules,
    bump_generation,
    keep,
    keep_metadata_for_status,
    set_generation,
)
from pykcp.machinery import jsonpath, names
from pykcp.machinery.meta import metadata, name
from pykcp.machinery.status import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)
from pykcp.types import Object

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_ANNOTATIONS_MAX = 20
_ANNOTATION_EXPRESSION_MAX = 5 * 1024
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
    "function", "if", "import", "let", "loop", "package", "namespace", "return", "var",
    "void", "while",
))  # fmt: skip


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _default_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("failurePolicy") is None:
        spec["failurePolicy"] = "Fail"
    default_match_resources(spec.get("matchConstraints"))


def _expressions(spec: Object, old: Object | None, facts: Facts) -> Expressions:
    variables = [(v.get("name", ""), v.get("expression", "")) for v in spec.get("variables") or ()]
    return Expressions(
        facts,
        has_params=spec.get("paramKind") is not None,
        variables=tuple(variables),
        known=frozenset(_all_expressions(_spec(old)) if old else ()),
    )


def _all_expressions(spec: Object) -> list[str]:
    found: list[str] = []
    for field in ("matchConditions", "validations", "auditAnnotations"):
        for item in spec.get(field) or ():
            found += [
                item[key]
                for key in ("expression", "messageExpression", "valueExpression")
                if item.get(key)
            ]
    for mutation in spec.get("mutations") or ():
        for field in ("applyConfiguration", "jsonPatch"):
            found.append((mutation.get(field) or {}).get("expression", ""))
    return found


def _common_errors(
    spec: Object, old: Object | None, expressions: Expressions, *, mutating: bool
) -> list[FieldError]:
    """What validating and mutating policies share, up to their variables."""
    failure = spec.get("failurePolicy")
    errors: list[FieldError] = [] if failure is not None else [required("spec.failurePolicy")]
    errors += choice_errors(failure, FAILURE_POLICIES, "spec.failurePolicy")
    kind = spec.get("paramKind")
    if kind is not None:
        errors += _param_kind_errors(kind, "spec.paramKind")
    match, path = spec.get("matchConstraints"), "spec.matchConstraints"
    if match is None:
        errors.append(required(path))
    else:
        errors += match_resources_errors(match, path)
        if not match.get("resourceRules"):
            errors.append(required(f"{path}.resourceRules"))
        if mutating:
            errors += operations_errors(match, f"{path}.resourceRules.operations")
    before = _spec(old) if old else None
    unchanged = before is not None and all(
        same(spec.get(field), before.get(field)) for field in ("paramKind", "matchConditions")
    )
    if not unchanged:
        errors += match_conditions_errors(
            spec.get("matchConditions"), expressions, "spec.matchConditions"
        )
    return errors + _variables_errors(spec.get("variables") or (), expressions)


def _param_kind_errors(kind: Object, path: str) -> list[FieldError]:
    api_version, kind_name = kind.get("apiVersion", ""), kind.get("kind", "")
    errors: list[FieldError] = []
    if not api_version:
        errors.append(required(f"{path}.apiVersion"))
    elif api_version.count("/") > 1:
        why = f"unexpected GroupVersion string: {api_version}"
        errors.append(invalid(f"{path}.apiVersion", api_version, why))
    else:
        errors += _group_version_errors(api_version, f"{path}.apiVersion")
    if not kind_name:
        errors.append(required(f"{path}.kind"))
    else:
        messages = names.dns1035_label(kind_name.lower())
        if messages:
            why = "may have mixed case, but should otherwise match: " + ",".join(messages)
            errors.append(invalid(f"{path}.kind", kind_name, why))
    return errors


def _group_version_errors(api_version: str, path: str) -> list[FieldError]:
    group, _, version = api_version.rpartition("/")
    errors = []
    messages = names.dns1123_subdomain(group) if group else []
    if messages:
        errors.append(invalid(path, group, ",".join(messages)))
    if not version:
        errors.append(invalid(path, api_version, "version must be specified"))
    else:
        messages = names.dns1035_label(version)
        if messages:
            errors.append(invalid(path, version, ",".join(messages)))
    return errors


def _variables_errors(variables: Sequence[Object], expressions: Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        path = f"spec.variables[{index}]"
        variable_name, expression = variable.get("name", ""), variable.get("expression", "")
        if not variable_name.strip():
            errors.append(required(f"{path}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(variable_name) or variable_name in _RESERVED:
            why = "must be a valid CEL identifier"
            errors.append(invalid(f"{path}.name", variable_name, why))
        if not expression.strip():
            errors.append(required(f"{path}.expression", "expression is not specified"))
        else:
            errors += expressions.before(index).errors(expression, "variable", f"{path}.expression")
    return errors


# ValidatingAdmissionPolicy


def _policy_errors(obj: Object, old: Object | None, facts: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, name_is_subdomain)
    spec = _spec(obj)
    expressions = _expressions(spec, old, facts)
    errors += _common_errors(spec, old, expressions, mutating=False)
    validations = spec.get("validations") or []
    annotations_ = spec.get("auditAnnotations") or []
    if not validations and not annotations_:
        why = "validations or auditAnnotations must contain at least one item"
        fields = ("spec.validations", "spec.auditAnnotations")
        return errors + [required(field, why) for field in fields]
    for index, validation in enumerate(validations):
        errors += _validation_errors(validation, expressions, f"spec.validations[{index}]")
    if len(annotations_) > _ANNOTATIONS_MAX:
        shown = [
            {"Key": a.get("key", ""), "ValueExpression": a.get("valueExpression", "")}
            for a in annotations_
        ]
        why = f"must not have more than {_ANNOTATIONS_MAX} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", shown, why))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations_):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        errors += _annotation_errors(annotation, name(obj), expressions, path)
        if key in seen:
            errors.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return errors


def _validation_errors(validation: Object, expressions: Expressions, path: str) -> list[FieldError]:
    expression = validation.get("expression", "")
    errors: list[FieldError] = []
    if not expression.strip():
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += expressions.errors(expression, "validation", f"{path}.expression")
    message_expression = validation.get("messageExpression", "")
    if message_expression and not message_expression.strip():
        why = "must be non-empty if specified"
        errors.append(invalid(f"{path}.messageExpression", message_expression, why))
    elif message_expression:
        at = f"{path}.messageExpression"
        errors += expressions.errors(
            message_expression, "messageExpression", at, has_authorizer=False
        )
    message = validation.get("message", "")
    if message and not message.strip():
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif re.search(r"[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    return errors + choice_errors(validation.get("reason"), _REASONS, f"{path}.reason")


def _annotation_errors(
    annotation: Object, policy_name: str, expressions: Expressions, path: str
) -> list[FieldError]:
    key, expression = annotation.get("key", ""), annotation.get("valueExpression", "")
    if policy_name:
        errors = validate_label_key(f"{policy_name}/{key}", f"{path}.key")
    else:
        errors = [invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    at, trimmed = f"{path}.valueExpression", expression.strip()
    if not trimmed:
        errors.append(required(at, "valueExpression is not specified"))
    elif names.byte_length(trimmed) > _ANNOTATION_EXPRESSION_MAX:
        why = f"must not exceed {_ANNOTATION_EXPRESSION_MAX} bytes in length"
        errors.append(required(at, why))
    else:
        errors += expressions.errors(expression, "auditAnnotation", at)
    return errors


def _status_errors(new: Object, _: Object, __: Facts) -> list[FieldError]:
    status = new.get("status") or {}
    errors: list[FieldError] = []
    checking = status.get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        if not warning.get("warning"):
            errors.append(required(f"{path}.warning"))
        errors += _field_ref_errors(warning.get("fieldRef", "").strip(), f"{path}.fieldRef")
    return errors + validate_conditions(status.get("conditions"), "status.conditions")


def _field_ref_errors(reference: str, path: str) -> list[FieldError]:
    if not reference:
        return [required(path)]
    # Upstream only parses here, and there a bare name is no error yet.
    rooted = f".{reference}" if reference[0].isalpha() else reference
    try:
        jsonpath.parse(f"{{{rooted}}}")
    except jsonpath.JSONPathError as error:
        return [invalid(path, reference, f"invalid JSONPath: {error}")]
    return []


# MutatingAdmissionPolicy


def _mutating_policy_errors(obj: Object, old: Object | None, facts: Facts) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, name_is_subdomain)
    spec = _spec(obj)
    expressions = _expressions(spec, old, facts)
    errors += _common_errors(spec, old, expressions, mutating=True)
    mutations = spec.get("mutations") or []
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        errors += _mutation_errors(mutation, expressions, f"spec.mutations[{index}]")
    policy, path = spec.get("reinvocationPolicy"), "spec.reinvocationPolicy"
    return errors + (
        choice_errors(policy, REINVOCATION_POLICIES, path) if policy else [required(path)]
    )


def _mutation_errors(mutation: Object, expressions: Expressions, path: str) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCH_TYPES:
        return [not_supported(f"{path}.patchType", kind, _PATCH_TYPES)]
    chosen, other = ("jsonPatch", "applyConfiguration")
    if kind == "ApplyConfiguration":
        chosen, other = other, chosen
    errors: list[FieldError] = []
    patch = mutation.get(chosen)
    if patch is None:
        errors.append(required(f"{path}.{chosen}", f"must be specified when patchType is {kind}"))
    else:
        at, expression = f"{path}.{chosen}.expression", patch.get("expression", "").strip()
        if not expression:
            errors.append(required(at))
        else:
            errors += expressions.errors(expression, chosen, at, has_patch_types=True)
    if mutation.get(other) is not None:
        why = f"must not be specified when patchType is {kind}"
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", why))
    return errors


def _prepare_policy(obj: Object, _: Facts) -> None:
    obj["status"] = {}
    set_generation(obj)


def _prepare_policy_update(new: Object, old: Object, facts: Facts) -> None:
    keep(new, old, "status")
    _prepare_update(new, old, facts)


def _prepare_update(new: Object, old: Object, _: Facts) -> None:
    if not same(_spec(new), _spec(old)):
        bump_generation(new, old)


def _prepare_status(new: Object, old: Object, _: Facts) -> None:
    keep(new, old, "spec")
    keep_metadata_for_status(new, old)


def _warnings(new: Object, _: Object | None, __: Facts) -> list[str]:
    return name_warnings(name(new))


VALIDATING_POLICY = KindRules(
    default=_default_policy,
    prepare_for_create=_prepare_policy,
    prepare_for_update=_prepare_policy_update,
    validate=lambda obj, facts: _policy_errors(obj, None, facts),
    validate_update=_policy_errors,
    warnings=_warnings,
    unconditional_update=False,
    subresources={
        "status": KindRules(
            default=_default_policy,
            prepare_for_update=_prepare_status,
            validate_update=_status_errors,
            warnings=_warnings,
            unconditional_update=False,
        )
    },
)

MUTATING_POLICY = KindRules(
    default=_default_policy,
    prepare_for_create=lambda obj, _: set_generation(obj),
    prepare_for_update=_prepare_update,
    validate=lambda obj, facts: _mutating_policy_errors(obj, None, facts),
    validate_update=_mutating_policy_errors,
    warnings=_warnings,
    unconditional_update=False,
)
