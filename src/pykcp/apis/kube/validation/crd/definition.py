"""CustomResourceDefinition: the whole object, its status, its warnings.

The CEL rules and the values of defaults are judged by the checks that come with the request's
facts; everything else is judged here and in the modules beside.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.apis.kube.validation import gourl
from pykcp.apis.kube.validation.crd.names import names_errors
from pykcp.apis.kube.validation.crd.spec import (
    SpecStrictness,
    internal,
    schema_of,
    spec_errors,
    spec_of,
    strictness_of,
    versions_of,
)
from pykcp.apis.kube.validation.crd.structural import nodes
from pykcp.apis.kube.validation.objectmeta import (
    name_is_subdomain,
    same,
    unchanged,
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
from pykcp.machinery.kcp.bound_crd import BOUND
from pykcp.machinery.meta import annotation, metadata
from pykcp.machinery.status import FieldError, go_quote, invalid, required
from pykcp.types import Object

APPROVAL_ANNOTATION = "api-approved.kubernetes.io"
_PULL = "see https://github.com/kubernetes/enhancements/pull/1111"
_TEXT_FORMATS = frozenset((
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3",
    "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor",
    "byte", "password", "date", "duration", "datetime", "k8sshortname", "k8slongname",
))  # fmt: skip
_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


# Defaults and preparation


def _default(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    given = spec.setdefault("names", {})
    kind = given.get("kind", "")
    if not given.get("singular") and kind:
        given["singular"] = kind.lower()
    if not given.get("listKind") and kind:
        given["listKind"] = kind + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    webhook = spec["conversion"].get("webhook") or {}
    service = (webhook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443
    for version in versions_of(spec):
        for node in nodes(schema_of(version)):
            for keyword in ("default", "example"):
                if keyword in node and node[keyword] is None:
                    del node[keyword]
    status = obj.setdefault("status", {})
    if not status.get("storedVersions"):
        _store_version(status, spec)


def _store_version(status: Object, spec: Object) -> None:
    """The first storage version counts as stored from the moment it is asked for."""
    for version in versions_of(spec):
        if version.get("storage"):
            stored = status.get("storedVersions") or []
            if version.get("name", "") not in stored:
                status["storedVersions"] = [*stored, version.get("name", "")]
            return


def _prepare(obj: Object, _: Facts) -> None:
    obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
    _store_version(obj["status"], spec_of(obj))
    set_generation(obj)


def _prepare_update(new: Object, old: Object, _: Facts) -> None:
    keep(new, old, "status")
    new["status"] = {**(new.get("status") or {})}
    if not same(spec_of(new), spec_of(old)):
        bump_generation(new, old)
    _store_version(new["status"], spec_of(new))


# Validation


def _validate(obj: Object, facts: Facts) -> list[FieldError]:
    spec = spec_of(obj)
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    in_core_group = _in_core_group(obj)
    if in_core_group:
        wanted += "core"
    is_bound = _is_bound(obj)

    def name_rule(name: str, prefix: bool) -> list[str]:
        messages = name_is_subdomain(name, prefix)
        if name != wanted and not is_bound:
            messages.append('must be spec.names.plural+"."+spec.group')
        return messages

    errors = validate_object_meta(metadata(obj), False, name_rule)
    errors += spec_errors(spec, SpecStrictness(), facts, in_core_group=in_core_group)
    return errors + _other_errors(obj, None)


def _in_core_group(obj: Object) -> bool:
    """kcp: a definition named `<plural>.core` without a group adds to /api/v1."""
    spec = spec_of(obj)
    plural = (spec.get("names") or {}).get("plural", "")
    if spec.get("group"):
        return False
    return metadata(obj).get("name") == f"{plural}.core" or _is_bound(obj)


def _is_bound(obj: Object) -> bool:
    """A bound schema, which is named by a UID. Admission reserves the annotation for the system."""
    return BOUND in (metadata(obj).get("annotations") or {})


def _validate_update(new: Object, old: Object, facts: Facts) -> list[FieldError]:
    strictness = strictness_of(new, old)
    spec, before = spec_of(new), spec_of(old)
    errors = validate_object_meta_update(metadata(new), metadata(old))
    errors += spec_errors(spec, strictness, facts, in_core_group=_in_core_group(new))
    names_now, names_before = spec.get("names") or {}, before.get("names") or {}
    if strictness.fixed_names:
        errors += unchanged(spec.get("scope", ""), before.get("scope", ""), "spec.scope")
        kinds = (names_now.get("kind", ""), names_before.get("kind", ""))
        errors += unchanged(*kinds, "spec.names.kind")
    errors += unchanged(spec.get("group", ""), before.get("group", ""), "spec.group")
    plurals = (names_now.get("plural", ""), names_before.get("plural", ""))
    errors += unchanged(*plurals, "spec.names.plural")
    return errors + _other_errors(new, old)


def _other_errors(obj: Object, old: Object | None) -> list[FieldError]:
    """What is not in the spec, and what spec and status say of each other."""
    status = obj.get("status") or {}
    errors = names_errors(status.get("acceptedNames") or {}, "status.acceptedNames")
    errors += _stored_versions_errors(status.get("storedVersions"), versions_of(spec_of(obj)))
    errors += _approval_errors(obj, old)
    preserves = spec_of(obj).get("preserveUnknownFields")
    if preserves and not (old and spec_of(old).get("preserveUnknownFields")):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true "
            "in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, why))
    return errors


def _stored_versions_errors(stored: list[str] | None, versions: list[Object]) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    errors = [
        invalid(path, stored, f"must have the storage version {version.get('name', '')}")
        for version in versions
        if version.get("storage") and version.get("name", "") not in stored
    ]
    known = {version.get("name", "") for version in versions}
    for index, name in enumerate(stored):
        if name not in known:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must "
                "remain in spec.versions until a storage migration ensures no data remains "
                f"persisted in {name} and removes {name} from status.storedVersions"
            )
            errors.append(invalid(f"{path}[{index}]", name, why))
    return errors


def _approval_errors(obj: Object, old: Object | None) -> list[FieldError]:
    """Groups of the Kubernetes community need a reference to their approval."""
    if not is_protected(obj):
        return []
    state, _ = approval_of(obj)
    if old is not None and approval_of(old)[0] == state:
        return []
    return approval_errors(obj)


def approval_errors(obj: Object) -> list[FieldError]:
    """What is missing of the approval of an object whose group needs one."""
    state, message = approval_of(obj)
    path = f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    if state == "missing":
        return [required(path, message)]
    if state == "invalid":
        return [invalid(path, annotation(obj, APPROVAL_ANNOTATION), message)]
    return []


def is_protected(crd: Object) -> bool:
    """Whether the definition is in a group of the Kubernetes community."""
    group = spec_of(crd).get("group", "")
    return any(group == own or group.endswith("." + own) for own in ("k8s.io", "kubernetes.io"))


def approval_of(crd: Object) -> tuple[str, str]:
    """missing, invalid, bypassed or approved, and a text that says so."""
    text = annotation(crd, APPROVAL_ANNOTATION)
    lead = f"protected groups must have approval annotation {go_quote(APPROVAL_ANNOTATION)}"
    state = _approval_state(text)
    return state, {
        "missing": f"{lead}, {_PULL}",
        "invalid": f'{lead} with either a URL or a reason starting with "unapproved", {_PULL}',
        "bypassed": f"not approved: {go_quote(text)}",
        "approved": f"approved in {text}",
    }[state]


def _approval_state(text: str) -> str:
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        url = gourl.parse(text)
    except gourl.GoURLError:
        return "invalid"
    return "approved" if url.scheme and url.host else "invalid"


# Status and warnings


def _validate_status(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = validate_object_meta_update(metadata(new), metadata(old))
    status = new.get("status") or {}
    return errors + names_errors(status.get("acceptedNames") or {}, "status.acceptedNames")


def _warnings(new: Object, old: Object | None, _: Facts) -> list[str]:
    known = set(_unrecognized_formats(spec_of(old))) if old else set()
    return [
        f"unrecognized format {go_quote(found)}"
        for found in _unrecognized_formats(spec_of(new))
        if found not in known
    ]


def _unrecognized_formats(spec: Object) -> Iterator[str]:
    judged = internal(spec)
    holders = [judged.get("validation"), *(v.get("schema") for v in versions_of(judged))]
    for holder in holders:
        for node in nodes((holder or {}).get("openAPIV3Schema")):
            text = node.get("format", "")
            if text and not _is_known_format(node.get("type", ""), text):
                yield text


def _is_known_format(kind: str, text: str) -> bool:
    if kind in {"", "string"}:
        return text.replace("-", "") in _TEXT_FORMATS
    return text in _NUMBER_FORMATS.get(kind, ())


CUSTOM_RESOURCE_DEFINITION = KindRules(
    default=_default,
    prepare_for_create=_prepare,
    prepare_for_update=_prepare_update,
    validate=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
    unconditional_update=False,
    subresources={
        "status": KindRules(
            default=_default,
            prepare_for_update=lambda new, old, _: keep(new, old, "spec"),
            validate_update=_validate_status,
            unconditional_update=False,
        )
    },
)
