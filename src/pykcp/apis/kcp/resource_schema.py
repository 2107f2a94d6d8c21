"""APIResourceSchema: validated like a CRD, each version separately; immutable."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import orjson

from pykcp.apis.kube.validation.crd.definition import approval_errors, is_protected
from pykcp.apis.kube.validation.crd.names import names_errors
from pykcp.apis.kube.validation.crd.spec import (
    ONE_WORD_GROUPS,
    required_names_errors,
    version_errors,
    versions_of,
)
from pykcp.apis.kube.validation.objectmeta import same
from pykcp.apis.kube.validation.rules import Facts
from pykcp.apis.loader import library
from pykcp.machinery import names
from pykcp.machinery.schema.decode import DecodeError, TypedDecoder, decoder_for
from pykcp.machinery.status import FieldError, invalid, required
from pykcp.types import Object

_PREFIX = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"


def resource_schema_errors(obj: Object, facts: Facts) -> list[FieldError]:
    """What is wrong with a schema beyond what its own kind says."""
    spec = obj.get("spec") or {}
    errors = _name_errors((obj.get("metadata") or {}).get("name", ""), spec)
    if is_protected(obj):
        errors += approval_errors(obj)
    return errors + _group_errors(spec.get("group", "")) + _spec_errors(spec, facts)


def resource_schema_update_errors(new: Object, old: Object, facts: Facts) -> list[FieldError]:
    errors = resource_schema_errors(new, facts)
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if not same(spec, before) or _exact_parts(spec) != _exact_parts(before):
        errors.append(invalid("spec", _shown_spec(spec), "is immutable"))
    return errors


def _exact_parts(spec: Object) -> list[object]:
    """What means something although it is empty: schemas, and a status without properties."""
    return [
        (version.get("schema"), (version.get("subresources") or {}).keys())
        for version in spec.get("versions") or []
    ]


def _name_errors(name: str, spec: Object) -> list[FieldError]:
    plural = (spec.get("names") or {}).get("plural", "")
    if not plural:
        return []
    ending = f".{plural}.{spec.get('group') or 'core'}"
    if not name.endswith(ending):
        return [invalid("metadata.name", name, f"must end in {ending}")]
    if not re.match(_PREFIX, name.removesuffix(ending)):
        return [invalid("metadata.name", name, f"must match {_PREFIX} in front of {ending}")]
    return []


def _group_errors(group: str) -> list[FieldError]:
    path = "spec.group"
    if not group:
        return []  # the core group
    if group == "core":
        return [invalid(path, group, "must be empty string for the core group")]
    messages = names.dns1123_subdomain(group)
    if messages:
        return [invalid(path, group, ",".join(messages))]
    if "." not in group and group not in ONE_WORD_GROUPS:
        return [invalid(path, group, "should be a domain with at least one dot")]
    return []


def _spec_errors(spec: Object, facts: Facts) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = versions_of(spec)
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        messages = names.dns1035_label(name)
        if messages:
            errors.append(invalid(f"{path}.name", name, ",".join(messages)))
        errors += _version_errors(version, path, facts)
    known = [version.get("name", "") for version in versions]
    shown = [_shown_version(version) for version in versions]
    if len(set(known)) < len(known):
        errors.append(invalid("spec.versions", shown, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        why = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", shown, why))
    given = spec.get("names") or {}
    return errors + required_names_errors(given) + names_errors(given, "spec.names")


def _version_errors(version: Object, path: str, facts: Facts) -> list[FieldError]:
    raw, at = version.get("schema"), f"{path}.schema"
    without = {**version, "schema": None}
    if raw is None:
        return [required(at), *version_errors(without, path, facts)]
    text = orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)
    try:
        schema = _decoder().decode(orjson.loads(text), [])
    except DecodeError as error:
        bad = invalid(at, text.decode(), f"invalid JSON: {error}")
        return [bad, *version_errors(without, path, facts)]
    return version_errors({**version, "schema": {"openAPIV3Schema": schema}}, path, facts)


@cache
def _decoder() -> TypedDecoder:
    return decoder_for(library().kind("kube/apiextensions_v1", "JSONSchemaProps"))


# Values as Go's types show them in errors


def _in_order(value: Object, always: str, optional: str = "") -> Object:
    out = {name: value[name] for name in always.split() if name in value}
    return out | {name: value[name] for name in optional.split() if value.get(name)}


def _shown_version(version: Object) -> Object:
    out = _in_order(version, "name served storage", "deprecated")
    out |= _in_order(version, "deprecationWarning")
    out["schema"] = orjson.loads(orjson.dumps(version.get("schema"), option=orjson.OPT_SORT_KEYS))
    out["subresources"] = version.get("subresources") or {}
    return out | _in_order(version, "", "additionalPrinterColumns selectableFields")


def _shown_spec(spec: Object) -> Object:
    given = spec.get("names") or {}
    shown: dict[str, Any] = {
        **_in_order(given, "plural", "singular shortNames"),
        **_in_order(given, "kind", "listKind categories"),
    }
    out: Object = {"group": spec.get("group", ""), "names": shown, "scope": spec.get("scope", "")}
    out["versions"] = [_shown_version(version) for version in versions_of(spec)]
    return out | _in_order(spec, "", "nameValidation conversion")
