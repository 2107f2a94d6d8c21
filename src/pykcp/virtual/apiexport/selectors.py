"""Admission in front of the ordinary one: claims on some objects only.

What a provider writes into a consumer must be an object that the consumer let it claim. A
claim's `matchLabels` are added where they are missing; the rest is only checked.
"""

from __future__ import annotations

from pykcp.machinery.kcp import claims
from pykcp.machinery.labels import SelectorError
from pykcp.machinery.status import Forbidden
from pykcp.registry.verbs.admitting import Admission, AdmissionRequest
from pykcp.types import Object
from pykcp.virtual.apiexport.grants import Grants


class ClaimSelectors:
    def __init__(self, grants: Grants, cluster: str, export: str, then: Admission) -> None:
        self._grants = grants
        self._export = (cluster, export)
        self._then = then

    async def mutate(self, request: AdmissionRequest) -> None:
        selector = await self._selector(request)
        if selector is not None and request.obj is not None:
            _add_labels(request, request.obj, selector.get("matchLabels") or {})
        await self._then.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        selector = await self._selector(request)
        if selector is not None:
            obj = request.obj if request.obj is not None else request.old
            assert obj is not None
            try:
                matches = claims.selects(selector, obj["metadata"].get("labels"))
            except SelectorError as error:
                raise _refusal(
                    request, f"error building selector from provided label selector: {error}"
                ) from error
            if not matches:
                raise _refusal(request, "object does not match required labels")
        await self._then.validate(request)

    async def _selector(self, request: AdmissionRequest) -> Object | None:
        resource = request.resource
        grant = await self._grants.of(request.context.cluster, self._export)
        if grant is None:
            raise _refusal(
                request,
                "could not find suitable apibinding in target logical cluster: "
                "no suitable binding found",
            )
        if (resource.group, resource.plural) in grant.bound:
            return None
        return grant.selector(resource.group, resource.plural)


def _add_labels(request: AdmissionRequest, obj: Object, wanted: dict[str, str]) -> None:
    if not wanted:
        return
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    for key, value in wanted.items():
        if labels.setdefault(key, value) != value:
            raise _refusal(request, f"protected label {key} must have value {value}")
    metadata["labels"] = labels


def _refusal(request: AdmissionRequest, why: str) -> Forbidden:
    resource = request.resource
    return Forbidden.resource(resource.group, resource.plural, request.name, why)
