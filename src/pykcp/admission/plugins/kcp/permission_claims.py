"""Claim labels: sets exactly the labels of the accepted claims of the cluster on every object."""

from __future__ import annotations

from pykcp.admission.field_errors import aggregated
from pykcp.admission.plugins.kcp.binding_parts import shown_binding
from pykcp.admission.refusing import refusal
from pykcp.machinery.kcp.claims import NOT_PERSISTED, has_claim_label, is_claim_label
from pykcp.machinery.kcp.hashes import CLAIM_LABEL_PREFIX
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.status import FieldError, forbidden, go_quote, invalid
from pykcp.registry.catalog.claimed import AcceptedClaims
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.admitting import AdmissionRequest

_BINDINGS = (API_BINDINGS.group, API_BINDINGS.resource)


class PermissionClaims:
    name = "apis.kcp.io/PermissionClaims"
    operations = ("CREATE", "UPDATE")

    def __init__(self, accepted: AcceptedClaims, lookup: ObjectLookup) -> None:
        """By a callable: lookups are made after admission."""
        self._accepted, self._lookup = accepted, lookup

    def wants(self, request: AdmissionRequest) -> bool:
        resource = request.resource
        if request.subresource:
            return False
        if self._accepted.may_have_any(request.context.cluster):
            return (resource.group, resource.plural) not in NOT_PERSISTED
        if request.may_mention(CLAIM_LABEL_PREFIX):
            labels = request.metadata.get("labels")
            if labels and has_claim_label(labels):
                return True
        return (resource.group, resource.plural) == _BINDINGS

    async def mutate(self, request: AdmissionRequest) -> None:
        metadata = request.metadata
        before = metadata.get("labels") or {}
        kept = {key: value for key, value in before.items() if not is_claim_label(key)}
        labels = kept | await self._due(request)
        if labels == before:
            return
        if labels:
            metadata["labels"] = labels
        else:
            del metadata["labels"]

    async def validate(self, request: AdmissionRequest) -> None:
        labels, due = request.metadata.get("labels") or {}, await self._due(request)
        errors: list[FieldError] = []
        for key, value in due.items():
            if labels.get(key) != value:
                why = f"must be {go_quote(value)}"
                errors.append(invalid(f"metadata.labels[{key}]", labels.get(key, ""), why))
        errors += (
            forbidden(f"metadata.labels[{key}]", "must not be set")
            for key in labels
            if is_claim_label(key) and key not in due
        )
        if errors:
            raise refusal(request, aggregated(errors))

    async def _due(self, request: AdmissionRequest) -> dict[str, str]:
        resource = request.resource
        is_binding = (resource.group, resource.plural) == _BINDINGS
        obj = await shown_binding(request) if is_binding else {"metadata": request.metadata}
        return await self._accepted.labels_due(
            self._lookup, request.context.cluster, resource.group, resource.plural, obj
        )
