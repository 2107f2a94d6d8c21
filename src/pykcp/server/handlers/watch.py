"""WATCH: over chunked HTTP or a WebSocket, from the same hub."""

from __future__ import annotations

import random

import orjson

from pykcp.clients.where import PROGRESS
from pykcp.machinery.status import FieldError, Invalid, NotAcceptable, forbidden, not_supported
from pykcp.registry.resource import Resource
from pykcp.registry.stored import Event
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

    def __init__(self, resource: Resource, version: str) -> None:
        super().__init__(resource)
        self._version = version
        self.form = ("partial", version, *resource.form)

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.of(kind, self._resource.object_of(value))

    def of(self, kind: str, obj: Object) -> bytes:
        return super().of(kind, transforms.partial(obj, self._version))

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self.of("BOOKMARK", {"metadata": _mark(revision, is_initial_end)})


class ProtobufEncoder(JSONEncoder):
    """Events as framed protobuf messages, whole objects or only their metadata."""

    def __init__(self, resource: Resource, partial_version: str) -> None:
        super().__init__(resource)
        self._partial = partial_version
        self.form = ("protobuf", partial_version, *resource.form)

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.of(kind, self._resource.object_of(value))

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        resource = self._resource
        head = {"kind": resource.kind, "apiVersion": resource.api_version}
        return self.of("BOOKMARK", {**head, "metadata": _mark(revision, is_initial_end)})

    def of(self, kind: str, obj: Object) -> bytes:
        if self._partial:
            obj = transforms.partial(obj, self._partial)
        return protobuf_form.frame(kind, obj)


class TableEncoder(JSONEncoder):
    """Events whose objects are tables of one row; the first of a watch brings the columns."""

    def __init__(self, resource: Resource, version: str, include: str) -> None:
        super().__init__(resource)
        self._version = version
        self._include = include
        # A table watch has state (columns come once), so it is never shared.
        self.form = ("table", id(self))
        self._has_columns = False

    def event(self, kind: str, event: Event) -> bytes:
        return self.initial(kind, event.value)

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.of(kind, self._resource.object_of(value))

    def of(self, kind: str, obj: Object) -> bytes:
        return self._line(kind, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})

    def of_bookmark(self, metadata: Object) -> bytes:
        """The row of an object that has nothing but this metadata, as upstream shows it."""
        resource, include = self._resource, self._include
        if include == "None" and "annotations" in metadata:
            include = "Metadata"  # otherwise nothing would say that the initial events end
        mark = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        version = {"resourceVersion": metadata["resourceVersion"]}
        return self._line("BOOKMARK", [mark], version, include)

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self.of_bookmark(_mark(revision, is_initial_end))

    def _line(self, kind: str, objects: list[Object], metadata: Object, include: str = "") -> bytes:
        now = self._resource.services.sources.now.clock()
        table = transforms.table(
            self._resource,
            objects,
            metadata,
            self._version,
            include or self._include,
            now,
            with_columns=not self._has_columns,
        )
        self._has_columns = True
        return orjson.dumps({"type": kind, "object": table}) + b"\n"


def _mark(revision: int, is_initial_end: bool) -> Object:
    metadata: Object = {"resourceVersion": str(revision)}
    if is_initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata
