"""LIST: stored bytes joined into one answer, or shortened on request.

A long list is read, made and sent a page at a time, as the client takes it: it is never held
as a whole, and others have their turn in between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import orjson

from pykcp.aio.resting import rest
from pykcp.machinery.status import BadRequest, FieldError, go_quote
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.continuing import decode_token
from pykcp.registry.verbs.read import PAGE_BYTES, Listing, ListOptions, Pager, token_base
from pykcp.registry.watch.selection import Selection
from pykcp.server.call import Call, integer
from pykcp.server.media import negotiation, protobuf_form, transforms
from pykcp.server.media.answers import (
    Room,
    form_headers,
    instead_of_protobuf,
    may_compress,
    send_json,
    send_object,
    send_pieces,
    send_protobuf,
    send_reformed,
    wants_pretty,
)
from pykcp.server.numbers import BadNumber, uint64
from pykcp.types import Object

_MATCHES = ("Exact", "NotOlderThan")


async def list_(call: Call) -> None:
    await send_list(
        call, Pager(call.resource, call.context, call.info.namespace, list_options(call))
    )


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


async def send_list(call: Call, pages: Pages) -> None:
    """A list in the form that the client asked for, in steps that leave time for others."""
    room = Room(call.exchange, PAGE_BYTES)
    await room.take()
    try:
        await _send(call, pages, room)
    finally:
        room.give()


async def _send(call: Call, pager: Pages, room: Room) -> None:
    first = await pager.next()
    transforms.check_list_form(call)
    if call.accepted.media_type != negotiation.JSON or call.accepted.pretty or wants_pretty(call):
        await _send_whole(call, pager, first, room)
    elif call.accepted.transform:
        await _send_transformed(call, pager, first, room)
    elif pager.is_done and not may_compress(call, sum(map(len, first.values))):
        send_json(call, list_body(call, first))
    else:
        await _send_pages(call, pager, first, room)


_MOST_WHOLE = 16 << 20
"""Octets of a list that is made into another form as a whole."""


async def _send_whole(call: Call, pager: Pages, first: Listing, room: Room) -> None:
    """A form that cannot be made piece by piece."""
    values = list(first.values)
    last, size = first, sum(map(len, values))
    while not pager.is_done:
        if size > _MOST_WHOLE and not call.accepted.transform:
            await _send_large(call, pager, replace(last, values=values), room)
            return
        await rest()
        last = await pager.next()
        values += last.values
        size += sum(map(len, last.values))
    whole = replace(last, values=values)
    if call.accepted.transform:
        objects = await _objects(call, values)
        if call.accepted.media_type == negotiation.PROTOBUF:
            await _send_partial_protobuf(call, objects, list_metadata(whole))
        else:
            send_objects(call, objects, list_metadata(whole))
        return
    body = b"".join(list_body(call, whole))
    if not await send_reformed(call, body, 200):
        send_json(call, body)


async def _send_large(call: Call, pager: Pages, page: Listing, room: Room) -> None:
    """Protobuf is made a page at a time. Otherwise it is sent as JSON, which is YAML, too."""
    resource, work = call.resource, call.resource.services.large
    names, list_kind = (resource.api_version, resource.kind), resource.definition.list_kind
    is_protobuf = call.accepted.media_type == negotiation.PROTOBUF
    if not is_protobuf or work is None or not resource.definition.native:
        if is_protobuf:
            call.accepted = instead_of_protobuf(call)
        await _send_pages(call, pager, page, room)
        return
    parts: list[bytes] = []
    while True:
        texts = list(_items(call.shown, page.values))
        parts.append(await work.compute(call.cluster, _PROTOBUF_ITEMS, *names, texts))
        if pager.is_done:
            break
        await rest()
        page = await pager.next()
    head = {"kind": list_kind, "apiVersion": names[0], "metadata": list_metadata(page)}
    send_protobuf(call, protobuf_form.encode_list(head, b"".join(parts)))


_PROTOBUF_ITEMS = f"{protobuf_form.__name__}:{protobuf_form.items_of.__name__}"


async def _send_partial_protobuf(call: Call, objects: list[Object], metadata: Object) -> None:
    """A list of metadata, encoded some objects at a time."""
    version = call.accepted.transform_version
    parts: list[bytes] = []
    for start in range(0, len(objects), _PER_STEP):
        some = transforms.partial_list(objects[start : start + _PER_STEP], {}, version)["items"]
        parts.append(protobuf_form.list_items("meta.k8s.io/v1", "PartialObjectMetadata", some))
        await rest()
    head = transforms.partial_list([], metadata, version)
    send_protobuf(call, protobuf_form.encode_list(head, b"".join(parts)))


async def _objects(call: Call, values: Sequence[bytes]) -> list[Object]:
    """Decoded objects, or only their metadata if that is what is asked for."""
    objects, read = [], 0
    version, is_table = call.accepted.transform_version, call.accepted.transform == "Table"
    for value in values:
        obj = call.shown.object_of(value)
        objects.append(obj if is_table else transforms.partial(obj, version))
        read += len(value) + _DECODED_AT_ONCE // _PER_STEP
        if read > _DECODED_AT_ONCE:
            read = 0
            await rest()
    return objects


_DECODED_AT_ONCE = 256 * 1024
"""Octets that are decoded at a go."""


_PER_STEP = 50
"""Objects that are decoded at a go."""


async def _send_pages(call: Call, pager: Pages, first: Listing, room: Room) -> None:
    """Stored bytes, read as the client takes them."""
    resource = call.resource
    is_first = True

    async def items(page: Listing) -> AsyncIterator[bytes]:
        nonlocal is_first
        values = _items(call.shown, page.values)
        if values:
            yield b",".join(values) if is_first else b",".join((b"", *values))
            is_first = False

    head = resource.list_type
    pieces = _pieces(call, pager, first, room, b"items", head, items)
    await send_pieces(call, pieces, form=form_headers(call))


def _items(resource: Resource, values: list[bytes]) -> list[bytes]:
    if resource.conversion is not None or resource.is_plain or not resource.definition.native:
        return [resource.item(v) for v in values]
    return values


async def _pieces(
    call: Call,
    pager: Pages,
    page: Listing,
    room: Room,
    field: bytes,
    head: bytes,
    items: Callable[[Listing], AsyncIterator[bytes]],
) -> AsyncGenerator[bytes, None]:
    """A list around its items. Where it could go on is known only at the end of a limited one."""
    is_open = not pager.is_done and not _is_unlimited(call)
    if not is_open:
        head += b'"metadata":%b,' % orjson.dumps(_metadata(call, page))
    yield head + b'"%b":[' % field
    async for piece in items(page):
        yield piece
    while not pager.is_done:
        room.give()
        await room.take()
        page = await pager.next()
        async for piece in items(page):
            yield piece
    if is_open:
        yield b'],"metadata":%b}\n' % orjson.dumps(_metadata(call, page))
    else:
        yield b"]}\n"


def _is_unlimited(call: Call) -> bool:
    return not call.info.query or integer(call, "limit") <= 0


def list_body(call: Call, listing: Listing) -> list[bytes]:
    resource = call.resource
    head = resource.list_type + b'"metadata":%b,"items":[' % orjson.dumps(_metadata(call, listing))
    values = _items(call.shown, listing.values)
    parts = [head]
    for start in range(0, len(values), _CHUNK):
        if start:
            parts.append(b",")
        parts.append(b",".join(values[start : start + _CHUNK]))
    parts.append(b"]}\n")
    return parts


_CHUNK = 256


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


async def _send_transformed(call: Call, pager: Pages, first: Listing, room: Room) -> None:
    """Tables and metadata, made some objects at a time."""
    if pager.is_done and len(first.values) <= _PER_STEP:
        objects = [call.shown.object_of(value) for value in first.values]
        send_objects(call, objects, list_metadata(first))
        return
    rows: Callable[[list[Object]], list[Object]]
    if call.accepted.transform == "Table":
        form = transforms.TableForm(call)
        field, head, rows = b"rows", form.head(), form.rows
    else:
        version = call.accepted.transform_version
        field, head = b"items", _partial_head(version)
        rows = partial(_partials, version=version)
    is_first = True

    async def items(page: Listing) -> AsyncIterator[bytes]:
        nonlocal is_first
        for start in range(0, len(page.values), _PER_STEP):
            values = page.values[start : start + _PER_STEP]
            objects = [call.shown.object_of(value) for value in values]
            piece = orjson.dumps(rows(objects))[1:-1]
            yield piece if is_first else b"," + piece
            is_first = False
            await rest()

    await send_pieces(call, _pieces(call, pager, first, room, field, head, items))


def _partials(objects: list[Object], version: str) -> list[Object]:
    return [transforms.partial(obj, version) for obj in objects]


def _partial_head(version: str) -> bytes:
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}"}
    return orjson.dumps(kind)[:-1] + b","


def send_objects(call: Call, objects: list[Object], metadata: Object) -> None:
    """A list of objects that are at hand, in the form that the client asked for."""
    resource, accepted = call.resource, call.accepted
    body: Object
    if not accepted.transform:
        body = {
            "kind": resource.definition.list_kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": objects,
        }
    elif accepted.transform == "Table":
        include = transforms.include_policy(call)
        now = resource.services.sources.now.clock()
        body = transforms.table(
            resource, objects, metadata, accepted.transform_version, include, now
        )
    else:
        body = transforms.partial_list(objects, metadata, accepted.transform_version)
    send_object(call, body)


def list_options(call: Call) -> ListOptions:
    """The query of a list; every combination that upstream refuses is refused."""
    info = call.info
    if not info.query:
        scope = call.resource.scope
        return ListOptions(scope) if scope is not None else _PLAIN
    selection = call.select()
    limit = integer(call, "limit")
    version = info.param("resourceVersion")
    match = info.param("resourceVersionMatch")
    token = info.param("continue")
    check_list_rules(call)
    if limit < 0 or (version == "0" and not is_uncached(call.resource)):
        limit = 0  # upstream answers version 0 from its cache, which does not page
    if token:
        start = decode_token(token)
        if version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return _continued(call, start, limit, selection)
    revision = listed_revision(version)
    if match == "Exact" or (limit and revision and not match):
        return ListOptions(selection, limit, at=revision)
    return ListOptions(selection, limit, not_older_than=revision)


_PLAIN = ListOptions()


def listed_revision(version: str) -> int:
    if not version:
        return 0
    try:
        return uint64(version)
    except BadNumber as error:
        why = f"resourceVersion: Invalid value: {go_quote(version)}: {error}"
        raise BadRequest(f"invalid resource version: {why}") from error


def check_list_rules(call: Call) -> None:
    """What the options of a list must agree in; Invalid if they do not."""
    from pykcp.machinery.status import Invalid, forbidden

    info = call.info
    match, token = info.param("resourceVersionMatch"), info.param("continue")
    errors = _match_errors(info.param("resourceVersion"), match, token) if match else []
    if "sendInitialEvents" in info.query:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise Invalid.fields("meta.k8s.io", "ListOptions", "", errors)


def _match_errors(version: str, match: str, token: str) -> list[FieldError]:
    from pykcp.machinery.status import forbidden, not_supported

    errors = []
    if not version:
        errors.append(
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )
        )
    if token:
        errors.append(
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            )
        )
    if match not in _MATCHES:
        errors.append(not_supported("resourceVersionMatch", match, (*sorted(_MATCHES), "")))
    if match == "Exact" and version == "0":
        errors.append(
            forbidden(
                "resourceVersionMatch",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )
        )
    return errors


def is_uncached(resource: Resource) -> bool:
    """Upstream does not cache events."""
    return resource.plural == "events" and resource.definition.native


def _continued(call: Call, token: tuple[int, str], limit: int, selection: Selection) -> ListOptions:
    revision, start = token
    base = token_base(call.resource, call.cluster, call.info.namespace, selection)
    return ListOptions(
        selection,
        limit,
        after=base + start,
        at=max(revision, 0),
        is_continued=True,
    )
