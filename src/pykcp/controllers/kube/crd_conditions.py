"""What a CustomResourceDefinition's status says: names and conditions. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.apis.kube.validation.crd.definition import approval_of, is_protected
from pykcp.machinery.status import go_quote
from pykcp.types import Object

_WORDS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def condition_of(crd: Object, kind: str) -> Object | None:
    conditions: list[Object] = (crd.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), None)


def set_condition(crd: Object, kind: str, status: str, reason: str, message: str, now: str) -> None:
    """Add or change a condition; its time says when the status last changed."""
    conditions: list[Object] = crd.setdefault("status", {}).setdefault("conditions", []) or []
    crd["status"]["conditions"] = conditions
    wanted: Object = {"type": kind, "status": status, "reason": reason, "message": message}
    existing = condition_of(crd, kind)
    if existing is None:
        conditions.append({**wanted, "lastTransitionTime": now})
        return
    if existing["status"] != status:
        existing["lastTransitionTime"] = now
    existing.update(wanted)


def after_naming(crd: Object, others: Sequence[Object], now: str) -> Object:
    """The status after names are assigned: a definition keeps the names it already has."""
    requested: Object = crd["spec"]["names"]
    result: Object = {**crd, "status": dict(crd.get("status") or {})}
    result["status"]["conditions"] = [dict(c) for c in result["status"].get("conditions") or ()]
    _judge_approval(result, now)  # first: upstream's two controllers race, and this one mostly wins
    accepted = dict(result["status"].get("acceptedNames") or {})
    conflict = _give_names(accepted, requested, others)
    if conflict is None:
        accepted = dict(requested)
        set_condition(result, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        set_condition(
            result,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            now,
        )
    else:
        set_condition(result, "NamesAccepted", "False", *conflict, now)
        established = condition_of(result, "Established")
        if established is None or established["status"] != "True":
            set_condition(
                result, "Established", "False", "NotAccepted", "not all names are accepted", now
            )
    result["status"]["acceptedNames"] = accepted
    return result["status"]  # type: ignore[no-any-return]


_APPROVAL = "KubernetesAPIApprovalPolicyConformant"
_APPROVAL_REASONS = {
    "missing": ("False", "MissingAnnotation"),
    "invalid": ("False", "InvalidAnnotation"),
    "bypassed": ("False", "UnapprovedAnnotation"),
    "approved": ("True", "ApprovedAnnotation"),
}


def _judge_approval(crd: Object, now: str) -> None:
    """Definitions in groups of the Kubernetes community say whether they were approved."""
    if not is_protected(crd):
        return
    state, message = approval_of(crd)
    status, reason = _APPROVAL_REASONS[state]
    set_condition(crd, _APPROVAL, status, reason, message, now)


def _give_names(
    accepted: Object, requested: Object, others: Sequence[Object]
) -> tuple[str, str] | None:
    """Take the requested names that are free; reason and message of the last that is not."""
    resources, kinds = _taken(others)
    conflict: tuple[str, str] | None = None
    for field in ("plural", "singular", "shortNames", "kind", "listKind"):
        wanted = requested.get(field)
        if not wanted:
            continue
        taken = kinds if field in ("kind", "listKind") else resources
        names = wanted if isinstance(wanted, list) else [wanted]
        clashing = [n for n in names if n in taken]
        if clashing:
            shown = [f"{go_quote(n)} is already in use" for n in dict.fromkeys(clashing)]
            text = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
            conflict = (_WORDS[field], text)
        else:
            accepted[field] = wanted
    if requested.get("categories") is not None:
        accepted["categories"] = requested["categories"]
    return conflict


def _taken(others: Sequence[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update(n for n in (names.get("plural"), names.get("singular")) if n)
        resources.update(names.get("shortNames") or ())
        kinds.update(n for n in (names.get("kind"), names.get("listKind")) if n)
    return resources, kinds
