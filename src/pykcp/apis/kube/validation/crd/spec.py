"""The spec of a CRD.

Upstream judges an internal form in which what all versions have in common stands at the top
of the spec, so that is what errors name: a definition with one version has its schema's errors
under `spec.validation`. `internal` makes that form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pykcp.apis.kube.validation import pem
from pykcp.apis.kube.validation.crd import schema as crd_schema
from pykcp.apis.kube.validation.crd.conversion import (
    choice_errors,
    conversion_errors,
    knows_review_version,
)
from pykcp.apis.kube.validation.crd.defaults import default_errors, has_unknown_fields
from pykcp.apis.kube.validation.crd.go_fields import go_version
from pykcp.apis.kube.validation.crd.names import column_errors, names_errors, subresource_errors
from pykcp.apis.kube.validation.crd.paths import PathProblem, field_at
from pykcp.apis.kube.validation.crd.schema import SchemaStrictness
from pykcp.apis.kube.validation.crd.structural import nodes, problem, structural_errors
from pykcp.apis.kube.validation.objectmeta import each_invalid, same
from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery import conditions, names
from pykcp.machinery.status import FieldError, duplicate, invalid, required, too_many
from pykcp.types import Object

_SELECTABLE_MAX = 8
ONE_WORD_GROUPS = frozenset(("apps", "batch", "extensions", "policy", "autoscaling"))
"""Groups of Kubernetes whose kinds kcp does not serve itself, so that CRDs may define them."""


@dataclass(frozen=True, slots=True)
class SpecStrictness:
    """What holds for new definitions; an update need not be better than what it replaces."""

    known_review_version: bool = True
    fixed_names: bool = False
    schema_required: bool = True
    known_defaults: bool = True
    schema: SchemaStrictness = field(default_factory=SchemaStrictness)
    any_ca_bundle: bool = True
    many_selectable: frozenset[str] = frozenset()
    stored_rules: frozenset[str] = frozenset()
    unchanged_versions: frozenset[str] = frozenset()


def spec_of(obj: Object) -> Object:
    return obj.get("spec") or {}


def versions_of(spec: Object) -> list[Object]:
    return spec.get("versions") or []


def schema_of(version: Object) -> Object | None:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _schemas(spec: Object) -> Iterator[Object]:
    for version in versions_of(spec):
        schema = schema_of(version)
        if schema is not None:
            yield schema


def strictness_of(new: Object, old: Object) -> SpecStrictness:
    before, after = spec_of(old), spec_of(new)
    schemas = list(_schemas(before))
    webhook = (before.get("conversion") or {}).get("webhook") or {}
    review_versions = webhook.get("conversionReviewVersions") or []
    stored = {v.get("name", ""): v for v in versions_of(before)}
    kept = [(v, stored[v.get("name", "")]) for v in versions_of(after) if v.get("name") in stored]
    return SpecStrictness(
        known_review_version=not review_versions or knows_review_version(review_versions),
        fixed_names=conditions.is_true(old, "Established"),
        schema_required=all(schema_of(v) is not None for v in versions_of(before)),
        known_defaults=not any(has_unknown_fields(s) for s in schemas),
        schema=SchemaStrictness(
            valid_types=not any(map(crd_schema.has_invalid_type, schemas)),
            atomic_sets=not any(map(crd_schema.has_non_atomic_set, schemas)),
            map_keys=not any(map(crd_schema.has_invalid_map_keys, schemas)),
        ),
        any_ca_bundle=_tolerates_ca_bundle(old, webhook),
        many_selectable=frozenset(_too_many_before(kept)),
        stored_rules=frozenset(rule for schema in schemas for rule in _rules_of(schema)),
        unchanged_versions=frozenset(
            v["name"] for v, before in kept if same(v.get("schema"), before.get("schema"))
        ),
    )


def _tolerates_ca_bundle(old: Object, webhook: Object) -> bool:
    if not conditions.is_true(old, "Established"):
        return True
    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
    return bool(bundle) and pem.ca_bundle_error(pem.decoded(bundle)) is not None


def _too_many_before(kept: list[tuple[Object, Object]]) -> Iterator[str]:
    for version, before in kept:
        fields = before.get("selectableFields") or []
        if len(fields) > _SELECTABLE_MAX and same(version.get("selectableFields"), fields):
            yield version["name"]
            yield ""


def _rules_of(schema: Object) -> Iterator[str]:
    for node in nodes(schema):
        for rule in node.get("x-kubernetes-validations") or ():
            yield rule.get("rule", "")
            yield rule.get("messageExpression", "")


_SHARED = {
    "subresources": "subresources",
    "schema": "validation",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}


def internal(spec: Object) -> Object:
    """The spec with what all versions share moved to the top, as upstream's internal type."""
    versions = [{**version} for version in versions_of(spec)]
    out = {**spec, "versions": versions if spec.get("versions") is not None else None}
    if not versions:
        return out
    out["version"] = versions[0].get("name", "")
    for name, top in _SHARED.items():
        first = versions[0].get(name)
        if all(same(version.get(name), first) for version in versions):
            if first is not None:
                out[top] = first
            for version in versions:
                version.pop(name, None)
    return out


def spec_errors(
    given: Object, strictness: SpecStrictness, facts: Facts, *, in_core_group: bool = False
) -> list[FieldError]:
    """`in_core_group`: kcp lets definitions named `<plural>.core` have no group."""
    spec = internal(given)
    errors = _identity_errors(spec, in_core_group=in_core_group)
    if strictness.schema_required and _top_schema(spec) is None:
        errors += [
            required(f"spec.versions[{index}].schema.openAPIV3Schema")
            for index, version in enumerate(versions_of(spec))
            if schema_of(version) is None
        ]
    if spec.get("preserveUnknownFields") and _has_defaults(given):
        why = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    errors += _versions_errors(spec, strictness, facts)
    errors += required_names_errors(spec.get("names") or {})
    errors += names_errors(spec.get("names") or {}, "spec.names")
    has_status = any(_has_status(v) for v in (spec, *versions_of(spec)))
    top = spec.get("validation")
    judging = _Judging(strictness, facts, spec.get("version", ""), has_status)
    errors += _validation_errors(top, "spec.validation", judging)
    errors += subresource_errors(spec.get("subresources"), "spec.subresources")
    for index, column in enumerate(spec.get("additionalPrinterColumns") or ()):
        errors += column_errors(column, f"spec.additionalPrinterColumns[{index}]")
    errors += _top_selectable_errors(spec, strictness)
    return errors + conversion_errors(
        spec,
        known_version=strictness.known_review_version,
        any_ca_bundle=strictness.any_ca_bundle,
    )


def _top_schema(spec: Object) -> Object | None:
    return (spec.get("validation") or {}).get("openAPIV3Schema")


def _has_status(holder: Object) -> bool:
    return (holder.get("subresources") or {}).get("status") is not None


def _has_defaults(spec: Object) -> bool:
    return any(n.get("default") is not None for s in _schemas(spec) for n in nodes(s))


def _identity_errors(spec: Object, *, in_core_group: bool) -> list[FieldError]:
    group, scope = spec.get("group", ""), spec.get("scope", "")
    errors: list[FieldError] = []
    messages = names.dns1123_subdomain(group)
    if not group:
        if not in_core_group:
            errors.append(required("spec.group"))
    elif messages:
        errors.append(invalid("spec.group", group, ",".join(messages)))
    elif "." not in group and group not in ONE_WORD_GROUPS:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    return errors + choice_errors(scope, ("Cluster", "Namespaced"), "spec.scope")


def _versions_errors(spec: Object, strictness: SpecStrictness, facts: Facts) -> list[FieldError]:
    versions = versions_of(spec)
    errors: list[FieldError] = []
    per_version = any(version.get("subresources") is not None for version in versions)
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        messages = names.dns1035_label(name)
        if messages:
            errors.append(invalid(f"{path}.name", name, ",".join(messages)))
        has_status = _has_status(version if per_version else spec)
        judging = _Judging(strictness, facts, name, has_status)
        errors += _version_errors(version, path, judging)
    shown = None if spec.get("versions") is None else [go_version(v) for v in versions]
    known = [version.get("name", "") for version in versions]
    if len(set(known)) < len(known):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        why = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", shown, why))
    first = spec.get("version", "")
    messages = names.dns1035_label(first) if first else []
    if messages:
        errors.append(invalid("spec.version", first, ",".join(messages)))
    return errors


@dataclass(frozen=True, slots=True)
class _Judging:
    """How one version's schema is looked at."""

    strictness: SpecStrictness
    facts: Facts
    version: str
    has_status: bool


def version_errors(version: Object, path: str, facts: Facts) -> list[FieldError]:
    """A version that stands for itself, under the rules of new definitions."""
    name = version.get("name", "")
    return _version_errors(
        version, path, _Judging(SpecStrictness(), facts, name, _has_status(version))
    )


def _version_errors(version: Object, path: str, judging: _Judging) -> list[FieldError]:
    errors = _deprecation_errors(version, f"{path}.deprecationWarning")
    errors += _validation_errors(version.get("schema"), f"{path}.schema", judging)
    errors += subresource_errors(version.get("subresources"), f"{path}.subresources")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        errors += column_errors(column, f"{path}.additionalPrinterColumns[{index}]")
    fields = version.get("selectableFields")
    if fields:
        at = f"{path}.selectableFields"
        openapi = schema_of(version)
        if openapi is None:
            why = "may only be set when `version.schema.openAPIV3Schema` is not included"
            errors.append(invalid(at, "", why))
        else:
            many = judging.version in judging.strictness.many_selectable
            errors += _selectable_errors(fields, openapi, at, many)
    return errors


def _deprecation_errors(version: Object, path: str) -> list[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return [invalid(path, text, "can only be set for deprecated versions")]
    messages = []
    if names.byte_length(text) > 256:
        messages.append("must be <= 256 characters long")
    if not text:
        messages.append("must not be an empty string")
    bad = next((i for i, ch in enumerate(text) if not ch.isprintable()), None)
    if bad is not None:
        at = len(text[:bad].encode())
        messages.append(
            "must only contain printable UTF-8 characters; "
            f"non-printable character found at index {at}"
        )
    return each_invalid(path, text, messages)


def _validation_errors(validation: Object | None, path: str, judging: _Judging) -> list[FieldError]:
    """One schema: root, structure, defaults, keywords, rules."""
    schema, at = (validation or {}).get("openAPIV3Schema"), f"{path}.openAPIV3Schema"
    if schema is None:
        return []
    strictness, facts = judging.strictness, judging.facts
    errors = crd_schema.root_errors(schema, at, has_status=judging.has_status)
    unreadable = problem(schema)
    sound = False
    if unreadable is None:
        found = structural_errors(schema, at)
        if not found:
            known = strictness.known_defaults
            found = default_errors(schema, at, facts, require_known=known)
        errors += found
        sound = not found
    errors += crd_schema.schema_errors(schema, at, strictness.schema)
    if not errors and unreadable is not None:
        errors.append(invalid(at, "", unreadable))
    if sound and facts.schema_checks is not None:
        kept = judging.version in strictness.unchanged_versions
        errors += facts.schema_checks.rules(
            schema, at, stored=strictness.stored_rules, unchanged=kept
        )
    return errors


def required_names_errors(given: Object) -> list[FieldError]:
    wanted = ("plural", "singular", "kind", "listKind")
    return [required(f"spec.names.{name}") for name in wanted if not given.get(name)]


def _top_selectable_errors(spec: Object, strictness: SpecStrictness) -> list[FieldError]:
    fields, path = spec.get("selectableFields"), "spec.selectableFields"
    if not fields:
        return []
    schema = _top_schema(spec)
    if schema is None:
        return [invalid(path, "", "may only be set when validations.schema is included")]
    return _selectable_errors(fields, schema, path, "" in strictness.many_selectable)


def _selectable_errors(
    fields: list[Object], schema: Object, path: str, many_allowed: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, ...]] = set()
    for index, selectable in enumerate(fields):
        at, text = f"{path}[{index}].jsonPath", selectable.get("jsonPath", "")
        if not text:
            errors.append(required(at))
            continue
        try:
            found = field_at(text, schema, allow_brackets=False)
        except PathProblem as error:
            errors.append(invalid(at, text, f"is an invalid path: {error}"))
            continue
        if found.steps[:1] == ("metadata",):
            errors.append(invalid(at, text, "must not point to fields in metadata"))
        if found.schema.get("type") not in {"string", "boolean", "integer"}:
            why = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(at, text, why))
        if found.steps in seen:
            errors.append(duplicate(at, text))
        seen.add(found.steps)
    if len(seen) > _SELECTABLE_MAX and not many_allowed:
        errors.append(too_many(path, len(seen), _SELECTABLE_MAX))
    return errors
