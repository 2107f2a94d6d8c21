"""WATCH: over chunked HTTP or a WebSocket, from the same hub."""

from __future__ import annotations

import random

import orjson

from pykcp.clients.where import PROGRESS
from pykcp.machinery.schema.growth import Outgrown, grow
from pykcp.machinery.status import FieldError, Invalid, NotAcceptable, forbidden, not_supported
from pykcp.registry.codec import revision_of
from pykcp.registry.resource import Resource
from pykcp.registry.stored import Event
from pykcp.registry.verbs.large_work import ObjectShape
from pykcp.registry.watch.verb import (
    INITIAL_EVENTS_END,
    JSONEncoder,
    WatchOptions,
)
from pykcp.registry.watch.verb import (
    watch as follow,
)
from pykcp.server.call import Call, integer
from pykcp.server.console.origins import refusal
from pykcp.server.handlers.get import parse_revision
from pykcp.server.handlers.listing import check_list_rules
from pykcp.server.media import protobuf_form, transforms
from pykcp.server.media.answers import CACHE_CONTROL, with_warnings
from pykcp.server.media.negotiation import JSON, PROTOBUF, YAML
from pykcp.server.media.pieces import TABLE, Pieces, piece
from pykcp.server.request_info import RequestInfo
from pykcp.types import Object
from pykcp.wire.exchange import Stream

_NOT_OLDER = "NotOlderThan"
_MIN_TIMEOUT = 1800
_MAX_TIMEOUT = 365 * 86400
"""More than the event loop's timers must be able to count."""
_HEADERS = (CACHE_CONTROL, ("content-type", "application/json"))
_PROTOBUF_HEADERS = (CACHE_CONTROL, ("content-type", protobuf_form.STREAM_TYPE))


async def watch(call: Call) -> None:
    """Open the stream, catch up and hand over to the hub; the task ends there."""
    options = watch_options(call)
    encoder = encoder_of(call)
    stream = call.stream = open_stream(call)
    watcher = await follow(
        call.resource, call.context, call.info.namespace, options, stream, encoder
    )
    hub = call.resource.services.hub
    stream.on_close(lambda: hub.end(watcher))


def open_stream(call: Call) -> Stream:
    """The stream of the events; call it when nothing can fail any more."""
    exchange = call.exchange
    if exchange.wants_websocket():
        if (error := refusal(exchange.request)) is not None:
            raise error
        return exchange.websocket(_subprotocol(call))
    is_protobuf = call.accepted.media_type == PROTOBUF
    headers = _PROTOBUF_HEADERS if is_protobuf else _HEADERS
    return exchange.start(200, with_warnings(call, headers))


def _subprotocol(call: Call) -> str:
    offered = call.exchange.request.header("sec-websocket-protocol") or ""
    names = [n.strip() for n in offered.split(",") if n.strip()]
    return next((n for n in names if n in ("", "base64.binary.k8s.io", "binary.k8s.io")), "")


def watch_options(call: Call) -> WatchOptions:
    info = call.info
    selection = call.select()
    version = info.param("resourceVersion")
    _check_initial(call)
    revision = parse_revision(version)
    asked = "sendInitialEvents" in info.query
    streams_list = info.is_true("sendInitialEvents") if asked else _is_legacy(info)
    sends_initial = streams_list or (not asked and revision == 0)
    since = revision
    if not sends_initial and revision == 0:
        since = call.resource.services.store.revision
    bookmarks = info.is_true("allowWatchBookmarks")
    return WatchOptions(
        selection,
        since=since,
        sends_initial=sends_initial,
        marks_initial_end=streams_list and bookmarks,
        wants_bookmarks=bookmarks,
        wants_progress=bookmarks and call.exchange.request.header(PROGRESS) is not None,
        timeout=_timeout(integer(call, "timeoutSeconds")),
    )


def _timeout(seconds: int) -> float:
    """How long a watch lasts: a random time unless the client says one; none if it is negative."""
    if not seconds:
        return _MIN_TIMEOUT * (1 + random.random())  # noqa: S311
    return max(0, min(seconds, _MAX_TIMEOUT))


def _check_initial(call: Call) -> None:
    info = call.info
    if not info.is_true("watch"):  # of an older path: the query alone makes it that of a list
        check_list_rules(call)
        return
    match = info.param("resourceVersionMatch")
    asked = "sendInitialEvents" in info.query
    if not asked and not match and _is_legacy(info):
        asked, match = True, _NOT_OLDER
    errors: list[FieldError] = []

    def refuse(why: str) -> None:
        errors.append(forbidden("resourceVersionMatch", why))

    if asked and match != _NOT_OLDER:
        refuse("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match:
        if not asked:
            refuse(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        if match != _NOT_OLDER:
            errors.append(not_supported("resourceVersionMatch", match, (_NOT_OLDER,)))
        if info.param("continue"):
            refuse("resourceVersionMatch is forbidden when continue is provided")
    if errors:
        raise Invalid.fields("meta.k8s.io", "ListOptions", "", errors)


def _is_legacy(info: RequestInfo) -> bool:
    """Upstream makes a streamed list of such a watch before it looks at the options."""
    return info.param("resourceVersion") in ("", "0") and info.is_true("watch")


def encoder_of(call: Call) -> JSONEncoder:
    """Makes events in the form that the client asked for."""
    accepted = call.accepted
    if accepted.media_type == YAML:
        raise NotAcceptable([f"{media_type};stream=watch" for media_type in (JSON, PROTOBUF)])
    if accepted.media_type == PROTOBUF:
        return ProtobufEncoder(call.shown, accepted.transform_version if accepted.transform else "")
    if accepted.transform == "Table":
        return TableEncoder(call.shown, accepted.transform_version, transforms.include_policy(call))
    if accepted.transform:
        return PartialEncoder(call.shown, accepted.transform_version)
    return JSONEncoder(call.shown)


class PartialEncoder(JSONEncoder):
    """Events that carry only metadata."""

    decodes = True

    def __init__(self, resource: Resource, version: str) -> None:
        shape = ObjectShape("PartialObjectMetadata", version, is_plain=resource.is_plain)
        super().__init__(resource, shape)
        self._version = version
        self.form = ("partial", version, *resource.form)

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.with_text(kind, value, piece(self._resource, self._shape, value))

    def of(self, kind: str, obj: Object) -> bytes:
        return super().of(kind, transforms.partial(obj, self._version))

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self.of("BOOKMARK", {"metadata": _mark(revision, is_initial_end)})


class ProtobufEncoder(JSONEncoder):
    """Events as framed protobuf messages, whole objects or only their metadata."""

    decodes = True

    def __init__(self, resource: Resource, partial_version: str) -> None:
        transform = "PartialObjectMetadata" if partial_version else ""
        shape = ObjectShape(transform, partial_version, is_plain=resource.is_plain)
        super().__init__(resource, shape)
        self._partial = partial_version
        self.form = ("protobuf", partial_version, *resource.form)

    @property
    def shared(self) -> object:
        return "protobuf", super().shared

    def initial(self, kind: str, value: bytes) -> bytes:
        grow(len(value))
        return self.of(kind, self._resource.object_of(value))

    async def text_elsewhere(self, kind: str, value: bytes) -> bytes:
        """The whole event."""
        text = await Pieces(self._resource, self._shape, "").of(value)
        work, tenant = self._resource.services.large, self._resource.definition.origin
        assert work is not None
        framed: bytes = await work.compute(tenant, _FRAMED, kind, text)
        return framed

    def with_text(self, kind: str, value: bytes, text: bytes) -> bytes:
        return text

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        resource = self._resource
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return self.of("BOOKMARK", {**head, "metadata": _mark(revision, is_initial_end)})

    def of(self, kind: str, obj: Object) -> bytes:
        if self._partial:
            obj = transforms.partial(obj, self._partial)
        return protobuf_form.frame(kind, obj)


_FRAMED = f"{protobuf_form.__name__}:{protobuf_form.framed.__name__}"


class TableEncoder(JSONEncoder):
    """Events whose objects are tables of one row; the first of a watch brings the columns."""

    decodes = True

    def __init__(self, resource: Resource, version: str, include: str) -> None:
        super().__init__(resource, ObjectShape(TABLE, version, include, resource.is_plain))
        self._version = version
        self._include = include
        # A table watch has state (columns come once), so only its rows are shared.
        self.form = ("table", id(self))
        self._has_columns = False
        self._owes_columns = False
        """The first event waits for a worker process, and others are made meanwhile."""

    def event(self, kind: str, event: Event) -> bytes:
        memo = event.memo
        if memo is None:
            memo = event.memo = {}
        key = ("row", self.shared)
        row = memo.get(key)
        if row is None:
            try:
                row = memo[key] = piece(self._resource, self._shape, event.value)
            except Outgrown:
                self._owes_columns |= not self._has_columns
                self._has_columns = True
                raise
        return self._around(kind, _version_of(event.value), row, with_columns=self._takes_columns())

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.with_text(kind, value, piece(self._resource, self._shape, value))

    def with_text(self, kind: str, value: bytes, text: bytes) -> bytes:
        """An event that waited."""
        owes, self._owes_columns = self._owes_columns, False
        with_columns = owes or self._takes_columns()
        return self._around(kind, _version_of(value), text, with_columns=with_columns)

    def _takes_columns(self) -> bool:
        """Whether the next event brings the columns."""
        has_columns, self._has_columns = self._has_columns, True
        return not has_columns

    def of(self, kind: str, obj: Object) -> bytes:
        return self._line(kind, obj, {"resourceVersion": obj["metadata"]["resourceVersion"]})

    def of_bookmark(self, metadata: Object) -> bytes:
        """The row of an object that has nothing but this metadata, as upstream shows it."""
        resource, include = self._resource, self._include
        if include == "None" and "annotations" in metadata:
            include = "Metadata"  # otherwise nothing would say that the initial events end
        mark = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        version = {"resourceVersion": metadata["resourceVersion"]}
        return self._line("BOOKMARK", mark, version, include)

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self.of_bookmark(_mark(revision, is_initial_end))

    def _line(self, kind: str, obj: Object, metadata: Object, include: str = "") -> bytes:
        (row,) = transforms.rows(self._resource, [obj], self._version, include or self._include)
        with_columns = self._takes_columns()
        return self._around(
            kind, orjson.dumps(metadata), orjson.dumps(row), with_columns=with_columns
        )

    def _around(self, kind: str, metadata: bytes, row: bytes, *, with_columns: bool) -> bytes:
        head = transforms.table_head(self._resource, self._version, with_columns=with_columns)
        return b'{"type":"%b","object":%b,"metadata":%b,"rows":[%b]}}\n' % (
            kind.encode(),
            head,
            metadata,
            row,
        )


def _version_of(value: bytes) -> bytes:
    return b'{"resourceVersion":"%d"}' % revision_of(value)


def _mark(revision: int, is_initial_end: bool) -> Object:
    metadata: Object = {"resourceVersion": str(revision)}
    if is_initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata
