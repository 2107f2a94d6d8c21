"""`/services/readable/clusters/*`: all objects of a kind that a user may read. Not in kcp.

The objects of a logical cluster are shown to users who may list the kind there; what a user may
not list is left out without a trace. It has the kinds of Kubernetes and kcp, to list and watch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

import msgspec

from pykcp.aio.owner import spawn_detached
from pykcp.aio.resting import rest
from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import ALLOW, Attributes, Decision
from pykcp.auth.user import AUTHENTICATED, User
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import MethodNotAllowed, NotAcceptable
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.read import Listing, Pager
from pykcp.registry.watch.verb import JSONEncoder
from pykcp.registry.watch.verb import watch as follow
from pykcp.registry.watch.watchers import Sink, Trailers
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.listing import list_options, send_list
from pykcp.server.handlers.watch import watch_options
from pykcp.server.media.answers import JSON_HEADERS
from pykcp.server.media.negotiation import JSON
from pykcp.virtual.framework import DENIED, Parts, VirtualView, Visit, split_clusters
from pykcp.virtual.tree_visibility import Inactive

_PER_STEP = 100
_CLUSTER = "kcp.io/cluster"


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Stored(msgspec.Struct):
    metadata: _Metadata


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode_stored = msgspec.json.Decoder(_Stored).decode
_decode_line = msgspec.json.Decoder(_Line).decode


def _cluster_of(value: bytes | msgspec.Raw) -> str:
    return (_decode_stored(value).metadata.annotations or {}).get(_CLUSTER, "")


class ReadableWorkspace:
    name = "readable"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, inactive: Inactive) -> None:
        self._view = ReadableView(parts, inactive)

    def visit(self, path: str) -> Visit | None:
        place = split_clusters(path)
        if place is None or place[0] != clusters.WILDCARD:
            return None
        return Visit(self._view, clusters.WILDCARD, place[1])


class ReadableView(VirtualView):
    def __init__(self, parts: Parts, inactive: Inactive) -> None:
        self._parts, self._inactive = parts, inactive

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        return self._parts.directory.find_system(group, version, plural)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._parts.directory.definitions(clusters.ROOT)

    async def authorize(self, call: Call) -> Decision:
        """Every user may ask; what is shown is decided for each logical cluster."""
        return ALLOW if AUTHENTICATED in call.user.groups else DENIED

    def handler(self, call: Call) -> Handler:
        match call.info.verb:
            case "list":
                return self._list
            case "watch":
                return self._watch
            case verb:
                raise MethodNotAllowed.action(call.info.group, call.info.resource, verb)

    def _rights(self, call: Call) -> ReadingRights:
        return ReadingRights(self._parts, self._inactive, call)

    async def _list(self, call: Call) -> None:
        pager = Pager(call.resource, call.context, call.info.namespace, list_options(call))
        await send_list(call, ReadablePages(pager, self._rights(call)))

    async def _watch(self, call: Call) -> None:
        options = watch_options(call)
        if call.accepted.media_type != JSON or call.accepted.transform:
            raise NotAcceptable([f"{JSON};stream=watch"])
        stream = call.exchange.start(200, JSON_HEADERS)
        call.stream = stream
        sink = ReadableSink(stream, self._rights(call))
        encoder = JSONEncoder(call.resource)
        watcher = await follow(
            call.resource, call.context, call.info.namespace, options, sink, encoder
        )
        hub = call.resource.services.hub
        stream.on_close(lambda: hub.end(watcher))


class ReadingRights:
    """In which logical clusters a user may list a kind."""

    def __init__(self, parts: Parts, inactive: Inactive, call: Call) -> None:
        self._authorizer, self._inactive = parts.authorizer, inactive
        info, user = call.info, _caller(call)
        self._question = Attributes(
            user,
            "list",
            info.namespace,
            info.group,
            info.resource,
            version=info.version,
        )

    def peek(self, cluster: str) -> bool | None:
        """None if it has to be found out."""
        if not cluster or clusters.is_system(cluster) or self._inactive(cluster) is not False:
            return False
        known = self._authorizer.peek(cluster, self._question)
        return None if known is None else known.allowed

    async def find_out(self, cluster: str) -> bool:
        known = self.peek(cluster)
        if known is None:
            known = (await self._authorizer.authorize(cluster, self._question)).allowed
        return known


def _caller(call: Call) -> User:
    return call.caller or call.user


class ReadablePages:
    """The pages of a list without what the user may not read. They may be shorter than asked."""

    def __init__(self, pager: Pager, rights: ReadingRights) -> None:
        self._pager, self._rights = pager, rights

    @property
    def is_done(self) -> bool:
        return self._pager.is_done

    async def next(self) -> Listing:
        listing = await self._pager.next()
        found: dict[str, bool] = {}
        kept = []
        for number, value in enumerate(listing.values, 1):
            cluster = _cluster_of(value)
            if cluster not in found:
                found[cluster] = await self._rights.find_out(cluster)
            if found[cluster]:
                kept.append(value)
            if number % _PER_STEP == 0:
                await rest()
        return replace(listing, values=kept, remaining=None)  # how many remain is not disclosed


class ReadableSink:
    """Between the hub and a stream; a task is at work only while a decision has to be made."""

    def __init__(self, sink: Sink, rights: ReadingRights) -> None:
        self._sink, self._rights = sink, rights
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._is_ending = False
        self._trailers: Trailers = ()
        self._task: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        return self._size + self._sink.backlog

    @property
    def closed(self) -> bool:
        return self._is_ending or self._sink.closed

    def write(self, data: bytes) -> None:
        for line in data.splitlines(keepends=True):
            event = _decode_line(line)
            is_object = event.type not in ("BOOKMARK", "ERROR")
            cluster = _cluster_of(event.object) if is_object else ""
            allowed = self._rights.peek(cluster) if is_object else True
            if self._task is None and allowed is not None:
                if allowed:
                    self._sink.write(line)
                continue
            self._waiting.append((cluster if is_object else "", line))
            self._size += len(line)
            if self._task is None:
                self._task = spawn_detached(self._work(), "watch/readable")

    async def _work(self) -> None:
        try:
            while self._waiting and not self._sink.closed:
                cluster, line = self._waiting.popleft()
                self._size -= len(line)
                if not cluster or await self._rights.find_out(cluster):
                    self._sink.write(line)
        except BaseException:  # without a decision nothing more may be shown
            self._is_ending = True
            raise
        finally:
            self._task = None
            if self._is_ending:
                self._sink.end(self._trailers)

    def end(self, trailers: Trailers = ()) -> None:
        """No more will come; what waits is still decided."""
        self._is_ending, self._trailers = True, trailers
        if self._task is None:
            self._sink.end(trailers)

    async def drain(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))
        drain = getattr(self._sink, "drain", None)
        if drain is not None:
            await drain()
