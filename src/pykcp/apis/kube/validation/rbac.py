"""Roles and bindings."""

from __future__ import annotations

from pykcp.apis.kube.validation.objectmeta import (
    each_invalid,
    name_is_subdomain,
    validate_label_selector,
    validate_object_meta,
    validate_object_meta_update,
)
from pykcp.apis.kube.validation.rules import Facts, KindRules
from pykcp.machinery import labels, names
from pykcp.machinery.meta import metadata
from pykcp.machinery.status import FieldError, invalid, not_supported, required
from pykcp.types import Object

GROUP = "rbac.authorization.k8s.io"


def _name_rule(name: str, _: bool) -> list[str]:
    """Role names are anything that can stand in a URL."""
    return names.path_segment_name(name)


def _meta_errors(obj: Object, namespaced: bool) -> list[FieldError]:
    return validate_object_meta(metadata(obj), namespaced, _name_rule, kube_finalizers=True)


def _meta_update_errors(new: Object, old: Object) -> list[FieldError]:
    return validate_object_meta_update(metadata(new), metadata(old), kube_finalizers=True)


def policy_rule_errors(rule: Object, namespaced: bool, path: str) -> list[FieldError]:
    """One rule of a role: verbs on resources or on URLs, not on both."""
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        at = f"{path}.nonResourceURLs"
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(at, urls, why))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(at, urls, why))
        return errors
    if not rule.get("apiGroups"):
        why = "resource rules must supply at least one api group"
        errors.append(required(f"{path}.apiGroups", why))
    if not rule.get("resources"):
        why = "resource rules must supply at least one resource"
        errors.append(required(f"{path}.resources", why))
    return errors


def _role_errors(obj: Object, namespaced: bool) -> list[FieldError]:
    errors = _meta_errors(obj, namespaced)
    for index, rule in enumerate(obj.get("rules") or ()):
        errors += policy_rule_errors(rule, namespaced, f"rules[{index}]")
    return errors


def _cluster_role_errors(obj: Object, *, allow_invalid_values: bool = False) -> list[FieldError]:
    errors = _role_errors(obj, namespaced=False)
    rule = obj.get("aggregationRule")
    if rule is None:
        return errors
    path = "aggregationRule.clusterRoleSelectors"
    selectors = rule.get("clusterRoleSelectors") or []
    if not selectors:
        why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, why))
    for index, selector in enumerate(selectors):
        errors += validate_label_selector(
            selector, f"{path}[{index}]", allow_invalid_values=allow_invalid_values
        )
        try:
            labels.from_label_selector(selector)
        except labels.SelectorError:
            errors.append(invalid(f"{path}[{index}]", None, "invalid label selector."))
    return errors


def _has_invalid_selector(obj: Object) -> bool:
    selectors = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return any(validate_label_selector(selector, "") for selector in selectors)


def _cluster_role_update_errors(new: Object, old: Object, _: Facts) -> list[FieldError]:
    errors = _cluster_role_errors(new, allow_invalid_values=_has_invalid_selector(old))
    return errors + _meta_update_errors(new, old)


ROLE = KindRules(
    namespaced=True,
    validate=lambda obj, _: _role_errors(obj, namespaced=True),
    validate_update=lambda new, old, _: (
        _role_errors(new, namespaced=True) + _meta_update_errors(new, old)
    ),
    create_on_update=True,
)

CLUSTER_ROLE = KindRules(
    validate=lambda obj, _: _cluster_role_errors(obj),
    validate_update=_cluster_role_update_errors,
    create_on_update=True,
)


# Bindings


def _default_binding(obj: Object) -> None:
    reference = obj.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = GROUP


def _binding_errors(obj: Object, namespaced: bool) -> list[FieldError]:
    errors = _meta_errors(obj, namespaced)
    reference = obj.get("roleRef") or {}
    group, kind, name = (reference.get(field, "") for field in ("apiGroup", "kind", "name"))
    if group != GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, (GROUP,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if not name:
        errors.append(required("roleRef.name"))
    else:
        errors += each_invalid("roleRef.name", name, names.path_segment_name(name))
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors += _subject_errors(subject, namespaced, f"subjects[{index}]")
    return errors


def _subject_errors(subject: Object, namespaced: bool, path: str) -> list[FieldError]:
    name, kind, group = (subject.get(field, "") for field in ("name", "kind", "apiGroup"))
    errors = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name:
            errors += each_invalid(f"{path}.name", name, name_is_subdomain(name, False))
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in {"User", "Group"}:
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return errors


def _binding_update_errors(new: Object, old: Object, namespaced: bool) -> list[FieldError]:
    errors = _binding_errors(new, namespaced) + _meta_update_errors(new, old)
    fresh, stored = _go_role_ref(new), _go_role_ref(old)
    if fresh != stored:
        errors.append(invalid("roleRef", fresh, "cannot change roleRef"))
    return errors


def _go_role_ref(obj: Object) -> Object:
    """A reference as upstream's internal type shows in an error."""
    reference = obj.get("roleRef") or {}
    fields = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    return {go: reference.get(name, "") for go, name in fields.items()}


ROLE_BINDING = KindRules(
    namespaced=True,
    default=_default_binding,
    validate=lambda obj, _: _binding_errors(obj, namespaced=True),
    validate_update=lambda new, old, _: _binding_update_errors(new, old, namespaced=True),
    create_on_update=True,
)

CLUSTER_ROLE_BINDING = KindRules(
    default=_default_binding,
    validate=lambda obj, _: _binding_errors(obj, namespaced=False),
    validate_update=lambda new, old, _: _binding_update_errors(new, old, namespaced=False),
    create_on_update=True,
)
