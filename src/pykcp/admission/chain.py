"""The admission chain: one list, in order. Mutating plug-ins first, then validating ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykcp.registry.admitting import AdmissionRequest


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
        for plugin in self._mutating:
            if plugin.wants(request):
                await plugin.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        for plugin in self._validating:
            if plugin.wants(request):
                await plugin.validate(request)
