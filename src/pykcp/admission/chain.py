"""The admission chain: one list, in order. Mutating plug-ins first, then validating ones.

A plug-in for a single kind declares it (`kind`) and is not called for other kinds. Kinds are
identified by their storage location: a kind with two names is matched under both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import orjson

from pykcp.admission.reinvocation import Reinvocation
from pykcp.machinery.patch import managed
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.create import match_namespace

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


_OPERATIONS = ("CREATE", "UPDATE", "DELETE")


class _Line(Generic[P]):
    """Plug-ins in order, sorted out by the kinds and operations they are about."""

    def __init__(self, plugins: Sequence[P]) -> None:
        kinds = {kind for plugin in plugins for kind in _kinds_of(plugin) or ()}
        self._general = self._by_operation([p for p in plugins if _kinds_of(p) is None])
        self._by_kind = {
            kind: self._by_operation([p for p in plugins if kind in (_kinds_of(p) or (kind,))])
            for kind in kinds
        }

    @staticmethod
    def _by_operation(plugins: Sequence[P]) -> dict[str, tuple[P, ...]]:
        return {
            operation: tuple(p for p in plugins if operation in _operations_of(p))
            for operation in _OPERATIONS
        }

    def of(self, resource: Resource, operation: str) -> tuple[P, ...]:
        lines = self._by_kind.get((resource.group, resource.plural))
        if lines is None:  # a kind under its older name meets the same plug-ins
            lines = self._by_kind.get(resource.storage, self._general)
        return lines[operation]


def _kinds_of(plugin: Plugin) -> tuple[tuple[str, str], ...] | None:
    kind: GroupVersionResource | None = getattr(plugin, "kind", None)
    kinds: Sequence[GroupVersionResource] | None = getattr(plugin, "kinds", None)
    if kind is not None:
        kinds = (kind,)
    return None if kinds is None else tuple((each.group, each.resource) for each in kinds)


def _operations_of(plugin: Plugin) -> Sequence[str]:
    found: Sequence[str] = getattr(plugin, "operations", _OPERATIONS)
    return found


class NotInstalledError(Exception):
    """A write came before the chain had its plug-ins."""


class _NoLine:
    def of(self, resource: Resource, operation: str) -> tuple[Any, ...]:
        raise NotInstalledError("the admission plug-ins are not installed yet")


class AdmissionChain:
    """Plug-ins look things up in a directory whose resources are written through this chain.

    So the chain is made first, without them, and they are installed before the first write.
    """

    def __init__(self) -> None:
        self._mutating: _Line[Mutating] | _NoLine = _NoLine()
        self._validating: _Line[Validating] | _NoLine = _NoLine()

    def install(self, mutating: Sequence[Mutating], validating: Sequence[Validating]) -> None:
        self._mutating, self._validating = _Line(mutating), _Line(validating)

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
        for plugin in self._mutating.of(request.resource, request.operation):
            if plugin.wants(request):
                await plugin.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._validating.of(request.resource, request.operation):
            if plugin.wants(request):
                await plugin.validate(request)


def _complete_metadata(request: AdmissionRequest) -> None:
    """Metadata that was replaced as a whole gets back what the request says anyway."""
    if not request.has_object:
        return
    metadata, resource = request.metadata, request.resource
    match_namespace(resource, request.namespace, metadata)
    if not metadata.get("resourceVersion") and resource.rules.unconditional_update:
        version = request.old_metadata.get("resourceVersion")
        if version:
            metadata["resourceVersion"] = version


def _restore_managers(request: AdmissionRequest, before: Reinvocation) -> None:
    """Restore the managed fields if admission made them invalid.

    Fields changed by admission have no owner: the managers of a write are computed before.
    """
    fields = before.managed_fields
    if request.managed_fields() == fields or request.obj is None:
        return
    metadata = request.obj["metadata"]
    if isinstance(fields, bytes):  # of an object that was not decoded then
        fields = orjson.loads(fields)
    if metadata.get("managedFields") == fields:
        return
    try:
        managed.read(metadata.get("managedFields") or [])
    except managed.BadManagedFields as error:
        metadata["managedFields"] = fields
        if fields is None:
            del metadata["managedFields"]
        request.context.warn(_BAD_MANAGERS + str(error))
