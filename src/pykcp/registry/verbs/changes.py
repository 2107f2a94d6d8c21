"""What an update is given: which object it is about, and how it is to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import ShownKind
from pykcp.types import Object


@dataclass(slots=True)
class WriteTarget:
    """The object that a write is about, and the request that writes it."""

    resource: Resource
    context: RequestContext
    namespace: str
    name: str
    subresource: str = ""
    """Through which it is written; WHOLE: spec and status at once."""

    @property
    def shown_subresource(self) -> str:
        """The subresource as admission and field managers see it."""
        return "" if self.subresource == WHOLE else self.subresource


class SubresourceView(Protocol):
    """A subresource that shows an object as one of another kind, which is what is admitted."""

    subresource: str
    kind: ShownKind
    written: Object | None
    """What it shows after a write that worker processes made."""

    @property
    def recipe(self) -> ViewRecipe:
        """The same view as data, for a worker process."""

    def make(self, live: Object | None) -> Object:
        """The new object, from the live one and what the client sent."""

    def sent(self, obj: Object) -> Object:
        """What the client sent, of which the object was made."""

    def write(self, obj: Object, sent: Object) -> None:
        """Take over into the object what admission made of what was sent."""

    def show(self, obj: Object, *, is_settled: bool) -> Object:
        """What it shows of an object; `is_settled`: after all changes, when it is judged."""


class ViewRecipe(Protocol):
    def bind(
        self, resource: Resource, manager: str, warn: Callable[[str], None]
    ) -> SubresourceView: ...


Make: TypeAlias = Callable[[Object | None], Object]
"""From the live object (None if there is none yet) to the new one.

Must not change its argument; called again when the write has to be tried again."""


class Recipe(Protocol):
    """How the new object comes from the live one, as data that a worker process understands."""

    is_apply: ClassVar[bool]
    is_patch: ClassVar[bool]

    @property
    def size(self) -> int:
        """How much was sent, in octets of JSON."""

    def bind(self, resource: Resource, warn: Callable[[str], None]) -> Make:
        """Decode the request body; `warn` is called for problems that are accepted."""


def _unbound(_live: Object | None) -> Object:
    raise AssertionError("a large change is made by a worker process")


class ObjectChange(NamedTuple):
    """How the new object comes from the live one (None if there is none yet)."""

    make: Make
    is_apply: bool = False
    """The result carries its managedFields already, and a missing object is created."""
    is_managed: bool = False
    """The result carries its managedFields already."""
    is_patch: bool = False
    """The result has the live object's resource version unless the patch says another."""
    view: SubresourceView | None = None
    """How admission sees the object, if not as it is."""
    recipe: Recipe | None = None
    """The same as `make`, for a worker process; None if only this process can do it."""
    edit: Callable[[Object], Any] | None = None
    """The part of `make` that only this process can do: it changes a copy of the live object in
    place, or returns another one."""
    is_large: bool = False
    """The object that was sent is small, but what becomes of it is not."""

    @property
    def can_restart(self) -> bool:
        """Whether a worker process can do it, too, if the object outgrows the event loop."""
        return self.recipe is not None or self.edit is not None

    @classmethod
    def of(cls, recipe: Recipe, resource: Resource, ctx: RequestContext) -> Self:
        is_large = resource.is_large(recipe.size)
        make: Make = _unbound
        if not is_large:
            try:
                with bounded(resource.has_workers):
                    make = recipe.bind(resource, ctx.warn)
            except Outgrown:
                is_large = True
        return cls(
            make,
            is_apply=recipe.is_apply,
            is_patch=recipe.is_patch,
            recipe=recipe,
            is_large=is_large,
        )


class Written(NamedTuple):
    value: bytes
    was_created: bool


def live_object(resource: Resource, value: bytes) -> Object:
    obj = resource.object_of(value)
    codec.strip_cluster(obj)
    return obj
