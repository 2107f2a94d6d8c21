"""CertificateSigningRequest, with its status and approval.

The requester is stamped in on creation and the spec never changes afterwards. Approval and
denial are conditions that only the approval subresource can set, once; the certificate is set
by the status subresource, once.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from itertools import islice

from pykcp.apis.kube.validation import pem
from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    same,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules, keep
from pykcp.machinery import names
from pykcp.machinery.meta import metadata, now_rfc3339
from pykcp.machinery.status import (
    MAX_FIELD_ERRORS,
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykcp.types import Object

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection",
    "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_ALWAYS_TRUE = frozenset(("Approved", "Denied", "Failed"))
_STATUSES = ("False", "True", "Unknown")
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"
_DOMAIN_MAX = names.SUBDOMAIN_MAX
_SIGNER_MAX = _DOMAIN_MAX + names.SUBDOMAIN_MAX + names.LABEL_MAX + 2


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """What an update may carry on because the old object has it already."""

    both_decisions: bool = False
    legacy_signer: bool = False
    repeated_conditions: bool = False
    empty_condition: bool = False
    any_certificate: bool = False
    repeated_usages: bool = False
    unknown_usages: bool = False


def _tolerance(new: Object, old: Object) -> _Tolerance:
    kinds = [condition.get("type", "") for condition in _conditions(old)]
    spec = old.get("spec") or {}
    usages = spec.get("usages") or []
    certificate = _certificate(old)
    return _Tolerance(
        both_decisions="Approved" in kinds and "Denied" in kinds,
        legacy_signer=spec.get("signerName") == LEGACY_SIGNER,
        repeated_conditions=len(set(kinds)) < len(kinds),
        empty_condition="" in kinds,
        any_certificate=(
            _certificate(new) == certificate or pem.certificates_error(certificate) is not None
        ),
        repeated_usages=len(set(usages)) < len(usages),
        unknown_usages=not set(usages) <= set(_USAGES),
    )


def _conditions(obj: Object) -> list[Object]:
    return (obj.get("status") or {}).get("conditions") or []


def _certificate(obj: Object) -> bytes:
    return base64.b64decode((obj.get("status") or {}).get("certificate") or "")


def _prepare(obj: Object, facts: Facts) -> None:
    spec = {
        name: value
        for name, value in (obj.get("spec") or {}).items()
        if name not in {"username", "uid", "groups", "extra"}
    }
    stamp = {"username": facts.username, "uid": facts.uid, "groups": list(facts.groups)}
    spec.update({name: value for name, value in stamp.items() if value})
    if facts.extra:
        spec["extra"] = {key: list(values) for key, values in facts.extra.items()}
    obj["spec"] = spec
    obj["status"] = {}


def _prepare_status(new: Object, old: Object, facts: Facts) -> None:
    keep(new, old, "spec")
    for kind in ("Approved", "Denied"):
        _preserve_conditions(new, old, kind)
    _stamp_conditions(new, old, facts)


def _preserve_conditions(new: Object, old: Object, kind: str) -> None:
    """The decision stays as it was, if there are as many of them as before."""
    before = [condition for condition in _conditions(old) if condition.get("type") == kind]
    after = _conditions(new)
    places = [index for index, found in enumerate(after) if found.get("type") == kind]
    if len(places) == len(before):
        for index, condition in zip(places, before, strict=True):
            after[index] = condition


def _stamp_conditions(new: Object, old: Object, facts: Facts) -> None:
    now = now_rfc3339(facts.now)
    for condition in _conditions(new):
        condition["lastUpdateTime"] = condition.get("lastUpdateTime") or now
        if not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = _last_transition(condition, old) or now


def _last_transition(condition: Object, old: Object) -> str | None:
    for before in _conditions(old):
        same_state = all(before.get(f) == condition.get(f) for f in ("type", "status"))
        if same_state and before.get("lastTransitionTime"):
            return str(before["lastTransitionTime"])
    return None


def _prepare_approval(new: Object, old: Object, facts: Facts) -> None:
    _stamp_conditions(new, old, facts)
    conditions = _conditions(new)
    keep(new, old, "spec")
    new["status"] = {k: v for k, v in (old.get("status") or {}).items() if k != "conditions"}
    if conditions:
        new["status"]["conditions"] = conditions


def _errors(obj: Object, tolerance: _Tolerance) -> list[FieldError]:
    errors = validate_object_meta(metadata(obj), False, lambda *_: [], kube_finalizers=True)
    spec = obj.get("spec") or {}
    request = spec.get("request")
    problem = pem.request_error(base64.b64decode(request or ""))
    if problem:
        errors.append(invalid("spec.request", request, problem))
    errors += _usages_errors(spec.get("usages") or [], tolerance)
    signer = spec.get("signerName", "")
    if signer == LEGACY_SIGNER and not tolerance.legacy_signer:
        why = "the legacy signerName is not allowed via this API version"
        errors.append(invalid("spec.signerName", signer, why))
    else:
        errors += signer_name_errors(signer, "spec.signerName")
    expiration = spec.get("expirationSeconds")
    if expiration is not None and expiration < 600:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", expiration, why))
    errors += _conditions_errors(_conditions(obj), tolerance)
    if not tolerance.any_certificate:
        problem = pem.certificates_error(_certificate(obj))
        if problem:
            errors.append(invalid("status.certificate", "<certificate data>", problem))
    return errors


def _usages_errors(usages: list[str], tolerance: _Tolerance) -> list[FieldError]:
    errors = [] if usages else [required("spec.usages")]
    if not tolerance.unknown_usages:
        unknown = (index for index, usage in enumerate(usages) if usage not in _USAGES)
        errors += [
            not_supported(f"spec.usages[{index}]", usages[index], _USAGES)
            for index in islice(unknown, MAX_FIELD_ERRORS + 1)
        ]
    if not tolerance.repeated_usages:
        first: dict[str, int] = {}
        again = (i for i, usage in enumerate(usages) if first.setdefault(usage, i) != i)
        errors += [
            duplicate(f"spec.usages[{index}]", usages[index])
            for index in islice(again, MAX_FIELD_ERRORS + 1)
        ]
    return errors


def signer_name_errors(signer: str, path: str) -> list[FieldError]:
    """`example.com/signer-name`, with limits on both halves."""
    if not signer:
        return [required(path)]
    segments = signer.split("/")
    if len(segments) != 2:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, signer, why)]
    domain, rest = segments
    errors = []
    if names.byte_length(domain) > _DOMAIN_MAX:
        errors.append(too_long(path, _DOMAIN_MAX))
    errors += _first_bad_label(domain, names.dns1123_label, path)
    if "." not in domain:
        why = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, why))
    errors += _first_bad_label(rest, names.dns1123_subdomain, path)
    if names.byte_length(signer) > _SIGNER_MAX:
        errors.append(too_long(path, _SIGNER_MAX))
    return errors


def _first_bad_label(segment: str, rule: names.NameRule, path: str) -> list[FieldError]:
    for label in segment.split("."):
        messages = rule(label)
        if messages:
            lead = f"validating label {go_quote(label)}: "
            return each_invalid(path, segment, [lead + message for message in messages])
    return []


def _conditions_errors(conditions: list[Object], tolerance: _Tolerance) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind, status = condition.get("type", ""), condition.get("status", "")
        if not kind and not tolerance.empty_condition:
            errors.append(required(f"{path}.type"))
        allowed = ("True",) if kind in _ALWAYS_TRUE else _STATUSES
        if not status:
            errors.append(required(f"{path}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{path}.status", status, allowed))
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen and not tolerance.both_decisions:
            errors.append(invalid("status.conditions", kind, _EXCLUSIVE))
        if kind in seen and not tolerance.repeated_conditions:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    return errors


def _update_errors(
    new: Object, old: Object, *, certificate: bool = False, approval: bool = False
) -> list[FieldError]:
    errors = _errors(new, _tolerance(new, old))
    path = "status.conditions"
    for kind in ("Approved", "Denied", "Failed"):
        if len(_of_kind(new, kind)) < len(_of_kind(old, kind)):
            why = f'updates may not remove a condition of type "{kind}"'
            errors.append(forbidden(path, why))
    if not approval:
        for kind in ("Approved", "Denied"):
            before, after = _of_kind(old, kind), _of_kind(new, kind)
            if len(after) > len(before):
                why = f'updates may not add a condition of type "{kind}"'
                errors.append(forbidden(path, why))
            elif len(after) == len(before) and not same(before, after):
                why = f'updates may not modify a condition of type "{kind}"'
                errors.append(forbidden(path, why))
    if _certificate(new) != _certificate(old):
        if not certificate:
            why = "updates may not set certificate content"
            errors.append(forbidden("status.certificate", why))
        elif _certificate(old):
            why = "updates may not modify existing certificate content"
            errors.append(forbidden("status.certificate", why))
    return errors + validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)


def _of_kind(obj: Object, kind: str) -> list[Object]:
    return [condition for condition in _conditions(obj) if condition.get("type") == kind]


CERTIFICATE_SIGNING_REQUEST = KindRules(
    prepare_for_create=_prepare,
    prepare_for_update=lambda new, old, _: keep(new, old, "spec", "status"),
    validate=lambda obj, _: _errors(obj, _Tolerance()),
    validate_update=lambda new, old, _: _update_errors(new, old),
    field_labels=("metadata.name", "spec.signerName"),
    selectable=lambda obj: {"spec.signerName": (obj.get("spec") or {}).get("signerName", "")},
    subresources={
        "status": KindRules(
            prepare_for_update=_prepare_status,
            validate_update=lambda new, old, _: _update_errors(new, old, certificate=True),
        ),
        "approval": KindRules(
            prepare_for_update=_prepare_approval,
            validate_update=lambda new, old, _: _update_errors(new, old, approval=True),
        ),
    },
)
