"""The admission chain: one list, in order. Mutating plug-ins first, then validating ones.

A plug-in that is about one kind says so (`kind`); writes of other kinds do not meet it. Kinds
are told apart by where they are stored: what has two names is met under both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from pykcp.admission.reinvocation import Reinvocation
from pykcp.machinery.patch import managed
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.admitting import AdmissionRequest
from pykcp.registry.create import match_namespace
from pykcp.registry.resource import Resource

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


P = TypeVar("P", bound=Plugin)


class _Line(Generic[P]):
    """Plug-ins in order, sorted out by the kinds they are about."""

    def __init__(self, plugins: Sequence[P]) -> None:
        kinds = [_kind_of(plugin) for plugin in plugins]
        self._general = tuple(p for p, kind in zip(plugins, kinds, strict=True) if kind is None)
        self._by_kind = {
            wanted: tuple(
                p for p, kind in zip(plugins, kinds, strict=True) if kind in (None, wanted)
            )
            for wanted in kinds
            if wanted is not None
        }

    def of(self, resource: Resource) -> tuple[P, ...]:
        return self._by_kind.get(resource.definition.storage, self._general)


def _kind_of(plugin: Plugin) -> tuple[str, str] | None:
    kind: GroupVersionResource | None = getattr(plugin, "kind", None)
    return None if kind is None else (kind.group, kind.resource)


class AdmissionChain:
    def __init__(self, mutating: Sequence[Mutating], validating: Sequence[Validating]) -> None:
        self._mutating = _Line(mutating)
        self._validating = _Line(validating)

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
        for plugin in self._mutating.of(request.resource):
            if plugin.wants(request):
                await plugin.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._validating.of(request.resource):
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
