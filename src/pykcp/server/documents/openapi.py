"""OpenAPI v2 and v3: one document per set of definitions, made when first asked for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from pykcp import __version__
from pykcp.aio.owner import spawn
from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.caching import BoundedCache
from pykcp.machinery.status import RequestEntityTooLarge
from pykcp.server.call import Call
from pykcp.server.large.worker_calls import compute
from pykcp.server.media.answers import (
    CACHE_CONTROL,
    PageNotFound,
    respond_compressed,
    send_text,
)
from pykcp.server.media.etags import may_send_part, refusal
from pykcp.server.media.negotiation import parse_accept
from pykcp.server.media.ranges import BadRange, OutOfRange, part_of
from pykcp.server.resources import ServedResources
from pykcp.workers.pool import WorkerPool

if TYPE_CHECKING:
    from pykcp.server.documents.openapi_jobs import DefinitionRef

_KEEP_BYTES = 16 << 20
"""How much of what was made is kept for the next to ask."""
_MOST_SOURCE = 64 << 20
"""Octets of definitions that one document is made of."""
_SMALL = 32 << 10
"""Octets of definitions whose document takes a few milliseconds."""
_JOB = "pykcp.server.documents.openapi_jobs:make"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The content type of responses, also for requests with `@v1.0`, which Go's parser rejects in a response."""


class OpenAPI:
    def __init__(
        self,
        directory: ServedResources,
        workers: WorkerPool | None = None,
        *,
        is_view: bool = False,
    ) -> None:
        """`workers` make the documents; `is_view`: of a virtual workspace."""
        self._directory = directory
        self._workers = workers
        self._making: dict[str, asyncio.Task[bytes]] = {}
        """By tag."""
        self._busy: dict[tuple[str, str], asyncio.Task[bytes]] = {}
        """By cluster and name."""
        self._is_view = is_view
        self._made: BoundedCache[str, bytes] = BoundedCache("openapi", _KEEP_BYTES, cost=len)

    def paths(self, cluster: str) -> list[str]:
        return ["/openapi/v2", "/openapi/v3", "/openapi/v3/"]

    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        path = call.info.path
        if path == "/openapi/v2":
            return self._v2(call)
        if path == "/openapi/v3":
            return self._index(call)
        if path.startswith("/openapi/v3/"):
            return self._document(call, path.removeprefix("/openapi/v3/"))
        raise PageNotFound

    async def _index(self, call: Call) -> None:
        """Names and tags of all documents; none of them has to be made for it."""
        from pykcp.machinery.openapi import v3

        definitions = self._directory.definitions(call.cluster)
        base = call.info.base
        paths, by_group, slices = {}, _by_group(definitions), Slices(call.cluster)
        for name in v3.group_versions(definitions, is_view=self._is_view):
            root, _, group = name.partition("/")
            group = group.partition("/")[0] if root == "apis" else ""
            is_of_group = root in ("api", "apis") and "/" in name
            candidates = by_group.get(group, ()) if is_of_group else definitions
            url = f"{base}/openapi/v3/{name}?hash={tag_of(name, relevant(candidates, name))}"
            paths[name] = {"serverRelativeURL": url}
            if slices.is_over():
                await slices.next()
        body = orjson.dumps({"paths": paths})
        await _respond(call, body, hashlib.sha512(body).hexdigest().upper(), "application/json")

    async def _document(self, call: Call, group_version: str) -> None:
        definitions = self._directory.definitions(call.cluster)
        from pykcp.machinery.openapi import v3

        if group_version not in v3.group_versions(definitions, is_view=self._is_view):
            call.exchange.respond(404, [CACHE_CONTROL])  # upstream has no words for it either
            return
        if not _takes_json(call):
            call.exchange.respond(406, [CACHE_CONTROL, ("vary", "Accept")])
            return
        cluster, asked = call.cluster, call.info.param("hash")

        def choose() -> tuple[ResourceDefinition, ...]:
            return relevant(self._directory.definitions(cluster), group_version)

        body, tag = b"", tag_of(group_version, choose())
        if not asked or asked == tag:
            body, tag = await self._make(cluster, group_version, choose)
        if asked and asked != tag:  # the document has changed since the index was read
            url = f"{call.info.base}/openapi/v3/{group_version}?hash={tag}"
            headers = (CACHE_CONTROL, ("location", url), ("etag", f'"{tag}"'), ("vary", "Accept"))
            call.exchange.respond(301, headers)
            return
        more: tuple[tuple[str, str], ...] = ()
        if asked:
            more = (
                ("cache-control", "public, immutable"),
                ("expires", "Fri, 31 Dec 2099 00:00:00 GMT"),
            )
        await _respond(call, body, tag, "application/json", more)

    async def _v2(self, call: Call) -> None:
        cluster = call.cluster
        accept = call.exchange.request.header("accept") or ""

        def choose() -> tuple[ResourceDefinition, ...]:
            return self._directory.definitions(cluster)

        if "proto-openapi.spec.v2" in accept:
            body, tag = await self._make(cluster, "v2.protobuf", choose)
            await _respond(call, body, tag, V2_PROTOBUF)
            return
        if not _takes_json(call):
            call.exchange.respond(406, [CACHE_CONTROL, ("vary", "Accept")])
            return
        body, tag = await self._make(cluster, "v2.json", choose)
        await _respond(call, body, tag, "application/json")

    async def _make(
        self, cluster: str, name: str, choose: Callable[[], tuple[ResourceDefinition, ...]]
    ) -> tuple[bytes, str]:
        """A document and its tag; clusters that serve the same share it.

        A cluster's document is made once at a time: while many definitions change, requests wait
        for the one in progress and then share the next, which has all of the changes.
        """
        place = (cluster, name)
        while True:
            definitions = choose()
            tag = tag_of(name, definitions)
            body = self._made.get(tag)
            if body is not None:
                return body, tag
            making, busy = self._making.get(tag), self._busy.get(place)
            if making is None and busy is not None:
                await asyncio.wait((busy,))
                continue
            if making is None:
                making = spawn(self._document_of(cluster, name, definitions), f"openapi {name}")
                self._making[tag] = self._busy[place] = making
                making.add_done_callback(partial(self._keep, place, tag))
            return await asyncio.shield(making), tag

    def _keep(self, place: tuple[str, str], tag: str, made: asyncio.Future[bytes]) -> None:
        del self._making[tag], self._busy[place]
        if made.cancelled() or made.exception() is not None:
            return
        body = made.result()
        if len(body) > _KEEP_BYTES // 2:
            return
        self._made.put(tag, body)

    async def _document_of(
        self, cluster: str, name: str, definitions: tuple[ResourceDefinition, ...]
    ) -> bytes:
        from pykcp.server.documents import openapi_jobs

        if self._workers is not None and any(d.fingerprint for d in definitions):
            refs = await _refs(definitions)
            is_small = not name.startswith("v2.") and _size(refs or ()) < _SMALL
            if refs is not None and not is_small:
                made: bytes = await compute(
                    self._workers, _JOB, name, self._is_view, refs, tenant=cluster
                )
                return made
        return await asyncio.to_thread(
            openapi_jobs.document, name, definitions, is_view=self._is_view
        )


def _size(refs: Sequence[DefinitionRef]) -> int:
    return sum(len(ref.source) for ref in refs)


async def _refs(definitions: tuple[ResourceDefinition, ...]) -> list[DefinitionRef] | None:
    """The definitions as a worker process can make them again; None if one cannot be."""
    from pykcp.server.documents.openapi_jobs import DefinitionRef

    refs, size, slices = [], 0, Slices()
    for definition in definitions:
        source = b""
        if definition.fingerprint:
            if definition.source is None:
                return None
            source = definition.source()
        size += len(source)
        if size > _MOST_SOURCE:
            raise RequestEntityTooLarge(
                "the definitions of this logical cluster are too large for an OpenAPI document"
            )
        refs.append(DefinitionRef(definition.group, definition.plural, source, definition.verbs))
        if slices.is_over():
            await slices.next()
    return refs


def _by_group(
    definitions: tuple[ResourceDefinition, ...],
) -> dict[str, tuple[ResourceDefinition, ...]]:
    groups: dict[str, list[ResourceDefinition]] = {}
    for definition in definitions:
        groups.setdefault(definition.group, []).append(definition)
    return {group: tuple(found) for group, found in groups.items()}


def relevant(
    definitions: tuple[ResourceDefinition, ...], name: str
) -> tuple[ResourceDefinition, ...]:
    """The definitions that a document depends on."""
    root, _, rest = name.partition("/")
    group, _, version = rest.partition("/") if root == "apis" else ("", "", rest)
    if root not in ("api", "apis") or not rest:
        return tuple(d for d in definitions if not d.fingerprint)
    return tuple(
        d for d in definitions if d.group == group and (not version or version in d.versions)
    )


def tag_of(name: str, definitions: tuple[ResourceDefinition, ...]) -> str:
    """Changes whenever the document of this name does."""
    custom = sorted(d.fingerprint for d in definitions if d.fingerprint)
    text = "|".join((name, __version__, *custom))
    return hashlib.sha512(text.encode()).hexdigest().upper()


def _takes_json(call: Call) -> bool:
    accept = call.exchange.request.header("accept")
    return not accept or any(
        c.media_type in ("application/json", "application/*", "*/*") for c in parse_accept(accept)
    )


async def _respond(
    call: Call, body: bytes, tag: str, media_type: str, more: tuple[tuple[str, str], ...] = ()
) -> None:
    header = call.exchange.request.header
    headers = [("etag", f'"{tag}"'), ("vary", "Accept"), *(more or (CACHE_CONTROL,))]
    if status := refusal(header, tag):
        call.exchange.respond(status, headers)
        return
    asked = header("range") or ""
    headers += [("content-type", media_type), ("accept-ranges", "bytes")]
    try:
        part = part_of(asked, len(body)) if may_send_part(header, tag) else None
    except BadRange as error:
        size = [("content-range", f"bytes */{len(body)}")] if isinstance(error, OutOfRange) else []
        send_text(call, f"{error}\n", 416, size)
        return
    if part is None:
        await respond_compressed(call, 200, headers, body)
        return
    headers.append(("content-range", f"bytes {part.start}-{part.stop - 1}/{len(body)}"))
    call.exchange.respond(206, headers, body[part.start : part.stop])
