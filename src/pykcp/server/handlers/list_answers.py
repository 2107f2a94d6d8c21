"""Lists on their way to clients: stored bytes joined into one answer, or shortened on request.

A long list is read, made and sent a page at a time, as the client takes it: it is never held
as a whole, and others have their turn in between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Protocol

import orjson

from pykcp.aio.resting import ShortSlices, rest
from pykcp.machinery.schema.growth import AT_ONCE, Outgrown
from pykcp.registry.verbs.read import Listing
from pykcp.server.call import Call, integer
from pykcp.server.media import negotiation, protobuf_form, transforms
from pykcp.server.media.answers import (
    Room,
    form_headers,
    instead_of_protobuf,
    is_plain_json,
    may_compress,
    send_json,
    send_pieces,
    send_protobuf,
    send_reformed,
)
from pykcp.server.media.pieces import TABLE, Pieces, shape_of
from pykcp.types import Object


class Pages(Protocol):
    """A list, a page at a time: a `Pager`, or one that is at hand."""

    @property
    def is_done(self) -> bool: ...

    async def next(self) -> Listing: ...


class OnePage:
    """A list that is at hand as a whole."""

    is_done = True

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    async def next(self) -> Listing:
        return self._listing


_MOST_WHOLE = 16 << 20
"""Octets of a list that is made into another form as a whole."""
_CHUNK = 256
_CHUNK_BYTES = 256 * 1024
"""Octets of items that are made before they are sent."""
_PROTOBUF_ITEMS = f"{protobuf_form.__name__}:{protobuf_form.items_of.__name__}"


class ListAnswer:
    """The answer to one request."""

    def __init__(self, call: Call, pages: Pages, room: Room) -> None:
        self._call, self._pages, self._room = call, pages, room
        self._pieces = Pieces(call.shown, shape_of(call), call.cluster)
        self._is_slow = False
        shape = self._pieces.shape
        if not shape.transform:
            self._head, self._field = call.resource.list_type, b"items"
        elif shape.transform == TABLE:
            self._head = transforms.table_head(call.resource, shape.version) + b","
            self._field = b"rows"
        else:
            self._head, self._field = _partial_head(shape.version), b"items"

    async def send(self, first: Listing) -> None:
        call = self._call
        if call.accepted.media_type == negotiation.PROTOBUF and call.accepted.transform:
            await self._send_partial_protobuf(first)
        elif not is_plain_json(call):
            await self._send_whole(first)
        elif self._pages.is_done and not may_compress(call, sum(map(len, first.values))):
            try:
                items = self._pieces.at_once(first.values)
            except Outgrown:
                await self._stream(first)
                return
            send_json(call, self._body(first, items))
        else:
            await self._stream(first)

    # -- as a whole

    async def _send_whole(self, first: Listing) -> None:
        """A form that cannot be made piece by piece."""
        page, made, size = first, list[bytes](), 0
        while True:
            async for items in self._made(page):
                made += items
                size += sum(map(len, items))
            if self._pages.is_done:
                break
            if size > _MOST_WHOLE:
                await self._send_large(page, made)
                return
            page = await self._next()
        body = b"".join(self._body(page, made))
        if not await send_reformed(self._call, body, 200):
            send_json(self._call, body)

    async def _send_large(self, page: Listing, made: list[bytes]) -> None:
        """Protobuf is made a page at a time. Otherwise it is sent as JSON, which is YAML, too.

        `page`: the last one of those whose items are made.
        """
        call, resource = self._call, self._call.resource
        work = resource.services.large
        is_protobuf = call.accepted.media_type == negotiation.PROTOBUF
        if not is_protobuf or work is None or not resource.definition.native:
            if is_protobuf:
                call.accepted = instead_of_protobuf(call)
            await self._stream(page, made)
            return
        names, list_kind = (resource.api_version, resource.kind), resource.definition.list_kind
        parts: list[bytes] = []
        while True:
            parts.append(await work.compute(call.cluster, _PROTOBUF_ITEMS, *names, made))
            if self._pages.is_done:
                break
            page, made = await self._next(), []
            async for items in self._made(page):
                made += items
        head = {"kind": list_kind, "apiVersion": names[0], "metadata": list_metadata(page)}
        send_protobuf(call, protobuf_form.encode_list(head, b"".join(parts)))

    async def _send_partial_protobuf(self, page: Listing) -> None:
        """A list of metadata, encoded some objects at a time."""
        call, version = self._call, self._pieces.shape.version
        work, names = call.resource.services.large, ("meta.k8s.io/v1", "PartialObjectMetadata")
        parts: list[bytes] = []
        while True:
            async for items in self._made(page):
                if work is None or sum(map(len, items)) <= _CHUNK_BYTES // 4:
                    parts.append(protobuf_form.items_of(*names, items))
                    await rest()
                else:
                    parts.append(await work.compute(call.cluster, _PROTOBUF_ITEMS, *names, items))
            if self._pages.is_done:
                break
            page = await self._next()
        head = transforms.partial_list([], list_metadata(page), version)
        send_protobuf(call, protobuf_form.encode_list(head, b"".join(parts)))

    # -- piece by piece

    async def _stream(self, first: Listing, made: list[bytes] | None = None) -> None:
        """Items as the client takes them. `made`: those of the first page and of all before it."""
        await send_pieces(self._call, self._parts(first, made), form=form_headers(self._call))

    async def _parts(self, page: Listing, made: list[bytes] | None) -> AsyncGenerator[bytes, None]:
        """A list around its items. Where it could go on is known only at the end of a limited one."""
        call, pages, head = self._call, self._pages, self._head
        is_open = not pages.is_done and not _is_unlimited(call)
        if not is_open:
            head += b'"metadata":%b,' % orjson.dumps(_metadata(call, page))
        yield head + b'"%b":[' % self._field
        before = b""
        if made:
            yield b",".join(made)
            before = b","
        while True:
            if made is None:
                async for items in self._made(page):
                    if items:
                        yield before + b",".join(items)
                        before = b","
            if pages.is_done:
                break
            self._room.give()
            await self._room.take()
            page, made = await pages.next(), None
        yield b'],"metadata":%b}\n' % orjson.dumps(_metadata(call, page)) if is_open else b"]}\n"

    async def _next(self) -> Listing:
        await rest()
        return await self._pages.next()

    async def _made(self, page: Listing) -> AsyncIterator[list[bytes]]:
        """The items of a page, some at a time."""
        pieces = self._pieces
        if pieces.are_stored:
            yield page.values
            return
        slices = ShortSlices()
        for values in _portions(page.values):
            made = self._quickly_made(values)
            if made is None:
                made = []
                for value in values:
                    made.append(await pieces.item(value))
                    if slices.is_over():
                        await slices.rest()
                    if len(made[-1]) > _CHUNK_BYTES:
                        yield made
                        made = []
            yield made
            if slices.is_over():
                await slices.rest()

    def _quickly_made(self, values: list[bytes]) -> list[bytes] | None:
        """The items of some values, if that takes no time worth mentioning."""
        if self._is_slow:
            return None
        try:
            return self._pieces.at_once(values)
        except Outgrown:
            self._is_slow = True  # the others are probably like these
            return None

    def _body(self, listing: Listing, items: list[bytes]) -> list[bytes]:
        metadata = orjson.dumps(_metadata(self._call, listing))
        parts = [b'%b"metadata":%b,"%b":[' % (self._head, metadata, self._field)]
        for start in range(0, len(items), _CHUNK):
            if start:
                parts.append(b",")
            parts.append(b",".join(items[start : start + _CHUNK]))
        parts.append(b"]}\n")
        return parts


def _portions(values: list[bytes]) -> Iterator[list[bytes]]:
    """The values, as many at a time as may be decoded at a go, but for those that are alone."""
    start = size = 0
    for index, value in enumerate(values):
        size += len(value)
        if size > AT_ONCE and index > start:
            yield values[start:index]
            start, size = index, len(value)
    yield values[start:]


def _partial_head(version: str) -> bytes:
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}"}
    return orjson.dumps(kind)[:-1] + b","


def _is_unlimited(call: Call) -> bool:
    return not call.info.query or integer(call, "limit") <= 0


def _metadata(call: Call, listing: Listing) -> Object:
    metadata = list_metadata(listing)
    if not call.resource.definition.native and not call.accepted.transform:
        metadata.setdefault("continue", "")  # custom lists always say it
    return metadata


def list_metadata(listing: Listing) -> Object:
    metadata: Object = {"resourceVersion": listing.version or str(listing.revision)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata
