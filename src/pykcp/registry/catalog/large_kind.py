"""Kinds whose schema is too large to be compiled on the event loop.

Worker processes hold such a schema compiled. They make and judge its objects (`large`), and bring
what the store holds under the schema of today before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import orjson

from pykcp.apis.kube.validation.rules import Facts
from pykcp.registry import codec
from pykcp.registry.catalog.kinds import Kind, Verdict
from pykcp.registry.conversion.webhook import ConvertedEvents
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.registry.resource import Resource

Made = TypeVar("Made")


class LargeKind:
    """A kind that is compiled here only for the rare caller that cannot wait for a worker."""

    create_on_update = False
    unconditional_update = False

    def __init__(self, make: Callable[[], Kind]) -> None:
        self._make = make
        self._made: Kind | None = None

    def _kind(self) -> Kind:
        if self._made is None:
            self._made = self._make()
        return self._made

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        return self._kind().decode(obj, problems, raw)

    def decode_applied(self, obj: Object) -> Object:
        return self._kind().decode_applied(obj)

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        return self._kind().before_create(obj, facts)

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        return self._kind().before_update(new, old, subresource, facts)

    def settle(self, obj: Object) -> None:
        self._kind().settle(obj)

    def selectable(self, obj: Object) -> dict[str, str]:
        return self._kind().selectable(obj)

    def manage_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        self._kind().manage_update(live, new, manager, subresource, now)

    def forget_unfit(self, live: Object, new: Object, subresource: str) -> bool:
        return self._kind().forget_unfit(live, new, subresource)

    def manage_apply(
        self,
        live: Object | None,
        applied: Object,
        manager: str,
        subresource: str,
        now: str,
        *,
        force: bool,
    ) -> Object:
        return self._kind().manage_apply(live, applied, manager, subresource, now, force=force)


class LargeConversion(ConvertedEvents):
    """What is stored under another version or an earlier schema, read by a worker process."""

    def __init__(self, resource: Resource) -> None:
        super().__init__()
        self._resource = resource
        definition = resource.definition
        self._own = resource.api_version
        self._storage = definition.api_version(definition.storage_version)
        stored = definition.stored_versions or (definition.storage_version,)
        self._default = definition.api_version(stored[0])

    def is_foreign(self, value: bytes) -> bool:
        """Whether the stored value must be brought under the schema of the served version."""
        if codec.revision_of(value) < self._resource.since:
            return True
        return (codec.stored_version(value) or self._default) != self._own

    async def to_storage(self, obj: Object, *, can_restart: bool = False) -> Object:
        """An object of the served version as it is to be stored: that of a delete."""
        work = self._resource.services.large
        if self._own == self._storage or work is None:
            return obj
        stored: Object = orjson.loads(await work.stored_form(self._resource, orjson.dumps(obj)))
        return stored

    async def from_storage(self, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as values of the served version, without a suffix, and ready to be served."""
        out = list(values)
        places = [index for index, value in enumerate(values) if self.is_foreign(value)]
        for index, value in enumerate(values):
            out[index] = codec.without_version(value)
        work = self._resource.services.large
        if places and work is not None:
            read = await work.read_values(self._resource, [values[index] for index in places])
            for index, value in zip(places, read, strict=True):
                out[index] = value
        return out

    async def retrying(self, make: Callable[[], Made], *, can_restart: bool = False) -> Made:
        """What `make` makes: nothing of it has to wait here."""
        return make()
