"""APIExports and APIBindings in their two versions, without loss.

v1alpha2 is stored. What the older version cannot say (verbs, selectors, storage that is
virtual) travels in annotations of its objects; what only the older one says (`all`,
`resourceSelector`) in annotations of the newer. Each is taken off again on the way back.

Objects are plain JSON without regard to their apiVersion; arguments are left as they are. Field
managers convert what no schema has checked yet: parts of a wrong type are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson

from pykcp.apis.kcp.round_trip import (
    ACCEPTABLE_CLAIMS,
    OLD_CLAIMS,
    OLD_STATUS_APPLIED_CLAIMS,
    OLD_STATUS_EXPORT_CLAIMS,
    PERMISSION_CLAIMS,
    RESOURCE_SCHEMAS,
    STATUS_APPLIED_CLAIMS,
    STATUS_EXPORT_CLAIMS,
    BadAnnotation,
    read_annotation,
)
from pykcp.machinery.kcp.claims import ANY_VERB, key_of
from pykcp.machinery.status import go_quote
from pykcp.machinery.untyped import mapping, mappings, text
from pykcp.types import Object

_SELECTORS = ("all", "resourceSelector")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}

Claims = Sequence[Object]


class BadSchemaName(ValueError):
    """The name of a schema does not say which resource it is of."""


# The shapes of claims, with their fields in the order in which kcp writes them


def _given(**fields: Any) -> Object:
    return {name: value for name, value in fields.items() if value}


def selector(given: Object | None) -> Object:
    found = mapping(given)
    return _given(
        matchLabels=found.get("matchLabels"),
        matchExpressions=found.get("matchExpressions"),
        matchAll=found.get("matchAll"),
    )


def _new_claim(claim: Object) -> Object:
    out = _given(group=claim.get("group"))
    out["resource"] = claim.get("resource") or ""
    out["verbs"] = claim.get("verbs")
    out |= _given(identityHash=claim.get("identityHash"))
    if claim.get("defaultSelector") is not None:
        out["defaultSelector"] = selector(claim["defaultSelector"])
    return out


def _new_scoped(claim: Object) -> Object:
    return {**_new_claim(claim), "selector": selector(claim.get("selector"))}


def _new_acceptable(claim: Object) -> Object:
    return {**_new_scoped(claim), "state": claim.get("state") or ""}


def _old_claim(claim: Object) -> Object:
    out = _given(group=claim.get("group"))
    out["resource"] = claim.get("resource") or ""
    return out | _given(
        all=claim.get("all"),
        resourceSelector=claim.get("resourceSelector"),
        identityHash=claim.get("identityHash"),
    )


def _old_acceptable(claim: Object) -> Object:
    return {**_old_claim(claim), "state": claim.get("state") or ""}


def _resource_schema(entry: Object) -> Object:
    return {
        "name": entry.get("name") or "",
        "group": entry.get("group") or "",
        "schema": entry.get("schema") or "",
        "storage": entry.get("storage") or {},
    }


# Annotations


def _dump(value: Any) -> str:
    written = orjson.dumps(value).decode()
    for character, escaped in _ESCAPES.items():  # as Go encodes JSON
        written = written.replace(character, escaped)
    return written


def _kept(annotations: Object, name: str) -> list[Object]:
    """Take an annotation off and say what it holds.

    Nonsense holds nothing: admission refuses it where it does harm, and one object with it
    shall not make a list fail.
    """
    if name not in annotations:
        return []
    try:
        return read_annotation(name, annotations.pop(name))
    except BadAnnotation:
        return []


def _parts(obj: Object) -> tuple[Object, Object, Object]:
    """Copies of what a conversion changes: the object, its spec, its annotations."""
    metadata = dict(obj.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    out = {**obj, "metadata": metadata, "spec": dict(mapping(obj.get("spec")))}
    out.setdefault("status", {})  # kcp's types always show it
    return out, out["spec"], annotations


def _claims_in(spec: Object) -> list[Object]:
    return list(mappings(spec.get("permissionClaims")))


def _annotate(out: Object, annotations: Object) -> Object:
    if annotations:
        out["metadata"]["annotations"] = annotations
    else:
        out["metadata"].pop("annotations", None)
    return out


def _set_list(holder: Object, name: str, value: list[Any]) -> None:
    if value:
        holder[name] = value
    else:
        holder.pop(name, None)


def _restored(claims: Claims, kept: Iterable[Object], fields: Sequence[str]) -> list[Object]:
    """The claims, with these fields as the kept claims of the same key have them."""
    known = {key_of(one): one for one in kept}
    out = []
    for claim in claims:
        found = known.get(key_of(claim))
        if found is not None:
            claim = {name: value for name, value in claim.items() if name not in fields}
            claim |= _given(**{name: found.get(name) for name in fields})
        out.append(claim)
    return out


# v1alpha2 → v1alpha1


def _is_plain(claim: Object) -> bool:
    """Whether the older version can say a claim: any verb, and no wish how it is accepted."""
    return claim.get("verbs") == [ANY_VERB] and claim.get("defaultSelector") is None


def _is_plain_scoped(claim: Object) -> bool:
    return _is_plain(claim) and _matches_all(claim)


def _keep_for_round_trip(
    annotations: Object,
    name: str,
    claims: Claims,
    fits: Callable[[Object], bool],
    shape: Callable[[Object], Object],
) -> None:
    rest = [shape(claim) for claim in claims if not fits(claim)]
    if rest:
        annotations[name] = _dump(rest)


def export_to_v1alpha1(export: Object) -> Object:
    out, spec, annotations = _parts(export)
    resources, claims = list(mappings(spec.pop("resources", None))), _claims_in(spec)
    virtual = [r for r in resources if mapping(r.get("storage")).get("crd") is None]
    if virtual:
        annotations[RESOURCE_SCHEMAS] = _dump([_resource_schema(one) for one in virtual])
    _keep_for_round_trip(annotations, PERMISSION_CLAIMS, claims, _is_plain, _new_claim)
    plain = [
        text(r.get("schema")) for r in resources if mapping(r.get("storage")).get("crd") is not None
    ]
    _set_list(spec, "latestResourceSchemas", plain)
    old = _restored([_old_claim(c) for c in claims], _kept(annotations, OLD_CLAIMS), _SELECTORS)
    _set_list(spec, "permissionClaims", old)
    return _annotate(out, annotations)


def binding_to_v1alpha1(binding: Object) -> Object:
    out, spec, annotations = _parts(binding)
    claims = _claims_in(spec)
    _keep_for_round_trip(annotations, ACCEPTABLE_CLAIMS, claims, _is_plain_scoped, _new_acceptable)
    old = [_old_acceptable({**claim, "all": _matches_all(claim)}) for claim in claims]
    _set_list(spec, "permissionClaims", _restored(old, _kept(annotations, OLD_CLAIMS), _SELECTORS))
    out["status"] = _old_status(dict(mapping(out["status"])), annotations)
    return _annotate(out, annotations)


def _old_status(status: Object, annotations: Object) -> Object:
    exported = list(mappings(status.get("exportPermissionClaims")))
    applied = list(mappings(status.get("appliedPermissionClaims")))
    _keep_for_round_trip(annotations, STATUS_EXPORT_CLAIMS, exported, _is_plain, _new_claim)
    _keep_for_round_trip(annotations, STATUS_APPLIED_CLAIMS, applied, _is_plain_scoped, _new_scoped)
    old = _kept(annotations, OLD_STATUS_EXPORT_CLAIMS)
    exported = _restored([_old_claim(claim) for claim in exported], old, _SELECTORS)
    _set_list(status, "exportPermissionClaims", exported)
    old = _kept(annotations, OLD_STATUS_APPLIED_CLAIMS)
    applied = [_old_claim({**claim, "all": _matches_all(claim)}) for claim in applied]
    _set_list(status, "appliedPermissionClaims", _restored(applied, old, _SELECTORS))
    return status


def _matches_all(claim: Object) -> bool:
    return bool(mapping(claim.get("selector")).get("matchAll"))


# v1alpha1 → v1alpha2


def schema_entry(name: str) -> Object:
    """What a schema's name says of an exported resource. Raises BadSchemaName."""
    parts = name.split(".", 2)
    if len(parts) < 3:
        raise BadSchemaName(
            f"invalid schema {go_quote(name)}: must have at least 3 dot-separated segments"
        )
    _, resource, group = parts
    return {
        "name": resource,
        "group": "" if group == "core" else group,
        "schema": name,
        "storage": {"crd": {}},
    }


def export_to_v1alpha2(export: Object) -> Object:
    """Raises BadSchemaName."""
    out, spec, annotations = _parts(export)
    names = spec.pop("latestResourceSchemas", None)
    given = names if isinstance(names, list) else []
    resources = [schema_entry(name) for name in given if isinstance(name, str)]
    _set_list(spec, "resources", resources + _kept(annotations, RESOURCE_SCHEMAS))
    claims = _claims_in(spec)
    if claims:
        annotations[OLD_CLAIMS] = _dump([_old_claim(claim) for claim in claims])
    kept = _kept(annotations, PERMISSION_CLAIMS)
    _set_list(spec, "permissionClaims", [_any_verb(c) for c in _verbs_of(claims, kept)])
    return _annotate(out, annotations)


def binding_to_v1alpha2(binding: Object) -> Object:
    out, spec, annotations = _parts(binding)
    claims = _claims_in(spec)
    _keep_selected(annotations, OLD_CLAIMS, claims, _old_acceptable)
    kept = _kept(annotations, ACCEPTABLE_CLAIMS)
    scoped = _scoped(claims, kept, _new_acceptable)
    _set_list(spec, "permissionClaims", scoped)
    out["status"] = _new_status(dict(mapping(out["status"])), annotations)
    return _annotate(out, annotations)


def _new_status(status: Object, annotations: Object) -> Object:
    exported = list(mappings(status.get("exportPermissionClaims")))
    applied = list(mappings(status.get("appliedPermissionClaims")))
    if exported:
        annotations[OLD_STATUS_EXPORT_CLAIMS] = _dump([_old_claim(claim) for claim in exported])
    _keep_selected(annotations, OLD_STATUS_APPLIED_CLAIMS, applied, _old_claim)
    exported = _verbs_of(exported, _kept(annotations, STATUS_EXPORT_CLAIMS))
    _set_list(status, "exportPermissionClaims", [_any_verb(claim) for claim in exported])
    kept = _kept(annotations, STATUS_APPLIED_CLAIMS)
    _set_list(status, "appliedPermissionClaims", _scoped(applied, kept, _new_scoped))
    return status


def _keep_selected(
    annotations: Object, name: str, claims: Claims, shape: Callable[[Object], Object]
) -> None:
    """Keep claims on single objects, which the newer version does not know."""
    selected = [shape(claim) for claim in claims if claim.get("resourceSelector")]
    if selected:
        annotations[name] = _dump(selected)


def _verbs_of(claims: Claims, kept: Iterable[Object]) -> list[Object]:
    return _restored([_new_claim(claim) for claim in claims], kept, ("verbs", "defaultSelector"))


def _scoped(
    claims: Claims, kept: Iterable[Object], shape: Callable[[Object], Object]
) -> list[Object]:
    """Claims with verbs and selector; a claim on single objects always was one on all of them."""
    new = [shape({**claim, "selector": {"matchAll": claim.get("all")}}) for claim in claims]
    restored = _restored(new, kept, ("verbs", "selector", "defaultSelector"))
    return [
        {**_any_verb(claim), "selector": selector(claim.get("selector")) or {"matchAll": True}}
        for claim in restored
    ]


def _any_verb(claim: Object) -> Object:
    return claim if claim.get("verbs") else {**claim, "verbs": [ANY_VERB]}
