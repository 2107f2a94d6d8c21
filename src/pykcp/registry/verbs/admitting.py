"""The registry's interface to admission: mutate an object, then validate it.

The plug-ins live in `admission`; the registry only knows this protocol, so that
controllers and HTTP pass the same gates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pykcp.machinery.schema.model import Schema
from pykcp.registry.context import RequestContext
from pykcp.storage.operations import Operation
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.registry.resource import Resource
    from pykcp.registry.verbs.deletion import DeleteOptions

Counts: TypeAlias = Sequence[Operation]
"""What limits write along with what they count."""
Reserve: TypeAlias = Callable[[Sequence["AdmissionRequest"]], AbstractAsyncContextManager[Counts]]
"""Entered just before creates are written and left when that is over: the operations commit
together with the objects, or nothing does. It is given all creates of the write that asked for
it, may refuse, and is entered again if the write failed because one of its operations did."""


@dataclass(frozen=True, slots=True)
class ShownKind:
    """The kind as which a subresource shows objects that are of another one."""

    group: str
    version: str
    kind: str
    schema: Schema

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


@dataclass(slots=True)
class AdmissionRequest:
    """One write, as admission sees it."""

    context: RequestContext
    resource: Resource
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    namespace: str
    name: str
    obj: Object | None
    """The new object; plug-ins that mutate change it in place. None for DELETE."""
    old: Object | None = None
    subresource: str = ""
    kind: ShownKind | None = None
    """What the objects are, if they are not of the resource's own kind."""
    reinvocation: object | None = None
    """What mutating plug-ins remember between rounds; None until one of them has to."""
    deletion: DeleteOptions | None = None
    """How a DELETE is to be made."""
    collection: Sequence[bytes] | None = None
    """For a deletecollection: all objects to delete, before the first one is deleted."""
    reservations: list[Reserve] | None = None
    """Limits that keep count of what is created (quotas); None if there are none."""
    can_restart: bool = False
    """Whether `Outgrown` may be raised."""

    @property
    def has_object(self) -> bool:
        """Whether there is a new object."""
        return self.obj is not None

    @property
    def metadata(self) -> Object:
        """The new object's, to be changed in place; a large object is not decoded for it.

        Managed fields may be missing: see `managed_fields`.
        """
        found: Object | None = None if self.obj is None else self.obj.get("metadata")
        return {} if found is None else found

    @property
    def old_metadata(self) -> Object:
        """The old object's, to be read."""
        found: Object = (self.old or {}).get("metadata") or {}
        return found

    def spec_with(self, names: Iterable[str]) -> Object | None:
        """The new object's spec, to be changed in place, if it is one. Of a large object only these
        members are values; others may be set, but not read."""
        found = (self.obj or {}).get("spec")
        return found if isinstance(found, dict) else None

    def managed_fields(self) -> object:
        """Something to compare: it changes if the new object's managed fields do."""
        return (self.obj or {}).get("metadata", {}).get("managedFields")

    def may_mention(self, word: str) -> bool:
        """False if the word is nowhere in the object, where that is quicker to find out."""
        return True

    def reserve(self, reserve: Reserve) -> None:
        if self.reservations is None:
            self.reservations = []
        self.reservations.append(reserve)


class Admission(Protocol):
    async def mutate(self, request: AdmissionRequest) -> None: ...

    async def validate(self, request: AdmissionRequest) -> None: ...


class NoAdmission:
    """Admits everything; for controllers' own bookkeeping and for tests."""

    async def mutate(self, request: AdmissionRequest) -> None:
        return

    async def validate(self, request: AdmissionRequest) -> None:
        return
