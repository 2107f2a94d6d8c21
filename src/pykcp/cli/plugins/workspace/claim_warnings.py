"""Warnings about permission claims that are neither accepted nor rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Object = dict[str, Any]


def claim_name(claim: Object) -> str:
    """`configmaps`, `cowboys.wildwest.dev` or `cowboys.wildwest.dev:<identity>`."""
    group, identity = claim.get("group") or "", claim.get("identityHash") or ""
    if not group:
        return str(claim["resource"])
    name = f"{claim['resource']}.{group}"
    return f"{name}:{identity}" if identity else name


def warnings(bindings: Sequence[Object]) -> Iterator[str]:
    for binding in bindings:
        answers = (binding.get("spec") or {}).get("permissionClaims") or []
        for exported in (binding.get("status") or {}).get("exportPermissionClaims") or []:
            yield from _about_claim(exported, answers, binding["metadata"]["name"])


def _about_claim(exported: Object, answers: Sequence[Object], binding: str) -> Iterator[str]:
    matching = [answer for answer in answers if _key(answer) == _key(exported)]
    answer = matching[-1] if matching else {}
    name = claim_name(exported)
    if not matching:
        yield f"Warning: claim for {name} exported but not specified on APIBinding {binding}"
        yield "Add this claim to the APIBinding's Spec."
    if answer.get("state") not in ("Accepted", "Rejected"):
        yield (
            f"Warning: claim for {name} specified on APIBinding {binding} "
            "but not accepted or rejected."
        )
    wanted = exported.get("verbs") or [] if matching else []
    allowed = answer.get("verbs") or []
    if not matching or set(wanted) != set(allowed):
        yield (
            f"Warning: allowed verbs ({_listed(allowed)}) on claim for {name} on APIBinding "
            f"{binding} do not match expected verbs ({_listed(wanted)})."
        )


def _key(claim: Object) -> tuple[str, str, str]:
    return (
        claim.get("group") or "",
        claim.get("resource") or "",
        claim.get("identityHash") or "",
    )


def _listed(verbs: Sequence[str]) -> str:
    return ",".join(dict.fromkeys(verbs))
