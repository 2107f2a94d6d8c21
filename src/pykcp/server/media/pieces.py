"""Stored values as the texts that clients see: objects, rows of tables, metadata.

Most are stored as they are shown. Those that must be decoded, because they are of an earlier schema
or of another version, or because something shorter is made of them, are made by a worker process
if they are large or become so.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from pykcp.aio.turns import heavy_turn
from pykcp.machinery.schema.growth import Outgrown, bounded, grow
from pykcp.registry.codec import revision_of
from pykcp.registry.resource import LARGE, Resource
from pykcp.registry.verbs.large_work import ObjectShape
from pykcp.server.call import Call
from pykcp.server.media import transforms

TABLE = "Table"


def piece(resource: Resource, shape: ObjectShape, value: bytes) -> bytes:
    """The text of one value, at once. Raises Outgrown within `bounded`."""
    if not shape.transform:
        return resource.served(value)
    grow(len(value))
    obj = resource.object_of(value)
    made = (
        transforms.rows(resource, [obj], shape.version, shape.include)[0]
        if shape.transform == TABLE
        else transforms.partial(obj, shape.version)
    )
    text: bytes = orjson.dumps(made)
    return text


def shape_of(call: Call) -> ObjectShape:
    """What a client asked for; BadRequest if there is no such table."""
    accepted = call.accepted
    if not accepted.transform:
        return ObjectShape(is_plain=call.is_plain)
    include = transforms.include_policy(call) if accepted.transform == TABLE else ""
    return ObjectShape(accepted.transform, accepted.transform_version, include, call.is_plain)


class Pieces:
    """What one client sees of stored values."""

    def __init__(self, resource: Resource, shape: ObjectShape, tenant: str) -> None:
        """`resource`: as the client sees it, plain or not."""
        self.resource, self.shape = resource, shape
        self._tenant = tenant
        self._is_native = resource.definition.native
        self._work = resource.services.large if resource.has_workers else None

    @property
    def are_stored(self) -> bool:
        """Whether stored values are items of lists as they are."""
        resource = self.resource
        is_same = resource.conversion is None and not resource.is_plain
        return is_same and self._is_native and not self.shape.transform

    def at_once(self, values: list[bytes]) -> list[bytes]:
        """Items of a list; rows of a table are one text. Raises Outgrown if others would have to wait."""
        if self.are_stored:
            return values
        with bounded():
            if self.shape.transform == TABLE and values:
                return [self._rows(values)]
            return [self._item(value) for value in values]

    def _rows(self, values: list[bytes]) -> bytes:
        resource, shape = self.resource, self.shape
        grow(sum(map(len, values)))
        objects = [resource.object_of(value) for value in values]
        rows: bytes = orjson.dumps(transforms.rows(resource, objects, shape.version, shape.include))
        return rows[1:-1]

    async def item(self, value: bytes) -> bytes:
        """One item of a list, for steps that leave time for others."""
        if self.are_stored:
            return value
        made = await self._made(value, self._item)
        return made if made is not None else self._as_item(await self._elsewhere(value))

    async def of(self, value: bytes) -> bytes:
        """An object that is shown alone, or its row, or its metadata."""
        made = await self._made(value, self._whole)
        return made if made is not None else await self._elsewhere(value)

    async def _made(self, value: bytes, make: Callable[[bytes], bytes]) -> bytes | None:
        """None if it is to be made elsewhere."""
        try:
            with bounded(self._work is not None):
                if self._work is not None or len(value) <= LARGE:
                    return make(value)
        except Outgrown:
            return None
        async with heavy_turn(self._tenant):  # only this process knows the resource
            return make(value)

    async def _elsewhere(self, value: bytes) -> bytes:
        assert self._work is not None
        (made,) = await self._work.shown(self.resource, self._tenant, self.shape, (value,))
        return made

    def _whole(self, value: bytes) -> bytes:
        return piece(self.resource, self.shape, value)

    def _item(self, value: bytes) -> bytes:
        if self.shape.transform:
            return piece(self.resource, self.shape, value)
        return self.resource.item(value)

    def _as_item(self, text: bytes) -> bytes:
        """Native kinds leave their type out in lists."""
        if not self._is_native or self.shape.transform:
            return text
        return b"{" + text[len(self.resource.type_prefix) :]


def whole_of(resource: Resource, shape: ObjectShape, value: bytes, made: bytes) -> bytes:
    """The answer to a GET, of the piece that its value became."""
    if shape.transform != TABLE:
        return made
    revision = revision_of(value)
    metadata = b'{"resourceVersion":"%d"}' % revision if revision else b"{}"
    head = transforms.table_head(resource, shape.version)
    return b'%b,"metadata":%b,"rows":[%b]}' % (head, metadata, made)
