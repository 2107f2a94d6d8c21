"""The admission chain: one list, in order. Mutating plug-ins first, then validating ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykcp.admission.reinvocation import Reinvocation
from pykcp.machinery.patch import managed
from pykcp.registry.admitting import AdmissionRequest
from pykcp.registry.create import match_namespace

_BAD_MANAGERS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
    "outdated mutating admission controller; please fix your requests: "
)


class Plugin(Protocol):
    """A plug-in takes part in one or both phases; `wants` must be cheap."""

    name: str

    def wants(self, request: AdmissionRequest) -> bool: ...


class Mutating(Plugin, Protocol):
    async def mutate(self, request: AdmissionRequest) -> None: ...


class Validating(Plugin, Protocol):
    async def validate(self, request: AdmissionRequest) -> None: ...


class AdmissionChain:
    def __init__(self, mutating: Sequence[Mutating], validating: Sequence[Validating]) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)

    async def mutate(self, request: AdmissionRequest) -> None:
        await self._mutate_once(request)
        again = request.reinvocation
        if not isinstance(again, Reinvocation):
            return
        if again.is_wanted:
            again.is_second = True
            await self._mutate_once(request)
        _complete_metadata(request)
        _restore_managers(request, again)

    async def _mutate_once(self, request: AdmissionRequest) -> None:
        for plugin in self._mutating:
            if plugin.wants(request):
                await plugin.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._validating:
            if plugin.wants(request):
                await plugin.validate(request)


def _complete_metadata(request: AdmissionRequest) -> None:
    """Metadata that was replaced as a whole gets back what the request says anyway."""
    if request.obj is None:
        return
    metadata, resource = request.obj["metadata"], request.resource
    match_namespace(resource, request.namespace, metadata)
    if (
        request.old is not None
        and not metadata.get("resourceVersion")
        and resource.rules.unconditional_update
    ):
        metadata["resourceVersion"] = request.old["metadata"]["resourceVersion"]


def _restore_managers(request: AdmissionRequest, before: Reinvocation) -> None:
    """Managers are as they were if admission left something unreadable.

    What admission changes is nobody's: the managers of a write are found before.
    """
    metadata = (request.obj or {}).get("metadata")
    if metadata is None or metadata.get("managedFields") == before.managed_fields:
        return
    try:
        managed.read(metadata.get("managedFields") or [])
    except managed.BadManagedFields as error:
        metadata["managedFields"] = before.managed_fields
        if before.managed_fields is None:
            del metadata["managedFields"]
        request.context.warn(_BAD_MANAGERS + str(error))
