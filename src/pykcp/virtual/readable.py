"""`/services/readable/clusters/*`: all objects of a kind that a user may read. Not in kcp.

The objects of a logical cluster are shown to users who may list the kind there; what a user may
not list is left out without a trace. It has the kinds of Kubernetes and kcp, to list and watch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from pykcp.aio.resting import ShortSlices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import ALLOW, Attributes, Decision
from pykcp.auth.user import AUTHENTICATED, User
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import MethodNotAllowed, NotAcceptable
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.read import Listing, Pager
from pykcp.registry.watch.verb import JSONEncoder
from pykcp.registry.watch.verb import watch as follow
from pykcp.registry.watch.waiting import WaitingSink
from pykcp.registry.watch.watchers import Sink
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.listing import list_options, send_list
from pykcp.server.handlers.watch import watch_options
from pykcp.server.media.answers import JSON_HEADERS
from pykcp.server.media.negotiation import JSON
from pykcp.virtual.framework import DENIED, Parts, VirtualView, Visit, split_clusters
from pykcp.virtual.tree_visibility import Inactive

_CLUSTER = "kcp.io/cluster"
_MOST_KEPT = 4 * 1024 * 1024
"""Octets of events that are remembered, with the logical clusters of their objects."""


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
        self._lines = ClusterLines()

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
        sink = ReadableSink(stream, self._rights(call), self._lines)
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
        self._slices = ShortSlices()

    @property
    def is_done(self) -> bool:
        return self._pager.is_done

    async def next(self) -> Listing:
        listing = await self._pager.next()
        found: dict[str, bool] = {}
        kept = []
        for value in listing.values:
            cluster = _cluster_of(value)
            if cluster not in found:
                found[cluster] = await self._rights.find_out(cluster)
            if found[cluster]:
                kept.append(value)
            if self._slices.is_over():
                await self._slices.rest()
        return replace(listing, values=kept, remaining=None)  # how many remain is not disclosed


class ClusterLines:
    """Lines of events, and the logical clusters of their objects.

    The same bytes are written to many watchers, and are read once.
    """

    def __init__(self) -> None:
        self._known: BoundedCache[bytes, _Lines] = BoundedCache(
            "readable-events", _MOST_KEPT, cost=_octets
        )

    def of(self, data: bytes) -> _Lines:
        known = self._known.get(data)
        if known is None:
            lines = data.splitlines(keepends=True)
            known = self._known.put(data, [(line, _cluster_of_line(line)) for line in lines])
        return known


_Lines = Sequence[tuple[bytes, str | None]]


def _octets(lines: _Lines) -> int:
    return sum(len(line) for line, _ in lines)


class ReadableSink(WaitingSink):
    """Leaves out what the user may not read; waits only if that has to be found out."""

    def __init__(self, sink: Sink, rights: ReadingRights, lines: ClusterLines) -> None:
        super().__init__(sink, "watch/readable")
        self._rights, self._lines = rights, lines

    def write(self, data: bytes) -> None:
        for line, cluster in self._lines.of(data):
            allowed = cluster is None or self._rights.peek(cluster)
            if self._task is not None or allowed is None:
                super().write(line)
            elif allowed:
                self._sink.write(line)

    async def _send(self, batch: list[bytes]) -> None:
        slices = ShortSlices()
        for data in batch:
            for line, cluster in self._lines.of(data):
                if cluster is None or await self._rights.find_out(cluster):
                    self._sink.write(line)
            if slices.is_over():
                await slices.rest()


def _cluster_of_line(line: bytes) -> str | None:
    """The logical cluster of an event's object; None if the event has none."""
    event = _decode_line(line)
    return None if event.type in ("BOOKMARK", "ERROR") else _cluster_of(event.object)
