"""Validation of APIBindings beyond their schema."""

from __future__ import annotations

from pykcp.apis.kcp.conversion import selector as shown_selector
from pykcp.apis.kcp.export_rules import bad_claims
from pykcp.apis.kcp.round_trip import (
    ACCEPTABLE_CLAIMS,
    STATUS_APPLIED_CLAIMS,
    STATUS_EXPORT_CLAIMS,
    BadAnnotation,
    read_annotation,
)
from pykcp.machinery.status import FieldError, forbidden, go_quote, invalid, required
from pykcp.machinery.untyped import mapping, text
from pykcp.types import Object

_ONE_OF = "either one of matchAll, matchLabels, or matchExpressions must be set"


def export_reference(binding: Object) -> tuple[str, str]:
    """Path (empty: the binding's own cluster) and name of the export; no name if there is none."""
    reference = mapping(mapping(mapping(binding.get("spec")).get("reference")).get("export"))
    return text(reference.get("path")), text(reference.get("name"))


def binding_errors(new: Object, old: Object | None, *, has_selectors: bool) -> list[FieldError]:
    """`has_selectors`: claims are those of v1alpha2."""
    spec = new.get("spec") or {}
    errors = _reference_errors(spec.get("reference") or {})
    if has_selectors:
        for index, claim in enumerate(spec.get("permissionClaims") or ()):
            path = f"spec.permissionClaims[{index}].selector"
            errors += _selector_errors(claim.get("selector") or {}, path)
    was, now = _phase(old or {}), _phase(new)
    if was and not now:
        why = f"cannot transition from {go_quote(was)} to {go_quote(now)}"
        errors.append(forbidden("status.phase", why))
    return errors


def _phase(binding: Object) -> str:
    return str((binding.get("status") or {}).get("phase") or "")


def _reference_errors(reference: Object) -> list[FieldError]:
    export = reference.get("export")
    if export is None:
        return [required("spec.reference.export")]
    return [] if export.get("name") else [required("spec.reference.export.name")]


def _selector_errors(selector: Object, path: str) -> list[FieldError]:
    given = [name for name in ("matchLabels", "matchExpressions") if selector.get(name)]
    if not selector.get("matchAll"):
        return [] if given else [required(path, _ONE_OF)]
    shown = shown_selector(selector)
    return [invalid(f"{path}.{n}", shown, f"{n} cannot be used with matchAll") for n in given]


def bad_binding_round_trip(binding: Object) -> FieldError | None:
    """What is wrong with the annotations in which v1alpha1 keeps what only v1alpha2 knows."""
    annotations = (binding.get("metadata") or {}).get("annotations") or {}
    if ACCEPTABLE_CLAIMS in annotations:
        given = annotations[ACCEPTABLE_CLAIMS]
        error = bad_claims(ACCEPTABLE_CLAIMS, given, mapping(binding.get("spec")))
        if error is not None:
            return error
    for name in (STATUS_APPLIED_CLAIMS, STATUS_EXPORT_CLAIMS):
        if name in annotations:
            try:
                read_annotation(name, annotations[name])
            except BadAnnotation:
                why = "failed to decode overhanging permission claims"
                return invalid(f"metadata.annotations[{name}]", annotations[name], why)
    return None
