"""`/services/where`: tells front-proxies where logical clusters are, and when that changes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
from msgspec import structs

from pykcp.apis.kcp.logical_clusters import TYPE_ANNOTATION
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.user import MASTERS, User
from pykcp.clients.where import Reached, RouteAnswer, RouteChange, WorkspaceStep, encode
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS, WORKSPACES
from pykcp.machinery.status import BadRequest, Expired, Forbidden, MethodNotAllowed, StatusError
from pykcp.programs.shard.clusters import ShardClusters
from pykcp.registry.errors import translate
from pykcp.registry.indexes.entries import path_entry
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.moving.records import ARRIVING, DEPARTED
from pykcp.registry.paths import HOMES, PathIndex
from pykcp.registry.watch.hub import WatchHub
from pykcp.server.call import Call, Pending
from pykcp.server.media.answers import JSON_HEADERS, send_status
from pykcp.server.request_info import RequestInfo, parse_query
from pykcp.storage.errors import Compacted, StoreError
from pykcp.storage.interface import Event, Store
from pykcp.wire.exchange import Exchange, IncomingRequest, Stream

_WORKSPACES, _CLUSTERS = kind_prefix(WORKSPACES), kind_prefix(LOGICAL_CLUSTERS)
_MOVES = (DEPARTED, ARRIVING)
"""Records of logical clusters that have moved away, or are about to be served here."""
_SHARDS = f"{kind_prefix(SHARDS)}{clusters.ROOT}//"
_PAGE = 1000
_PREFIXES = 16
"""Beginnings of a path that are looked for, the longest first."""
_ALWAYS = 1 << 62
_MOST_WAITING = 1 << 20
"""Octets that may wait for a slow proxy; then it has to resume the stream."""


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _LogicalCluster(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_LogicalCluster).decode


class WhereService:
    """The application below `/services/where`."""

    def __init__(
        self,
        store: Store,
        paths: PathIndex,
        known: ShardClusters,
        authentication: Authentication,
        hub: WatchHub,
    ) -> None:
        self._hub = hub
        self._store, self._paths, self._clusters = store, paths, known
        self._authentication = authentication
        self._streams: dict[Stream, Callable[[], None]] = {}
        self._is_closed = False
        self._shards: tuple[str, ...] | None = None
        """The names of Shards in `root`, if they were read since they changed."""
        store.listen(self._forget_shards, (_SHARDS,))

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return False  # no request here has a body

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        user = self._authentication.peek(request)
        call = Call(exchange, RequestInfo(request.method, request.path, verb="get"))
        call.info.query = parse_query(request.query)
        return self._authenticate(call) if user is None else self._answer(call, user)

    def close(self) -> None:
        """End all streams, and those that begin: the process stops."""
        self._is_closed = True
        for stream, forget in [*self._streams.items()]:
            forget()
            stream.end()

    async def _authenticate(self, call: Call) -> None:
        try:
            user = (await self._authentication.authenticate(call.exchange.request)).user
        except StatusError as error:
            send_status(call, error)
            return
        pending = self._answer(call, user)
        if pending is not None:
            await pending

    def _answer(self, call: Call, user: User) -> Pending:
        try:
            if MASTERS not in user.groups:
                raise Forbidden(f'User "{user.name}" cannot get path "{call.info.path}"')
            if call.info.method != "GET":
                raise MethodNotAllowed("only GET is supported")
            if "since" in call.info.query:
                return self._follow(call)
            if "advance" in call.info.query:
                return self._advance(call)
            self._look_up(call, call.info.param("path"))
        except StatusError as error:
            send_status(call, error)
        return None

    # --- lookups

    def _look_up(self, call: Call, path: str) -> None:
        if path == clusters.WILDCARD or not clusters.is_valid_path(path):
            raise BadRequest(f'invalid cluster: "{path}" does not match the regex')
        call.exchange.respond(200, JSON_HEADERS, encode(self.find(path)))

    def find(self, path: str) -> RouteAnswer:
        """As much as this shard knows about a path."""
        shard, revision = self._clusters.shard_name, self._store.revision
        segments = [path] if clusters.is_name(path) else path.split(":", clusters.MAX_DEPTH)
        if segments[0] == HOMES and len(segments) > 1:
            segments[:2] = [home_cluster_name(segments[1])]
        answer = RouteAnswer(shard, revision)
        if self._clusters.serves(segments[0]):
            return self._walk(answer, segments[0], segments[1:])
        moved_to = self._clusters.moves.shard_of(segments[0])
        if moved_to and len(segments) == 1:
            # For the other shard, which may not serve it yet. No change there contradicts it.
            return RouteAnswer(moved_to, _ALWAYS, starts_here=True, cluster=segments[0])
        for size in range(len(segments), max(len(segments) - _PREFIXES, 0), -1):
            start = ":".join(segments[:size])
            for key in self._store.lookup(path_entry(start), limit=1):
                cluster = split_key(key).cluster
                if not self._clusters.serves(cluster):
                    continue
                answer = structs.replace(
                    answer, path=start, start=cluster, start_type=self._type_of(cluster)
                )
                return self._walk(answer, cluster, segments[size:])
        return answer

    def _walk(self, answer: RouteAnswer, cluster: str, names: list[str]) -> RouteAnswer:
        """From a logical cluster of this shard along Workspaces."""
        steps: list[WorkspaceStep] = []
        is_missing = False
        for name in names:
            place = self._paths.step(cluster, name)
            if place is None:
                cluster, is_missing = "", True
                break
            mount, is_available = place.mount_url, place.is_available
            steps.append(
                WorkspaceStep(cluster, name, place.cluster, place.shard, is_available, mount)
            )
            cluster = place.cluster
            if not is_available or not cluster or not self._clusters.serves(cluster):
                cluster = ""
                break
        return structs.replace(
            answer,
            starts_here=True,
            steps=tuple(steps),
            is_missing=is_missing,
            cluster=cluster,
            type=self._type_of(cluster) if cluster else "",
        )

    def _type_of(self, cluster: str) -> str:
        entry = self._store.get(object_key(_CLUSTERS, cluster, "", "cluster"))
        if entry is None:
            return ""
        return (_decode(entry.value).metadata.annotations or {}).get(TYPE_ANNOTATION, "")

    # --- revisions

    def _advance(self, call: Call) -> Pending:
        revision = _revision(call, "advance")
        if revision > self._store.revision:
            return self._advance_to(call, revision)
        self._answer_revision(call)
        return None

    async def _advance_to(self, call: Call, revision: int) -> None:
        try:
            await self._store.advance(revision)
        except StoreError as error:
            send_status(call, translate(error))
            return
        self._answer_revision(call)

    def _answer_revision(self, call: Call) -> None:
        self._hub.report_progress()
        if self._shards is None:
            self._shards = tuple(key[len(_SHARDS) :] for key in self._store.keys(_SHARDS))
        reached = Reached(self._store.revision, self._shards)
        call.exchange.respond(200, JSON_HEADERS, encode(reached))

    def _forget_shards(self, events: Sequence[Event]) -> None:
        self._shards = None

    # --- changes

    def _follow(self, call: Call) -> Pending:
        since = _revision(call, "since")
        if since > self._store.revision:
            raise Expired("revision is newer than this shard")
        return self._stream(call, since)

    async def _stream(self, call: Call, since: int) -> None:
        """Everything since a revision, then what happens; `since` 0 means from now on."""
        waiting: list[Event] = []
        forget = self._store.listen(waiting.extend)
        until = self._store.revision
        try:
            past = await self._past(since, until) if since else []
        except Compacted:
            send_status(call, Expired("revision has been compacted"))
            return
        finally:
            forget()
        stream = call.exchange.start(200, JSON_HEADERS)
        stream.write(b"".join((*_lines(past), *_lines(waiting), _place(self._store.revision))))
        if self._is_closed:
            stream.end()
            return
        unlisten = self._store.listen(lambda events: self._pass_on(stream, events))
        self._streams[stream] = unlisten
        stream.on_close(lambda: self._forget(stream))

    async def _past(self, since: int, until: int) -> list[Event]:
        found: list[Event] = []
        for prefix in (_WORKSPACES, _CLUSTERS, *_MOVES):
            after = since
            while True:
                page = await self._store.history(prefix, after, until, _PAGE)
                found += page.events
                if page.reached >= until:
                    break
                after = page.reached
        return found

    def _pass_on(self, stream: Stream, events: Sequence[Event]) -> None:
        lines = _lines(events)
        if not lines:
            return
        stream.write(b"".join(lines))
        if stream.backlog > _MOST_WAITING:
            stream.abort()

    def _forget(self, stream: Stream) -> None:
        unlisten = self._streams.pop(stream, None)
        if unlisten is not None:
            unlisten()


def _revision(call: Call, name: str) -> int:
    text = call.info.param(name)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest(f'invalid {name}: "{text}" is not a revision')
    return int(text)


def _lines(events: Sequence[Event]) -> list[bytes]:
    """A line for each Workspace that changed, and for each logical cluster that came or went."""
    lines = []
    for event in events:
        key = event.key
        if key.startswith(_WORKSPACES):
            cluster, _, rest = key[len(_WORKSPACES) :].partition("/")
            name = rest.rpartition("/")[2]
            lines.append(encode(RouteChange(event.revision, cluster, name)) + b"\n")
        elif key.startswith(_MOVES):
            lines.append(encode(RouteChange(event.revision, key.rpartition("/")[2])) + b"\n")
        elif key.startswith(_CLUSTERS) and (event.deleted or event.created):
            cluster = key[len(_CLUSTERS) :].partition("/")[0]
            lines.append(encode(RouteChange(event.revision, cluster)) + b"\n")
    return lines


def _place(revision: int) -> bytes:
    """That everything up to a revision has been said."""
    return encode(RouteChange(revision)) + b"\n"
