"""WATCH of pods that run in clusters behind a workspace, together with stored ones.

Each cluster is watched from its own part of the resource version. A cluster that does not answer is
tried again from there; one that has forgotten the version, or is gone, ends the watch with 410, and
the client lists again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from pykcp.aio.owner import spawn_detached
from pykcp.machinery.status import Expired, Gone, StatusError
from pykcp.registry.stored import Event
from pykcp.registry.watch.verb import INITIAL_EVENTS_END, JSONEncoder, error_line
from pykcp.registry.watch.verb import watch as follow_stored
from pykcp.server.call import Call
from pykcp.server.handlers.placed_position import PodPosition, parse_position
from pykcp.server.handlers.watch import encoder_of, open_stream, watch_options
from pykcp.types import Object
from pykcp.wire.exchange import Stream

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 0.5, 30.0
_MOST_UNSENT = 4 << 20
"""Octets that may wait for a client; one that is slower has to come again."""
BOOKMARK = "BOOKMARK"

Tell = Callable[[str, Object | None, str], None]
"""Given the type of an event, the pod (None for a bookmark) and the version that it leads to."""


class WatchedCluster(Protocol):
    """A cluster that runs pods of a workspace."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str:
        """By which resource versions name it."""

    async def pods(self, namespace: str, labels: str, fields: str) -> tuple[list[Object], str]:
        """Pods of the workspace there, as the workspace shows them, and the version of the list.

        Raises StatusError.
        """

    async def follow(
        self, namespace: str, labels: str, fields: str, version: str, tell: Tell
    ) -> None:
        """Tell about changes since a version, until cancelled. Raises StatusError."""


def take_position(call: Call) -> PodPosition | None:
    """The position that the query names, which then asks for its part about stored pods."""
    query = call.info.query
    position = parse_position(call.info.param("resourceVersion"))
    if position is not None:
        stored = position.stored or call.resource.services.store.revision
        query["resourceVersion"] = [str(stored)]
    return position


async def watch(call: Call, clusters: Sequence[WatchedCluster]) -> None:
    asked = take_position(call)
    since = dict(asked.clusters) if asked is not None else {}
    gone = since.keys() - {one.key for one in clusters}
    if gone:
        raise Expired("the resource version is of a cluster that cannot be reached any more")
    options = watch_options(call)
    position = PodPosition(options.since or call.resource.services.store.revision, since)
    starts = await asyncio.gather(*(_start(call, one, position) for one in clusters))
    encoder = PlacedEncoder(call, encoder_of(call), position)
    initial = [pod for pods in starts for pod in pods]
    if options.marks_initial_end:
        encoder.initial_pods = initial
    stream = call.stream = open_stream(call)
    watcher = await follow_stored(
        call.resource, call.context, call.info.namespace, options, stream, encoder
    )
    hub = call.resource.services.hub
    stream.on_close(lambda: hub.end(watcher))
    if not options.marks_initial_end:
        for pod in initial:
            stream.write(encoder.line("ADDED", pod))
    if stream.closed or not clusters:
        return
    placed = _PlacedWatch(call, stream, encoder, position, options.wants_bookmarks)
    task = spawn_detached(placed.run(clusters), "placed-pods")
    stream.on_close(lambda: _cancel(task))


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _start(call: Call, cluster: WatchedCluster, position: PodPosition) -> list[Object]:
    """What a cluster has now, if the client does not know it; the position leads on from there."""
    if cluster.key in position.clusters:
        return []
    info = call.info
    try:
        pods, version = await cluster.pods(
            info.namespace, info.param("labelSelector"), info.param("fieldSelector")
        )
    except StatusError as error:
        call.context.warn(f"pods in cluster {cluster.name} cannot be read: {error.message}")
        return []  # they are added when it answers
    position.clusters[cluster.key] = version
    return pods


class PlacedEncoder(JSONEncoder):
    """Events whose versions say how far all clusters are."""

    def __init__(self, call: Call, inner: JSONEncoder, position: PodPosition) -> None:
        super().__init__(call.shown)
        self.form = ("placed", id(self))
        self.can_wait = False  # each event moves the position on
        self._inner, self._position = inner, position
        self.initial_pods: list[Object] = []
        """Placed pods of a streaming list: sent before the bookmark at its end."""

    def event(self, kind: str, event: Event) -> bytes:
        self._position.stored = event.revision
        return self.initial(kind, event.value)

    def initial(self, kind: str, value: bytes) -> bytes:
        return self.line(kind, self._resource.object_of(value))

    def line(self, kind: str, obj: Object) -> bytes:
        metadata = {**obj["metadata"], "resourceVersion": str(self._position)}
        return self._inner.of(kind, {**obj, "metadata": metadata})

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        self._position.stored = revision
        before = b""
        if is_initial_end:
            pods, self.initial_pods = self.initial_pods, []
            before = b"".join(self.line("ADDED", pod) for pod in pods)
        return before + self.mark(is_initial_end=is_initial_end)

    def mark(self, *, is_initial_end: bool = False) -> bytes:
        metadata: Object = {"resourceVersion": str(self._position)}
        if is_initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return self._inner.of_bookmark(metadata)


class _PlacedWatch:
    """One watch request; `run` it until its stream closes."""

    def __init__(
        self,
        call: Call,
        stream: Stream,
        encoder: PlacedEncoder,
        position: PodPosition,
        wants_bookmarks: bool,
    ) -> None:
        self._stream, self._encoder, self._position = stream, encoder, position
        self._wants_bookmarks, self._info = wants_bookmarks, call.info
        self._labels = call.info.param("labelSelector")
        self._fields = call.info.param("fieldSelector")

    async def run(self, clusters: Sequence[WatchedCluster]) -> None:
        try:
            await asyncio.gather(*(self._keep(one) for one in clusters))
        except (Expired, Gone) as error:
            self._stream.write(error_line(error))
            self._stream.end()

    async def _keep(self, cluster: WatchedCluster) -> None:
        """Follow one cluster, again after each failure. Raises Expired, Gone."""
        namespace, pause = self._info.namespace, _FIRST_PAUSE
        known, key = self._position.clusters, cluster.key

        def tell(kind: str, pod: Object | None, version: str) -> None:
            nonlocal pause
            known[key], pause = version, _FIRST_PAUSE
            self._send(kind, pod)

        while True:
            try:
                if key not in known:
                    pods, version = await cluster.pods(namespace, self._labels, self._fields)
                    known[key] = version
                    for pod in pods:
                        self._send("ADDED", pod)
                await cluster.follow(namespace, self._labels, self._fields, known[key], tell)
            except (Expired, Gone):
                raise
            except StatusError as error:
                _log.debug("pods in cluster %s: %s", cluster.name, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    def _send(self, kind: str, pod: Object | None) -> None:
        if pod is not None:
            self._stream.write(self._encoder.line(kind, pod))
        elif self._wants_bookmarks:
            self._stream.write(self._encoder.mark())
        if self._stream.backlog > _MOST_UNSENT:
            self._stream.end()
