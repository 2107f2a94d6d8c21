"""What worker processes do for large writes: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.changes import Recipe, ViewRecipe
from pykcp.registry.verbs.deletion import DeleteOptions, DeletionAction
from pykcp.storage.values import Value
from pykcp.types import Object


class Made(NamedTuple):
    """A new object, before admission."""

    text: bytes
    name: str
    generate_name: str
    warnings: list[str]


class Assigned(NamedTuple):
    """What the server gives a new object."""

    name: str
    uid: str
    now: str


class ValidatedObject(NamedTuple):
    """An object that passed validation, as it is shown to admission and as it is stored."""

    shown: bytes
    value: Value
    terms: str
    indexes: tuple[str, ...]
    warnings: list[str]
    dry: bytes
    """What a dry run answers with."""
    failure: Exception | None = None
    """Why it cannot be stored: raised when admission has nothing against it."""
    finding: str = ""
    """What the kind's own admission plug-in has to say against it, if that was looked for."""
    is_removed: bool = False
    """The update took the last finalizer of a deleted object away."""
    is_unchanged: bool = False


class ViewedObject(NamedTuple):
    """A new object that was written through a subresource, as that shows it."""

    text: bytes
    sent: Object
    old: Object
    warnings: Sequence[str] = ()


class ValidatedView(NamedTuple):
    """The same after validation; `shown` of the object is not needed."""

    validated: ValidatedObject
    new: Object
    old: Object


class Doomed(NamedTuple):
    """What a delete does to an object."""

    action: DeletionAction
    uid: str
    marked: ValidatedObject | None
    """The object with its deletion mark, if that is what it does."""


class Patched(NamedTuple):
    """What became of an object by the patch of a webhook."""

    text: bytes
    """Empty if it did not change."""
    problem: str = ""
    """Why the patch cannot be read."""


class Mutated(NamedTuple):
    """What became of an object by the mutations of a policy."""

    text: bytes
    """Empty if it did not change."""
    worked: bool
    """Whether one of them was made, and be it that it changed nothing."""
    problems: list[str]
    """Why the others were not."""


class ObjectShape(NamedTuple):
    """In what form a client wants to see objects."""

    transform: str = ""
    """`Table`, or the name of a kind of metadata."""
    version: str = ""
    """Of meta.k8s.io, in which the transformed object is."""
    include: str = ""
    """What the rows of a table have of their objects."""
    is_plain: bool = False
    """Without the annotation of the logical cluster."""


class LargeWork(Protocol):
    """Does the long steps of a write without holding the event loop."""

    async def check(self, resource: Resource, ctx: RequestContext, recipe: Recipe) -> None:
        """Raises what is wrong with the body."""

    async def new_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        namespace: str,
        recipe: Recipe,
        missing: str,
    ) -> Made:
        """`missing`: the name under which an update found nothing; empty for a create."""

    async def judged_new(
        self, resource: Resource, ctx: RequestContext, text: bytes, assigned: Assigned
    ) -> ValidatedObject: ...

    async def changed_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: Recipe,
        live: bytes,
        subresource: str,
    ) -> Made: ...

    async def judged_change(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        text: bytes,
        live: bytes,
        subresource: str,
    ) -> ValidatedObject: ...

    async def viewed_change(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: ViewRecipe,
        live: bytes,
    ) -> ViewedObject:
        """A change through a subresource that shows the object as one of another kind."""

    async def judged_view(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: ViewRecipe,
        made: ViewedObject,
        live: bytes,
    ) -> ValidatedView:
        """The change after admission, which has left its mark on `made.sent`."""

    async def shown_scale(self, resource: Resource, ctx: RequestContext, value: bytes) -> Object:
        """The scale of an object."""

    async def deletion(
        self, resource: Resource, ctx: RequestContext, value: bytes, options: DeleteOptions
    ) -> Doomed:
        """Conflict if the object is not the one that is to be deleted."""

    async def patched(
        self, resource: Resource, ctx: RequestContext, text: bytes, patch: bytes
    ) -> Patched:
        """An object after a JSON patch that admission applies to it."""

    async def mutated(self, resource: Resource, tenant: str, policy: bytes, seen: Any) -> Mutated:
        """An object after the mutations of a policy; `seen`: what its expressions see."""

    async def read_values(self, resource: Resource, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as if they had been stored now, in the resource's version."""

    async def shown(
        self, resource: Resource, tenant: str, shape: ObjectShape, values: Sequence[bytes]
    ) -> list[bytes]:
        """Stored values as texts for clients: objects, rows of a table, or metadata."""

    async def read_patched(
        self, resource: Resource, tenant: str, text: bytes, strict: bool
    ) -> bytes:
        """An object as webhooks or policies patched it, decoded by its kind."""

    async def compute(self, tenant: str, function: str, *args: Any) -> Any:
        """The result of `module:function` called with these arguments by a worker process."""

    async def reform(
        self, tenant: str, media_type: str, is_pretty: bool, body: bytes
    ) -> bytes | None:
        """A JSON text in another media type, or with lines and indentation."""

    async def stored_form(self, resource: Resource, text: bytes) -> bytes:
        """An object of the resource's version as it is stored."""
