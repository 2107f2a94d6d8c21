"""The annotation `internal.kcp.io/replicate`, which marks objects that other shards need. Pure.

Its value is a list of reasons, each the API group for whose sake the object is published.
Roles are if they grant what is asked for across shards: binding exports and using their
content, using workspace types, access to a logical cluster that is published itself, reading
ClusterCachedResources (the last one not in kcp, which does not ask).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from pykcp.steps import Steps
from pykcp.types import Object

ANNOTATION = "internal.kcp.io/replicate"
APIS, TENANCY, CORE, CACHE = "apis.kcp.io", "tenancy.kcp.io", "core.kcp.io", "cache.kcp.io"
_OURS = frozenset((APIS, TENANCY, CORE, CACHE))
_OF_KCP = frozenset((APIS, TENANCY, CORE))
_RBAC = "rbac.authorization.k8s.io"
CONSUMERS = "apis.kcp.io:binding:"
"""Users and groups as a maximal permission policy names them."""
_TYPE_VERBS = frozenset(("use", "initialize", "terminate", "*"))
_ACCESS_PATHS = frozenset(("/", "/*", "*"))


def is_marked(obj: Object) -> bool:
    return bool((obj["metadata"].get("annotations") or {}).get(ANNOTATION))


def rule_reasons(role: Object, *, in_marked: bool) -> Steps[frozenset[str]]:
    """Why a ClusterRole is published for its rules, in a cluster that is published or not."""
    reasons: set[str] = set()
    reads_cached = False
    for rule in role.get("rules") or ():
        groups, paths = rule.get("apiGroups") or (), rule.get("nonResourceURLs")
        if "*" in groups or APIS in groups or TENANCY in groups:
            reasons.update(_resource_reasons(rule, groups))
        if in_marked and paths and not _ACCESS_PATHS.isdisjoint(paths):
            verbs = rule.get("verbs") or ()
            if "access" in verbs or "*" in verbs:
                reasons.add(CORE)
        reads_cached = reads_cached or _reads_cached(rule, groups)
        if len(reasons) == len(_OF_KCP):
            break
        yield
    if reads_cached and not reasons:  # otherwise it is published anyway
        reasons.add(CACHE)
    return frozenset(reasons)


def _reads_cached(rule: Object, groups: Collection[str]) -> bool:
    return (
        CACHE in groups
        and not {"clustercachedresources", "*"}.isdisjoint(rule.get("resources") or ())
        and not {"get", "*"}.isdisjoint(rule.get("verbs") or ())
    )


def _resource_reasons(rule: Object, groups: Collection[str]) -> Iterator[str]:
    resources, verbs = set(rule.get("resources") or ()), set(rule.get("verbs") or ())
    if ("*" in groups or APIS in groups) and _is_about_exports(resources, verbs):
        yield APIS
    is_of_tenancy = "*" in groups or TENANCY in groups
    if is_of_tenancy and resources & {"workspacetypes", "*"} and verbs & _TYPE_VERBS:
        yield TENANCY


def _is_about_exports(resources: set[str], verbs: set[str]) -> bool:
    if resources & {"apiexports/content", "*"}:
        return True
    return "apiexports" in resources and bool(verbs & {"bind", "*"})


def names_consumers(binding: Object) -> bool:
    """Whether a ClusterRoleBinding is part of a maximal permission policy."""
    return any(
        (subject.get("name") or "").startswith(CONSUMERS)
        and subject.get("kind") in ("User", "Group")
        and subject.get("apiGroup") == _RBAC
        for subject in binding.get("subjects") or ()
    )


def role_reasons(
    role: Object, bindings: Iterable[Object], *, in_marked: bool
) -> Steps[frozenset[str]]:
    """Why a ClusterRole is published; `bindings` are those of its cluster that refer to it."""
    reasons = yield from rule_reasons(role, in_marked=in_marked)
    if APIS not in reasons and any(names_consumers(binding) for binding in bindings):
        return reasons | {APIS}
    return reasons


def binding_reasons(binding: Object, of_role: frozenset[str]) -> frozenset[str]:
    """Why a ClusterRoleBinding is published; `of_role`: `rule_reasons` of the ClusterRole it
    refers to.
    """
    return of_role | {APIS} if names_consumers(binding) else of_role


def role_of(binding: Object) -> str:
    """The name of the ClusterRole that a binding refers to; "" if it is another kind."""
    reference = binding.get("roleRef") or {}
    if reference.get("kind") != "ClusterRole" or reference.get("apiGroup") != _RBAC:
        return ""
    name: str = reference.get("name") or ""
    return name


def marked_value(value: str, reasons: Iterable[str]) -> str:
    """The annotation for these reasons, keeping unknown ones; "" for none."""
    others = {reason for reason in value.split(",") if reason and reason not in _OURS}
    return ",".join(sorted(others.union(reasons)))


def value_of(obj: Object) -> str:
    value: str = (obj["metadata"].get("annotations") or {}).get(ANNOTATION) or ""
    return value


def mark(obj: Object, value: str) -> None:
    """Set the annotation, or take it away."""
    metadata = obj["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(ANNOTATION, None)
    if value:
        annotations[ANNOTATION] = value
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
