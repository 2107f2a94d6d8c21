"""Permission claims: what an export asks for, what a binding grants, how objects show it.

A claim names a group and resource, with the identity of the export they come from unless the
server brings them itself. A claim holds if the export makes it and the binding accepts it. The
objects it covers carry a label per export, whose value names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pykcp.machinery.kcp.hashes import (
    CLAIM_LABEL_PREFIX,
    REFLEXIVE_CLAIM_VALUE,
    claim_label_key,
    claim_label_value,
)
from pykcp.machinery.labels import MANY, LabelSelector, from_label_selector
from pykcp.machinery.remembered import Remembered
from pykcp.machinery.untyped import text
from pykcp.types import Object

APIS_GROUP = "apis.kcp.io"
ACCEPTED, REJECTED = "Accepted", "Rejected"
ANY_VERB = "*"

GroupResource = tuple[str, str]

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"

NOT_PERSISTED: Mapping[GroupResource, bool] = {
    (_AUTHORIZATION, "localsubjectaccessreviews"): True,
    (_AUTHORIZATION, "selfsubjectaccessreviews"): False,
    (_AUTHORIZATION, "selfsubjectrulesreviews"): False,
    (_AUTHORIZATION, "subjectaccessreviews"): True,
    (_AUTHENTICATION, "selfsubjectreviews"): False,
    (_AUTHENTICATION, "tokenreviews"): True,
}
"""Kinds that are answered and not kept, so never labelled; and whether they can be claimed."""

BUILTIN: frozenset[GroupResource] = frozenset(
    (group, resource)
    for group, resources in {
        "": "namespaces configmaps events resourcequotas secrets serviceaccounts",
        "rbac.authorization.k8s.io": "clusterroles clusterrolebindings roles rolebindings",
        "certificates.k8s.io": "certificatesigningrequests",
        "coordination.k8s.io": "leases",
        "events.k8s.io": "events",
        "admissionregistration.k8s.io": (
            "mutatingwebhookconfigurations validatingwebhookconfigurations "
            "mutatingadmissionpolicies mutatingadmissionpolicybindings "
            "validatingadmissionpolicies validatingadmissionpolicybindings"
        ),
        "apiextensions.k8s.io": "customresourcedefinitions",
        "core.kcp.io": "logicalclusters",
        _AUTHORIZATION: "subjectaccessreviews localsubjectaccessreviews",
        _AUTHENTICATION: "tokenreviews",
    }.items()
    for resource in resources.split()
)
"""What every workspace serves by itself and an export may claim without an identity."""


def is_builtin(group: str, resource: str) -> bool:
    return (group, resource) in BUILTIN


def needs_identity(group: str, resource: str) -> bool:
    """Whether a claim must say which export's resource it means."""
    return group != APIS_GROUP and not is_builtin(group, resource)


def normalized(group: str, resource: str) -> GroupResource:
    """Events of either group are one resource to claims: the core group's."""
    if resource == "events" and group == "events.k8s.io":
        return "", "events"
    return group, resource


class ClaimKey(NamedTuple):
    """What makes two claims the same. kcp sorts them by their text."""

    resource: str
    group: str
    identity: str

    def __str__(self) -> str:
        return f"{self.resource}/{self.group}/{self.identity}"


def key_of(claim: Object) -> ClaimKey:
    """Which resource a claim is about. It may be one that no schema has seen yet."""
    return ClaimKey(
        text(claim.get("resource")), text(claim.get("group")), text(claim.get("identityHash"))
    )


def exported(export: Object) -> dict[ClaimKey, Object]:
    """The claims an APIExport makes."""
    return {key_of(c): c for c in (export.get("spec") or {}).get("permissionClaims") or ()}


def accepted(binding: Object) -> dict[ClaimKey, Object]:
    """The claims an APIBinding accepts, without their state."""
    return {
        key_of(claim): {field: value for field, value in claim.items() if field != "state"}
        for claim in (binding.get("spec") or {}).get("permissionClaims") or ()
        if claim.get("state") == ACCEPTED
    }


def applied(binding: Object) -> dict[ClaimKey, Object]:
    """The claims whose labels are in place, by the binding's status."""
    status = binding.get("status") or {}
    return {key_of(claim): claim for claim in status.get("appliedPermissionClaims") or ()}


ByResource = Mapping[tuple[str, str], Sequence[tuple[ClaimKey, Object]]]
"""Accepted claims by group and resource."""


def by_resource(accepted: Mapping[ClaimKey, Object]) -> ByResource:
    found: dict[tuple[str, str], list[tuple[ClaimKey, Object]]] = {}
    for key, claim in accepted.items():
        found.setdefault((key.group, key.resource), []).append((key, claim))
    return found


_exported_by_resource = Remembered(lambda export: by_resource(exported(export)), 64)
_accepted_by_resource = Remembered(lambda binding: by_resource(accepted(binding)), 1024)


def allowed_verbs(binding: Object, export: Object, group: str, resource: str) -> frozenset[str]:
    """Verbs that both sides name, for a resource with an accepted claim.

    The intersection is literal: `*` on one side only matches `*` on the other.
    """
    wanted = normalized(group, resource)
    asked = dict(_exported_by_resource(export).get(wanted, ()))
    found: set[str] = set()
    for key, claim in _accepted_by_resource(binding).get(wanted, ()):
        if key in asked:
            found |= set(claim.get("verbs") or ()) & set(asked[key].get("verbs") or ())
    return frozenset(found)


def is_allowed(verbs: Iterable[str], verb: str) -> bool:
    return any(one in (verb, ANY_VERB) for one in verbs)


def accepted_claim(binding: Object, group: str, resource: str) -> Object | None:
    """The first accepted claim for a resource."""
    for _, claim in _accepted_by_resource(binding).get(normalized(group, resource), ()):
        return claim
    return None


def claimed_identity(export: Object, group: str, resource: str) -> str:
    """The identity of a claimed resource; "" if it has none."""
    for key, _ in _exported_by_resource(export).get(normalized(group, resource), ()):
        return key.identity
    return ""


def selects(selector: Object | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a claim's selector covers an object with these labels. Raises SelectorError."""
    given = selector or {}
    return bool(given.get("matchAll")) or _parsed(given).matches(labels)


def _parsed(selector: Object) -> LabelSelector:
    terms = len(selector.get("matchLabels") or ()) + len(selector.get("matchExpressions") or ())
    values = sum(len(e.get("values") or ()) for e in selector.get("matchExpressions") or ())
    return from_label_selector(selector) if terms + values <= MANY else _large_selectors(selector)


_large_selectors = Remembered(from_label_selector, 64)
"""Parsing one takes much longer than a test."""


def same_selector(one: Object | None, other: Object | None) -> bool:
    return _plain_selector(one) == _plain_selector(other)


def _plain_selector(selector: Object | None) -> Object:
    return {field: value for field, value in (selector or {}).items() if value}


# Claim labels


class BoundExport(NamedTuple):
    """One binding of a cluster, as far as labels depend on it."""

    cluster: str
    """The logical cluster of the export, by name."""
    name: str
    accepted: ByResource


def label_of(export_cluster: str, export_name: str, key: ClaimKey) -> tuple[str, str]:
    """Key and value of the label on objects of a claim."""
    value = claim_label_value(key.group, key.resource, key.identity)
    return claim_label_key(export_cluster, export_name), value


def reflexive_label(export_cluster: str, export_name: str) -> tuple[str, str]:
    """The label by which the owner of an export sees its bindings, whatever they accept."""
    return claim_label_key(export_cluster, export_name), REFLEXIVE_CLAIM_VALUE


def is_claim_label(key: str) -> bool:
    return key.startswith(CLAIM_LABEL_PREFIX)


def has_claim_label(labels: Iterable[str]) -> bool:
    for key in labels:  # noqa: SIM110 - half as long as `any` over a generator
        if key.startswith(CLAIM_LABEL_PREFIX):
            return True
    return False


def labels_due(
    exports: Iterable[BoundExport], group: str, resource: str, labels: Mapping[str, str] | None
) -> dict[str, str]:
    """The claim labels of an object with these labels. An invalid selector selects none.

    Bindings themselves get one more: `reflexive_label`, unless their export's key is here.
    """
    if (group, resource) in NOT_PERSISTED:
        return {}
    wanted = normalized(group, resource)
    due: dict[str, str] = {}
    for export in exports:
        for key, claim in export.accepted.get(wanted, ()):
            if _covers(claim, labels):
                label, value = label_of(export.cluster, export.name, key)
                due[label] = value
    return due


def _covers(claim: Object, labels: Mapping[str, str] | None) -> bool:
    try:
        return selects(claim.get("selector"), labels)
    except ValueError:
        return False


# What the state of a binding's claims is


class ClaimMismatch(NamedTuple):
    """An accepted claim that differs from the exported one."""

    key: ClaimKey
    verbs: tuple[Sequence[str], Sequence[str]] | None
    """Accepted and exported ones, if they differ."""
    selector: bool

    def __str__(self) -> str:
        parts = []
        if self.verbs is not None:
            ours, theirs = (" ".join(verbs) for verbs in self.verbs)
            parts.append(f"verbs: accepted [{ours}], exported [{theirs}]")
        if self.selector:
            parts.append("selector differs from defaultSelector")
        return f"{self.key.resource}.{self.key.group} ({'; '.join(parts)})"


class ClaimsState(NamedTuple):
    """A binding's claims against its export's; all in kcp's order."""

    expected: list[ClaimKey]
    """Exported and accepted."""
    unexpected: list[ClaimKey]
    """Accepted, but not requested by the export."""
    changes: list[ClaimKey]
    """Claims whose objects need new labels."""
    mismatches: list[ClaimMismatch]


def compare(export: Object, binding: Object) -> ClaimsState:
    """What is to be done about a binding's claims."""
    asked, ours, done = exported(export), accepted(binding), applied(binding)
    expected = asked.keys() & ours.keys()
    changes = (expected - done.keys()) | (done.keys() - ours.keys())
    changes |= {
        key
        for key in expected & done.keys()
        if not same_selector(ours[key].get("selector"), done[key].get("selector"))
    }
    mismatches = [_mismatch(key, ours[key], asked[key]) for key in sorted(expected, key=str)]
    return ClaimsState(
        expected=sorted(expected, key=str),
        unexpected=sorted(ours.keys() - expected, key=str),
        changes=sorted(changes, key=str),
        mismatches=[m for m in mismatches if m.verbs is not None or m.selector],
    )


def _mismatch(key: ClaimKey, ours: Object, asked: Object) -> ClaimMismatch:
    own, theirs = ours.get("verbs") or [], asked.get("verbs") or []
    same = ANY_VERB in own or ANY_VERB in theirs or set(own) == set(theirs)
    default = asked.get("defaultSelector")
    differs = default is not None and not same_selector(ours.get("selector"), default)
    return ClaimMismatch(key, None if same else (own, theirs), differs)
