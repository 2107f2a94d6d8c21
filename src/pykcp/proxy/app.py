"""The application of the front-proxy: finds where a request goes, says who sent it, sends it on."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pykcp.aio.owner import spawn_detached
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authz.attributes import forbidden
from pykcp.auth.user import User
from pykcp.clients.direct import Direct
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Onward
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.peers import Peers
from pykcp.clients.relay import AnswerRejected
from pykcp.clients.where import ROUTED
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import ServiceUnavailable, StatusError, Unauthorized
from pykcp.proxy.backend import OPERATOR, ProxyBackend, check_path, hop_headers, is_plain
from pykcp.proxy.callers import Caller, CallerSeats, caller_of
from pykcp.proxy.identity import GroupFilter
from pykcp.proxy.lookup import RouteLookup, ShardAway, UnknownCluster
from pykcp.proxy.mapping import CLUSTERS, MappingMatcher, PathMapping
from pykcp.proxy.merged import MERGED, MergedCollections, read_request
from pykcp.proxy.merged_reports import REPORTS, MergedReports
from pykcp.proxy.merged_tree import TREE, MergedTree
from pykcp.proxy.metrics import ForwardedRequest, ProxyMetrics
from pykcp.proxy.pages import OwnPages
from pykcp.proxy.routes import ClusterRoute, RouteTable
from pykcp.proxy.shards import ShardDirectory
from pykcp.proxy.watches import resumed_query
from pykcp.server import constant_time
from pykcp.server.call import Call, Pending
from pykcp.server.console.origins import refusal
from pykcp.server.filters.authorization import attributes_of
from pykcp.server.filters.clusters import WorkspaceUnavailable, account_cluster
from pykcp.server.forwarding import HOPS, BadGateway, LoopDetected, read_hops
from pykcp.server.media.answers import PageNotFound, send_status
from pykcp.server.mount import SERVICES, StaticPages, is_console, refuse
from pykcp.server.request_info import parse
from pykcp.wire.exchange import Exchange, Header, IncomingRequest, Stream

_log = logging.getLogger(__name__)

_ROUTED = (ROUTED, "1")
_MOST_SHARDS = 4
"""That are asked for a logical cluster which is being moved."""
_NOT_PERMITTED = "workspace access not permitted"
"""Said to callers whom only the shard could authenticate; in kcp to all."""
_DENIED = "access denied"
"""What shards say to users who may not enter a logical cluster."""
_NOBODY = User("")
_MOST_HOPS = 8
_WATCH = "watch="
_KEPT_BODY, _KEPT_UNKNOWN_BODY = 1 << 20, 64 << 10
"""Octets of a body that is read before the request is sent on, so that it can be sent again."""
_WORKSPACE_SERVICE = re.compile(
    r"(/services/(?:(?:access|copies|usage|trash|tree)/clusters|syncer)/)([^/]+)(/.*|)", re.DOTALL
).fullmatch
_HTTP1 = "HTTP/1.1"
_MEMO = "proxy.headers"
_SEATS, _WAITING = 64, 1024
"""Requests of one caller that are under way, and that wait for them."""
_MERGED_SEATS, _MERGED_WAITING = 4, 256
"""The same of requests to all shards, which cost many times as much."""
_MOST_REMEMBERED = 32
"""Headers of a request that is remembered."""


class Target(NamedTuple):
    """Where a request goes, before it is known who sent it."""

    backend: ProxyBackend
    url: str
    """With the path, without the query."""
    shard: str = ""
    """"" if it goes to another server than a shard; a shard authenticates callers itself."""
    cluster: str = ""
    """The logical cluster, if the request names one."""
    name: str = ""
    """How the request names it."""
    rest: str = ""
    """The path below it."""

    @property
    def server(self) -> str:
        """Which one it is."""
        return self.shard or urlsplit(self.url).netloc


class SentRequest(NamedTuple):
    """A request of which everything is known that has to be to send it."""

    target: Target
    user: User | None
    """None: the server behind finds out."""
    is_filtered: bool
    """Whether the groups of the user are."""
    started: float


class _SentHeaders(NamedTuple):
    """The headers of the last request of a connection, as they came and as they were sent on."""

    received: Sequence[Header]
    user: User | None
    backend: ProxyBackend
    is_routed: bool
    is_filtered: bool
    headers: Sequence[Header]


@dataclass(frozen=True, slots=True)
class SignInRules:
    """Who has to sign in at the proxy."""

    authentication: Authentication
    groups: GroupFilter
    is_required: bool
    """Also callers without a client certificate: there are ways for them to."""
    has_workspace_tokens: bool = False
    """A token may be one of an issuer of a workspace type."""


class FrontProxy:
    def __init__(
        self,
        mappings: Sequence[PathMapping],
        connections: Direct,
        sign_in: SignInRules,
        shards: ShardDirectory,
        table: RouteTable,
        lookup: RouteLookup,
        pages: OwnPages,
        metrics: ProxyMetrics,
        peers: Peers,
        make_console: Callable[[], StaticPages] | None = None,
    ) -> None:
        """`make_console`: called by the first request for it; None: there is no console."""
        self._backends = [ProxyBackend(mapping, connections) for mapping in mappings]
        self._matcher = MappingMatcher([mapping.path for mapping in mappings])
        for_shards = (backend for backend in self._backends if backend.mapping.is_for_shards)
        self._shard_backend = next(for_shards, None)
        self._sign_in, self._authentication = sign_in, sign_in.authentication
        self._shards, self._table, self._lookup = shards, table, lookup
        self._pages, self._metrics = pages, metrics
        self._seats = CallerSeats(_SEATS, _WAITING)
        self._merged_seats = CallerSeats(_MERGED_SEATS, _MERGED_WAITING)
        self._merged = MergedCollections(self, peers)
        self._tree = MergedTree(self._merged, self._find_route)
        self._reports = MergedReports(peers, shards.names, pages.may_read)
        self._make_console = make_console
        self._console: StaticPages | None = None

    # --- what the wire asks

    def wants_streaming(self, request: IncomingRequest) -> bool:
        if request.method in ("GET", "HEAD"):
            return False
        length = request.header("content-length")
        if length is None:
            return request.method != "DELETE" or request.header("transfer-encoding") is not None
        is_known = self._authentication.peek(request) is not None
        most = _KEPT_BODY if is_known else _KEPT_UNKNOWN_BODY
        return not length.isdigit() or int(length) > most

    def identify(self, exchange: Exchange) -> bool:
        return True  # no more of a body is kept than of any caller

    def handle(self, exchange: Exchange) -> Pending:
        started = time.perf_counter()
        request = exchange.request
        path = request.path
        may_be_forged = request.method == "POST" or request.peer.protocol == _HTTP1
        if may_be_forged and (error := self._refusal(exchange)) is not None:
            refuse(exchange, error)
            return None
        backend = self._shard_backend
        if backend is not None and path.startswith(CLUSTERS) and is_plain(path):
            # The way of nearly all requests: a known cluster, and a user whom the connection knows.
            end = path.find("/", len(CLUSTERS))
            name = path[len(CLUSTERS) : end] if end > 0 else path[len(CLUSTERS) :]
            route = self._table.find(name)
            if isinstance(route, ClusterRoute) and route.shard and not request.header(HOPS):
                user = self._authentication.peek(request)
                if user is not None or not self._must_sign_in(request):
                    target = self._at_shard(route, name, path[end:] if end > 0 else "")
                    return self._start(exchange, SentRequest(target, user, True, started))
        elif self._pages.has(path):
            return self._pages.handle(exchange)
        elif self._make_console is not None and is_console(path):
            if self._console is None:
                self._console = self._make_console()
            return self._console.handle(exchange)
        return self._serve(exchange, started)

    def _refusal(self, exchange: Exchange) -> StatusError | None:
        """Only HTTP/1.1 switches to other protocols, such as WebSocket."""
        if exchange.request.method == "POST" or exchange.wanted_protocol:
            return refusal(exchange.request)
        return None

    # --- the same in steps

    async def _serve(self, exchange: Exchange, started: float) -> None:
        request = exchange.request
        call = Call(exchange, parse(request.method, request.path, request.query), started)
        call.user = _NOBODY
        await self._answer_errors(call, self._find_and_forward(call))

    async def _find_and_forward(self, call: Call) -> None:
        if self._shard_backend is not None and call.exchange.request.path.startswith(MERGED):
            is_report = call.exchange.request.path.startswith(REPORTS)
            answer = self._report if is_report else self._merge
            await answer(call, self._shard_backend)
            return
        async with self._seats.seat(self._known_caller(call)):
            target = await self._find_target(call)
            user, is_filtered = await self._authenticate(call, target)
        await self._forward(call, SentRequest(target, user, is_filtered, call.started))

    def _known_caller(self, call: Call) -> Caller:
        """As far as it is known before signing in."""
        request = call.exchange.request
        return caller_of(request, self._authentication.peek(request))

    async def _merge(self, call: Call, backend: ProxyBackend) -> None:
        """Answer with what all shards say."""
        check_path(call.exchange.request.path)
        target = Target(backend, "")
        user, is_filtered = await self._authenticate(call, target)
        headers = self._headers(
            call.exchange.request, SentRequest(target, user, is_filtered, call.started)
        )
        asked = read_request(call, headers)
        caller = caller_of(call.exchange.request, user)
        is_tree = asked.path.startswith(TREE)
        if asked.is_watch and not is_tree:
            await self._merged.send_watch(asked, self._merged_seats.seat(caller))
            return
        async with self._merged_seats.seat(caller):
            await (self._tree.serve(asked) if is_tree else self._merged.send_list(asked))

    async def _report(self, call: Call, backend: ProxyBackend) -> None:
        """Answer with what all shards report to administrators."""
        check_path(call.exchange.request.path)
        user, is_filtered = await self._authenticate(call, Target(backend, ""))
        if user is None:
            raise Unauthorized
        if is_filtered:
            user = replace(user, groups=tuple(self._sign_in.groups.groups(user)))
        await self._reports.serve(call, user)

    async def _answer_errors(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        try:
            try:
                await pending
            except UnknownCluster:
                await self._deny(call)
        except StatusError as error:
            self._answer(call, error)

    async def _deny(self, call: Call) -> None:
        """No shard has the cluster: answered like one that the user may not enter."""
        request, reason = call.exchange.request, _NOT_PERMITTED
        if self._must_sign_in(request):
            try:
                call.user = (await self._authentication.authenticate(request)).user
                reason = _DENIED
            except Unauthorized:
                if request.header("authorization") is None:
                    raise
        await constant_time.wait(call.started)
        raise forbidden(attributes_of(call), reason)

    def _answer(self, call: Call, error: StatusError) -> None:
        if call.exchange.responded:
            return
        if isinstance(error, BadGateway):
            call.exchange.respond(error.code, ())  # as Go's proxies, without a body
        else:
            send_status(call, error)
        self._metrics.answered(call.info.method, error.code, call.started)

    async def _find_target(self, call: Call) -> Target:
        """Raises the error to answer."""
        path = call.exchange.request.path
        if not is_plain(path):
            check_path(path)
        if read_hops(call.exchange.request) >= _MOST_HOPS:
            raise LoopDetected
        if not path.startswith((CLUSTERS, SERVICES)):
            home = account_cluster(call.exchange.request)
            if home:
                path = f"{CLUSTERS}{home}{path}"
        segments = path.split("/")
        if path.startswith(CLUSTERS) and self._shard_backend is not None and segments[2]:
            rest = "/".join(("", *segments[3:])) if len(segments) > 3 else ""
            return await self._shard_target(unquote(segments[2]), rest)
        at_shard = await self._workspace_service(path)
        if at_shard is not None:
            return at_shard
        matched = self._matcher.find("/".join(unquote(s) if "%" in s else s for s in segments))
        if matched is None:
            raise PageNotFound
        backend = self._backends[matched.mapping]
        if backend is self._shard_backend:
            raise PageNotFound  # `/clusters` without a name
        cluster = ""
        if matched.cluster not in ("", clusters.WILDCARD) and self._shard_backend is not None:
            cluster = (await self._find_route(matched.cluster)).cluster
        return Target(backend, backend.url + path, cluster=cluster)

    async def _workspace_service(self, path: str) -> Target | None:
        """A service about one workspace is served by the shard that has it; None: another path."""
        found = _WORKSPACE_SERVICE(path)
        if found is None or self._shard_backend is None:
            return None
        service, name, rest = found.groups()
        try:
            route = await self._find_route(unquote(name))
        except (UnknownCluster, WorkspaceUnavailable):
            return None  # the mapping of `/services/` answers, as for a workspace without access
        if not route.shard:
            return None
        url = f"{self._shards.services_url(route.shard)}{service}{route.cluster}{rest}"
        return Target(self._shard_backend, url, cluster=route.cluster)

    async def _shard_target(self, name: str, rest: str) -> Target:
        assert self._shard_backend is not None
        route = await self._find_route(name)
        if route.mount:
            url = urlsplit(route.mount)
            if url.scheme != "https" or url.query:
                raise WorkspaceUnavailable
            return Target(self._shard_backend, route.mount.rstrip("/") + rest)
        return self._at_shard(route, name, rest)

    async def _find_route(self, name: str) -> ClusterRoute:
        """Raises UnknownCluster, or the error to answer."""
        if name == clusters.WILDCARD or not clusters.is_valid_path(name):
            raise UnknownCluster
        route = await self._lookup.find(name)
        if not route.is_available:
            raise WorkspaceUnavailable
        if not route.shard and not route.mount:
            raise UnknownCluster
        return route

    def _at_shard(self, route: ClusterRoute, name: str, rest: str) -> Target:
        assert self._shard_backend is not None
        shard, cluster = route.shard, route.cluster
        url = f"{self._shards.base_url(shard)}{CLUSTERS}{cluster}{rest}"
        return Target(self._shard_backend, url, shard, cluster, name, rest)

    # --- who it is

    def _must_sign_in(self, request: IncomingRequest) -> bool:
        rules = self._sign_in
        if request.peer.certificate is not None or rules.is_required:
            return True
        return rules.has_workspace_tokens and request.header("authorization") is not None

    async def _authenticate(self, call: Call, target: Target) -> tuple[User | None, bool]:
        """Who sent a request, None if the server behind shall find out; and whether the groups
        are filtered. Raises Unauthorized.
        """
        request = call.exchange.request
        if not self._must_sign_in(request):
            return None, True
        try:
            found = await self._authentication.authenticate(request, target.cluster)
        except Unauthorized:
            if target.shard and request.header("authorization") is not None:
                return None, True  # the shard may know a token that is not known here
            raise
        # A user of a workspace's own issuer is confined to it, and has no groups to filter.
        return found.user, found.is_portable

    # --- and on it goes

    def _start(self, exchange: Exchange, sent: SentRequest) -> Pending:
        """Without a task, if a connection is ready."""
        forwarder = sent.target.backend.forwarder
        onward, observer = self._onward(exchange, sent)

        caller = caller_of(exchange.request, sent.user, sent.target.server)
        if not self._seats.take(caller):
            return self._go_on(exchange, sent, observer)
        observer.hold_seat(self._seats, caller)
        try:
            if forwarder.start(exchange, onward, partial(self._go_on, exchange, sent, observer)):
                return None
        except SendFailed:
            pass  # it is answered below
        observer.release_seat()
        return self._go_on(exchange, sent, observer)

    async def _go_on(
        self,
        exchange: Exchange,
        sent: SentRequest,
        observer: ForwardedRequest,
        failed: SendFailed | None = None,
    ) -> None:
        request = exchange.request
        call = Call(exchange, parse(request.method, request.path, request.query), sent.started)
        call.user = _NOBODY
        await self._answer_errors(call, self._reroute_and_forward(call, sent, observer, failed))

    async def _reroute_and_forward(
        self,
        call: Call,
        sent: SentRequest,
        observer: ForwardedRequest,
        failed: SendFailed | None,
    ) -> None:
        if observer.is_misdirected:
            sent, failed = await self._reroute(call, sent, observer.moved_to), None
        await self._forward(call, sent, failed)

    async def _forward(
        self, call: Call, sent: SentRequest, failed: SendFailed | None = None
    ) -> None:
        """To the end of the answer. Raises the error to answer if there is none.

        `failed`: why it has no answer although it was sent before.
        """
        for _ in range(_MOST_SHARDS):
            onward, observer = self._onward(call.exchange, sent)
            caller = caller_of(call.exchange.request, sent.user, sent.target.server)
            await self._seats.wait(caller)
            observer.hold_seat(self._seats, caller)
            try:
                await sent.target.backend.forwarder.forward(call.exchange, onward, failed)
            except AnswerRejected:
                failed = None
                sent = await self._reroute(call, sent, observer.moved_to)
            except SendFailed as error:
                _log.warning("%s does not answer: %s", urlsplit(onward.url).netloc, error)
                self._metrics.failed(observer.shard, error)
                shard = sent.target.shard
                raise (ShardAway(shard) if shard else BadGateway()) from error
            else:
                return
            finally:
                observer.release_seat()
        raise ServiceUnavailable("the logical cluster is being moved", retry_after=1)

    async def _reroute(self, call: Call, sent: SentRequest, moved_to: str) -> SentRequest:
        """The route was out of date: look for the shard again. Raises the error to answer.

        `moved_to`: the shard that has it now, which may not be ready for it until it is asked.
        """
        old = sent.target
        self._table.forget_path(old.name)
        if moved_to and self._shards.base_url(moved_to):
            route = ClusterRoute(moved_to, old.cluster)
        else:
            route = await self._find_route(old.name)
        if call.exchange.request.is_streaming:  # part of its body may be gone
            raise ServiceUnavailable("the logical cluster was moved", retry_after=1)
        if not route.shard:
            raise UnknownCluster
        # It may be the same shard: the logical cluster has arrived there meanwhile.
        self._metrics.rerouted.add()
        return sent._replace(target=self._at_shard(route, old.name, old.rest))

    def _onward(
        self, exchange: Exchange, sent: SentRequest, query: str | None = None
    ) -> tuple[Onward, ForwardedRequest]:
        target, request = sent.target, exchange.request
        query = request.query if query is None else query
        url = f"{target.url}?{query}" if query else target.url
        observer = ForwardedRequest(self._metrics, request.method, target.shard, sent.started)
        if _WATCH in query:
            observer.resume = partial(self._resume_watch, exchange, sent)
        return Onward(url, self._headers(request, sent), OPERATOR, observer), observer

    def _headers(self, request: IncomingRequest, sent: SentRequest) -> Sequence[Header]:
        """Most clients send the same headers again and again: so does the proxy."""
        memo: _SentHeaders | None = request.peer.memo.get(_MEMO)
        backend, is_routed = sent.target.backend, bool(sent.target.shard)
        if (
            memo is not None
            and memo.user is sent.user
            and memo.backend is backend
            and memo.is_routed == is_routed
            and memo.is_filtered == sent.is_filtered
            and memo.received == request.headers
        ):
            return memo.headers
        user, identity = sent.user, backend.identity
        headers = identity.passed(request.headers, without_token=user is not None)
        if user is not None:
            headers += identity.of(user, self._sign_in.groups if sent.is_filtered else None)
        headers += hop_headers(request)
        if is_routed:
            headers.append(_ROUTED)
        made = tuple(headers)
        if len(request.headers) <= _MOST_REMEMBERED:
            request.peer.memo[_MEMO] = _SentHeaders(
                request.headers, user, backend, is_routed, sent.is_filtered, made
            )
        return made

    # --- what collections of all shards are read by

    def names(self) -> list[str]:
        return self._shards.names()

    async def get(self, shard: str, target: str, headers: Sequence[Header]) -> HttpResponse:
        assert self._shard_backend is not None
        is_service = target.startswith(SERVICES)
        find = self._shards.services_url if is_service else self._shards.base_url
        onward = Onward(find(shard) + target, headers, OPERATOR)
        return await self._shard_backend.forwarder.fetch(onward)

    # --- watches of logical clusters that move

    def _resume_watch(
        self, exchange: Exchange, sent: SentRequest, stream: Stream, shard: str, revision: int
    ) -> None:
        """The client of a watch does not see that its logical cluster has moved."""
        work = self._continue_watch(exchange, sent, stream, shard, revision)
        _ = spawn_detached(work, "watch of a moved cluster")

    async def _continue_watch(
        self, exchange: Exchange, sent: SentRequest, stream: Stream, shard: str, revision: int
    ) -> None:
        old = sent.target
        self._table.forget_path(old.name)
        query = resumed_query(exchange.request.query, revision)
        for _ in range(_MOST_SHARDS):
            target = self._at_shard(ClusterRoute(shard, old.cluster), old.name, old.rest)
            onward, observer = self._onward(exchange, sent._replace(target=target), query)
            try:
                await target.backend.forwarder.resume(exchange, onward, stream)
            except AnswerRejected:
                shard = observer.moved_to
                if shard:
                    continue
            except SendFailed as error:
                _log.warning("a watch does not go on at shard %s: %s", shard, error)
            else:
                self._metrics.rerouted.add()
                return
            break
        if not stream.closed:
            stream.end()  # the client goes on from where it is
