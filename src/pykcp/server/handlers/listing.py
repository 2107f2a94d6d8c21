"""LIST: stored bytes joined into one answer, or shortened on request."""

from __future__ import annotations

import asyncio

import orjson

from pykcp.machinery.status import BadRequest, go_quote
from pykcp.registry.keys import range_prefix
from pykcp.registry.read import Listing, ListOptions, decode_token, list_objects
from pykcp.server import negotiation, transforms
from pykcp.server.answers import (
    JSON_HEADERS,
    compress,
    is_plain_json,
    may_compress,
    send_json,
    send_long,
    send_object,
    wants_pretty,
    with_warnings,
)
from pykcp.server.call import Call, integer
from pykcp.server.numbers import BadNumber, uint64
from pykcp.types import Object

_MATCHES = ("Exact", "NotOlderThan")


async def list_(call: Call) -> None:
    options = list_options(call)
    listing = await list_objects(call.resource, call.context, call.info.namespace, options)
    if call.accepted.transform:
        await _send_transformed(call, listing)
        return
    parts = list_body(call, listing)
    size = sum(map(len, listing.values))
    if (
        may_compress(call, size)
        and call.accepted.media_type == negotiation.JSON
        and not wants_pretty(call)
    ):
        body = await asyncio.to_thread(compress, parts)
        headers = [*JSON_HEADERS, ("content-encoding", "gzip"), ("vary", "Accept-Encoding")]
        call.exchange.respond(200, with_warnings(call, headers), body)
        return
    if size > _LONG and is_plain_json(call):
        await send_long(call, parts)
    else:
        send_json(call, parts)


_LONG = 2 * 1024 * 1024
"""Octets above which an answer is not left with the connection as a whole."""


def list_body(call: Call, listing: Listing) -> list[bytes]:
    resource = call.resource
    metadata = list_metadata(listing)
    if not resource.definition.native:
        metadata.setdefault("continue", "")  # custom lists always say it
    head = resource.list_type + b'"metadata":%b,"items":[' % orjson.dumps(metadata)
    values = listing.values
    if resource.conversion is not None or not resource.definition.native:
        values = [resource.item(v) for v in values]
    parts = [head]
    for start in range(0, len(values), _CHUNK):
        if start:
            parts.append(b",")
        parts.append(b",".join(values[start : start + _CHUNK]))
    parts.append(b"]}\n")
    return parts


_CHUNK = 256


def list_metadata(listing: Listing) -> Object:
    metadata: Object = {"resourceVersion": str(listing.revision)}
    if listing.continue_token:
        metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
    return metadata


async def _send_transformed(call: Call, listing: Listing) -> None:
    objects = []
    for index, value in enumerate(listing.values):
        objects.append(call.resource.object_of(value))
        if index % 200 == 199:
            await asyncio.sleep(0)
    send_objects(call, objects, list_metadata(listing))


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
    _check_match(version, match, token)
    revision = parse_revision(version)
    limit = max(limit, 0)
    if token:
        if version not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return _continued(call, token, limit, selection)
    if match == "Exact" or (limit and revision and not match):
        return ListOptions(selection, limit, at=revision)
    return ListOptions(selection, limit, not_older_than=revision)


_PLAIN = ListOptions()


def parse_revision(version: str) -> int:
    if not version:
        return 0
    try:
        return uint64(version)
    except BadNumber as error:
        raise BadRequest(f"Invalid value: {go_quote(version)}: {error}") from error


def _check_match(version: str, match: str, token: str) -> None:
    from pykcp.machinery.status import Invalid, forbidden, not_supported

    if not match:
        return
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
        errors.append(not_supported("resourceVersionMatch", match, sorted(_MATCHES)))
    if match == "Exact" and version == "0":
        errors.append(
            forbidden(
                "resourceVersionMatch",
                'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            )
        )
    if errors:
        raise Invalid.fields("meta.k8s.io", "ListOptions", "", errors)


def _continued(call: Call, token: str, limit: int, selection: object) -> ListOptions:
    revision, start = decode_token(token)
    resource = call.resource
    namespace = call.info.namespace if resource.namespaced else ""
    prefix = range_prefix(resource.prefix, call.cluster, namespace)
    return ListOptions(
        selection,  # type: ignore[arg-type]
        limit,
        after=prefix + start,
        at=max(revision, 0),
        is_continued=True,
    )
