"""GET of one object: a lookup, a splice and a write, all without waiting."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pykcp.machinery.schema.definition import Column
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import BadRequest, StatusError, go_quote
from pykcp.registry.errors import too_large_revision
from pykcp.registry.resource import LARGE
from pykcp.registry.verbs.read import find
from pykcp.server.call import Call
from pykcp.server.handlers.listing import is_uncached, listed_revision
from pykcp.server.media import transforms
from pykcp.server.media.answers import (
    GZIP_ABOVE,
    JSON_HEADERS,
    accepts_gzip,
    is_plain_json,
    respond_compressed,
    send_json,
    send_object,
    send_reformed,
    with_warnings,
)
from pykcp.server.media.pieces import Pieces, shape_of, whole_of
from pykcp.server.numbers import BadNumber, uint64
from pykcp.types import Object


def get(call: Call) -> Coroutine[Any, Any, None] | None:
    resource = call.resource
    info = call.info
    if info.query:
        _check_query(call)
    entry = find(resource, call.context, info.namespace, info.name)
    webhook = resource.webhook
    if webhook is not None and webhook.is_foreign(entry.value):
        return _send_converted(call, entry.value)
    size = len(entry.value)
    if size > LARGE and (call.accepted.transform or not is_plain_json(call)):
        return send_written(call, entry.value, 200)
    if size > GZIP_ABOVE and accepts_gzip(call):
        return send_written(call, entry.value, 200)
    if resource.is_shown_as_stored:
        _send(call, entry.value)
        return None
    try:
        with bounded(resource.has_workers):
            _send(call, entry.value)
    except Outgrown:  # it is of an earlier schema or another version
        return send_written(call, entry.value, 200)
    return None


async def _send_converted(call: Call, value: bytes) -> None:
    await send_written(call, await call.resource.own_form(value), 200)


async def send_written(call: Call, value: bytes, status: int) -> None:
    """What a write made of an object, or an object that others must not wait for."""
    if call.accepted.transform:
        transforms.check_object_form(call)
    if call.resource.is_shown_as_stored and not call.accepted.transform:
        body = call.shown.served(value) + b"\n"
    else:
        pieces = Pieces(call.shown, shape_of(call), call.cluster)
        made = await pieces.of(value)
        body = whole_of(call.resource, pieces.shape, value, made) + b"\n"
    if is_plain_json(call):
        await respond_compressed(call, status, with_warnings(call, JSON_HEADERS), body)
    elif not await send_reformed(call, body, status):
        send_json(call, body, status)


def _send(call: Call, value: bytes) -> None:
    if call.accepted.transform:
        send_object(call, transformed(call, call.shown.object_of(value)))
    else:
        send_json(call, call.shown.served(value) + b"\n")


def parse_revision(version: str) -> int:
    """The revision in a query, 0 if there is none; an error that upstream does not classify."""
    if not version:
        return 0
    try:
        return uint64(version)
    except BadNumber as error:
        raise StatusError(
            f"resourceVersion: Invalid value: {go_quote(version)}: {error}",
            reason="",
            details=False,
        ) from error


def _check_query(call: Call) -> None:
    if "export" in call.info.query and call.info.is_true("export"):
        raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
    parse = listed_revision if is_uncached(call.resource) else parse_revision
    revision = parse(call.info.param("resourceVersion"))
    if not revision:
        return
    current = call.resource.services.store.revision
    if revision > current:
        raise too_large_revision(revision, current)


def transformed(call: Call, obj: Object, columns: tuple[Column, ...] | None = None) -> Object:
    """One object as the table or the metadata that the client asked for."""
    accepted = call.accepted
    transforms.check_object_form(call)
    if accepted.transform == "Table":
        metadata = {}
        if "resourceVersion" in obj["metadata"]:
            metadata["resourceVersion"] = obj["metadata"]["resourceVersion"]
        return transforms.table(
            call.resource,
            [obj],
            metadata,
            accepted.transform_version,
            transforms.include_policy(call),
            call.resource.services.sources.now.clock(),
            columns=columns,
        )
    return transforms.partial(obj, accepted.transform_version)
