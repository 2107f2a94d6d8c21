"""Permission claims: what an export asks for, what a binding grants, how objects show it.

A claim names a group and resource, with the identity of the export they come from unless the
server brings them itself. A claim holds if the export makes it and the binding accepts it. The
objects it covers carry a label per export, whose value names the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from pykcp.machinery.kcp.hashes import (
    CLAIM_LABEL_PREFIX,
    REFLEXIVE_CLAIM_VALUE,
    claim_label_key,
    claim_label_value,
)
from pykcp.machinery.labels import (
    MANY,
    LabelSelector,
    from_label_selector,
    from_label_selector_in_steps,
)
from pykcp.machinery.remembered import Remembered
from pykcp.machinery.untyped import text
from pykcp.steps import Steps
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


def accepted(binding: Object) -> Steps[dict[ClaimKey, Object]]:
    """The claims an APIBinding accepts, without their state."""
    found: dict[ClaimKey, Object] = {}
    for claim in (binding.get("spec") or {}).get("permissionClaims") or ():
        if claim.get("state") == ACCEPTED:
            found[key_of(claim)] = {f: value for f, value in claim.items() if f != "state"}
        yield
    return found


def applied(binding: Object) -> Steps[dict[ClaimKey, Object]]:
    """The claims whose labels are in place, by the binding's status."""
    return _keyed((binding.get("status") or {}).get("appliedPermissionClaims"))


class Sides(NamedTuple):
    """The claims that one side makes, of those that both must make."""

    verbs: Mapping[GroupResource, Mapping[ClaimKey, frozenset[str]]]
    selectors: Mapping[GroupResource, Object | None]
    """Of the first claim for each resource."""

    @property
    def size(self) -> int:
        """How many claims there are."""
        return sum(map(len, self.verbs.values()))


def sides(claims: Iterable[Object]) -> Steps[Sides]:
    """The claims of an export, or those that a binding accepts."""
    verbs: dict[GroupResource, dict[ClaimKey, frozenset[str]]] = {}
    selectors: dict[GroupResource, Object | None] = {}
    shared: dict[frozenset[str], frozenset[str]] = {}
    for claim in claims:
        key, named = key_of(claim), frozenset(claim.get("verbs") or ())
        resource = key.group, key.resource
        # Thousands of claims have the same verbs.
        verbs.setdefault(resource, {})[key] = shared.setdefault(named, named)
        selectors.setdefault(resource, claim.get("selector"))
        yield
    return Sides(verbs, selectors)


def allowed_verbs(given: Sides, asked: Sides, group: str, resource: str) -> frozenset[str]:
    """Verbs that both sides name, for a resource with an accepted claim.

    The intersection is literal: `*` on one side only matches `*` on the other.
    """
    wanted = normalized(group, resource)
    theirs = asked.verbs.get(wanted) or {}
    found: set[str] = set()
    for key, verbs in (given.verbs.get(wanted) or {}).items():
        if key in theirs:
            found |= verbs & theirs[key]
    return frozenset(found)


def is_allowed(verbs: Iterable[str], verb: str) -> bool:
    return any(one in (verb, ANY_VERB) for one in verbs)


def claimed_identity(asked: Sides, group: str, resource: str) -> str:
    """The identity of a claimed resource; "" if it has none."""
    for key in asked.verbs.get(normalized(group, resource)) or ():
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


class Covering(NamedTuple):
    """An accepted claim, ready to be asked which objects it covers."""

    label: str
    """The value of the label on objects."""
    selector: LabelSelector | None
    """None: all of them."""


CoveringBy = Mapping[GroupResource, Sequence[Covering]]
"""By group and resource; of several claims that cover an object the first one counts."""


def covering(claims: Sequence[Object]) -> Steps[CoveringBy]:
    """The accepted claims of a binding.

    Of several for one resource the last one in the binding gives the label. Those before a claim
    on everything never do, nor do those before one with the same selector: they are left out.
    """
    found: dict[GroupResource, list[Covering]] = {}
    known: dict[GroupResource, set[bytes]] = {}
    for claim in reversed(claims):
        yield
        key = key_of(claim)
        resource = key.group, key.resource
        kept, seen = found.setdefault(resource, []), known.setdefault(resource, set())
        if kept and kept[-1].selector is None:
            continue
        selector = claim.get("selector") or {}
        text = orjson.dumps(selector, option=orjson.OPT_SORT_KEYS)
        if text in seen:
            continue
        seen.add(text)
        given = {} if selector.get("matchAll") else selector
        try:
            parsed = yield from from_label_selector_in_steps(given)
        except ValueError:
            continue  # an invalid selector selects nothing
        label = claim_label_value(key.group, key.resource, key.identity)
        kept.append(Covering(label, None if parsed.empty else parsed))
    return found


class BoundExport(NamedTuple):
    """One binding of a cluster, as far as labels depend on it."""

    cluster: str
    """The logical cluster of the export, by name."""
    name: str
    accepted: CoveringBy


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
) -> Steps[dict[str, str]]:
    """The claim labels of an object with these labels.

    Bindings themselves get one more: `reflexive_label`, unless their export's key is here.
    """
    if (group, resource) in NOT_PERSISTED:
        return {}
    wanted = normalized(group, resource)
    due: dict[str, str] = {}
    for export in exports:
        for label, selector in export.accepted.get(wanted, ()):
            if selector is None or selector.matches(labels):
                due[claim_label_key(export.cluster, export.name)] = label
                break
            yield
    return due


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


def compare(export: Object, binding: Object) -> Steps[ClaimsState]:
    """What is to be done about a binding's claims."""
    asked = yield from _keyed((export.get("spec") or {}).get("permissionClaims"))
    given = (binding.get("spec") or {}).get("permissionClaims") or ()
    ours = yield from _keyed(claim for claim in given if claim.get("state") == ACCEPTED)
    done = yield from applied(binding)
    expected = yield from _in_order(key for key in asked if key in ours)
    mismatches: list[ClaimMismatch] = []
    changes = {key for key in done if key not in ours}
    for key in expected:
        yield
        own = ours[key].get("selector")
        if key not in done or not same_selector(own, done[key].get("selector")):
            changes.add(key)
        found = _mismatch(key, ours[key], asked[key])
        if found.verbs is not None or found.selector:
            mismatches.append(found)
    unexpected = yield from _in_order(key for key in ours if key not in asked)
    return ClaimsState(expected, unexpected, (yield from _in_order(changes)), mismatches)


def reselected(binding: Object, done: Mapping[ClaimKey, Object]) -> Steps[frozenset[ClaimKey]]:
    """The claims that a binding accepts with another selector than that with which they are done."""
    found: set[ClaimKey] = set()
    for key, claim in (yield from accepted(binding)).items():
        before = done.get(key)
        if before is not None and not same_selector(claim.get("selector"), before.get("selector")):
            found.add(key)
        yield
    return frozenset(found)


def _keyed(claims: Iterable[Object] | None) -> Steps[dict[ClaimKey, Object]]:
    found: dict[ClaimKey, Object] = {}
    for claim in claims or ():
        found[key_of(claim)] = claim
        yield
    return found


def _in_order(keys: Iterable[ClaimKey]) -> Steps[list[ClaimKey]]:
    named: list[tuple[str, ClaimKey]] = []
    for key in keys:
        named.append((str(key), key))
        yield
    named.sort()
    return [key for _, key in named]


def _mismatch(key: ClaimKey, ours: Object, asked: Object) -> ClaimMismatch:
    own, theirs = ours.get("verbs") or [], asked.get("verbs") or []
    same = ANY_VERB in own or ANY_VERB in theirs or set(own) == set(theirs)
    default = asked.get("defaultSelector")
    differs = default is not None and not same_selector(ours.get("selector"), default)
    return ClaimMismatch(key, None if same else (own, theirs), differs)
