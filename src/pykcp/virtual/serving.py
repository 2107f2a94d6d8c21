"""From `/services/<name>/…` to the server of a view.

Each view is served by an `ApiServer` of its own, made of the same parts as the shard's but
for those that are the view's: which resources there are, who may what. It is made when the
view is first visited and goes with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import ALLOW, Decision, Verdict, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import MASTERS
from pykcp.registry.resource import Resource
from pykcp.server import escapes, request_info
from pykcp.server.app import ApiServer, Handler
from pykcp.server.authorization import attributes_of
from pykcp.server.call import Call
from pykcp.server.documents.version import GIT_VERSION
from pykcp.server.impersonation import Impersonation
from pykcp.server.media.answers import PageNotFound, PlainError
from pykcp.virtual.forwarding import RemoteServer, is_for_here
from pykcp.virtual.framework import AccessUndecided, VirtualView, VirtualWorkspace, Visit
from pykcp.virtual.paths import ViewPaths
from pykcp.wire.exchange import Application, Exchange, IncomingRequest
from pykcp.workers.pool import WorkerPool

ROOT = "/services/"
_OLD_PLUGIN = "Go-http-client/2.0"
_OLD_PLUGIN_WARNING = (
    "You are using an old kubectl-kcp plugin. "
    f'Please update to a version matching the kcp server version "{GIT_VERSION}".'
)


@dataclass(frozen=True, slots=True)
class Host:
    """What a process lends to its virtual workspaces."""

    shard: ApiServer
    authorizer: Authorizer
    address: Callable[[], str]
    workers: WorkerPool | None = None


class Front:
    """The application in front of a shard: what is not under `/services/` is the shard's."""

    def __init__(
        self,
        host: Host,
        workspaces: Sequence[VirtualWorkspace],
        elsewhere: RemoteServer | None = None,
    ) -> None:
        """`elsewhere`: where the virtual workspaces are visited, if that is another process."""
        self._host = host
        self._elsewhere = elsewhere
        self._workspaces = {workspace.name: workspace for workspace in workspaces}
        self._mounted: dict[str, Application] = {}
        self._nowhere = ViewServer(host, Nowhere())

    def mount(self, name: str, application: Application) -> None:
        """Serve `/services/<name>` by something else: the cache server, another process."""
        self._mounted[name] = application

    @property
    def checks(self) -> list[str]:
        if self._elsewhere is not None:
            return []
        return [check for workspace in self._workspaces.values() for check in workspace.checks]

    def wants_streaming(self, request: IncomingRequest) -> bool:
        application = self._application(request)
        return application is not None and application.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        request = exchange.request
        if not request.path.startswith(ROOT):
            return self._host.shard.identify(exchange)
        application = self._application(request)
        if application is not None:
            return application.identify(exchange)
        if self._elsewhere is not None and not is_for_here(request):
            return self._elsewhere.identify(exchange)
        server, call = self._understand(exchange)
        return server.identify_caller(call)

    def _application(self, request: IncomingRequest) -> Application | None:
        if not request.path.startswith(ROOT) or not self._mounted:
            return None
        return self._mounted.get(_first_segment(request.path))

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        if not request.path.startswith(ROOT):
            if request.path == ROOT[:-1]:
                _redirect(exchange)
                return None
            return self._host.shard.handle(exchange)
        application = self._application(request)
        if application is None and self._elsewhere is not None and not is_for_here(request):
            application = self._elsewhere
        if application is not None:
            return application.handle(exchange)
        return self._visit(exchange)

    def _visit(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        server, call = self._understand(exchange)
        return server.take(call)

    def _understand(self, exchange: Exchange) -> tuple[ApiServer, Call]:
        """Which view is meant, and what is asked of it."""
        request = exchange.request
        path = escapes.decode(request.path) if "%" in request.path else request.path
        name = _first_segment(path)
        workspace = self._workspaces.get(name)
        visit = workspace.visit(path[len(ROOT) + len(name) :]) if workspace is not None else None
        if visit is None:
            info = request_info.RequestInfo(request.method, path, verb=request.method.lower())
            return self._nowhere, Call(exchange, info)
        base = path[: len(path) - len(visit.path)]
        info = request_info.understand(
            request.method, visit.path, request.query, cluster=visit.cluster, base=base
        )
        return self._server_of(visit), Call(exchange, info)

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        """Have a request of this process served by a virtual workspace, at another path."""
        request = call.exchange.request
        name = _first_segment(path)
        workspace = self._workspaces.get(name)
        visit = workspace.visit(path[len(ROOT) + len(name) :]) if workspace is not None else None
        if visit is None:
            raise PageNotFound
        info = request_info.understand(
            request.method,
            visit.path,
            request.query,
            cluster=visit.cluster,
            base=path[: len(path) - len(visit.path)],
        )
        inner = Call(call.exchange, info)
        inner.hops, inner.is_seated = hops, True
        await self._server_of(visit).take_over(inner, call.user)
        call.stream = inner.stream

    def _server_of(self, visit: Visit) -> ApiServer:
        view = visit.view
        if view.server is None:
            view.server = ViewServer(self._host, view)
        return view.server


def _first_segment(path: str) -> str:
    return path[len(ROOT) :].partition("/")[0]


def _redirect(exchange: Exchange) -> None:
    body = b'<a href="/services/">Temporary Redirect</a>.\n\n'
    headers = (("content-type", "text/html; charset=utf-8"), ("location", ROOT))
    exchange.respond(307, headers, body)


class ViewServer(ApiServer):
    def __init__(self, host: Host, view: VirtualView) -> None:
        served = _Served(view)
        super().__init__(
            **host.shard.common(),
            authorization=_ViewAuthorization(view, host.authorizer),
            clusters=_Resolved(),
            directory=served,
            paths=view.paths or ViewPaths(served, host.address, host.workers),
        )
        self._view = view
        self._shard = host.shard

    def _route(self, call: Call) -> Coroutine[Any, Any, None] | None:
        if self._view.forwards:
            return self._shard.take_over(call, call.user)
        if not self._view.exists():
            raise PageNotFound
        return super()._route(call)

    def _check_presence(self, call: Call) -> None:
        # What is not a resource is about the view rather than about the cluster.
        if call.info.is_resource:
            super()._check_presence(call)
            self._shard.check_cluster(call)

    def _serve_resource(self, call: Call, resource: Resource) -> Coroutine[Any, Any, None] | None:
        pending = super()._serve_resource(call, resource)
        return self._watch(call, pending) if pending and call.info.verb == "watch" else pending

    async def _watch(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        await pending
        if call.stream is not None and not call.stream.closed:
            self._view.opened(call, call.stream)

    def _handler(self, call: Call) -> Handler:
        return self._view.handler(call) or super()._handler(call)


class _Resolved:
    """Virtual workspaces find the cluster in the path themselves."""

    def resolve(self, call: Call) -> None:
        return


class _Served:
    """A view as the parts of a server ask for it."""

    def __init__(self, view: VirtualView) -> None:
        self._view = view

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str = ""
    ) -> Resource | None:
        # Which identity is meant is the view's to say, not the client's.
        return None if identity else self._view.find(cluster, group, version, plural)

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        return None

    def is_custom_group(self, cluster: str, group: str) -> bool:
        return True  # what there is not is answered as by the server of custom resources

    def is_loaded(self, cluster: str) -> bool:
        return True

    async def load(self, cluster: str) -> None:
        """Nothing: a view's definitions are made one by one."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._view.definitions(cluster)


class _ViewAuthorization:
    def __init__(self, view: VirtualView, authorizer: Authorizer) -> None:
        self._view = view
        self._impersonation = Impersonation(authorizer)

    def peek(self, call: Call) -> bool:
        is_special = call.is_vouched or MASTERS in call.user.groups or self._is_old_plugin(call)
        if is_special or self._impersonation.is_asked(call):
            return False
        call.caller = call.user
        decision = self._view.peek(call)
        if decision is None:
            return False
        if call.audit is not None:
            call.audit.decided(decision)
        return decision.allowed

    async def check(self, call: Call) -> None:
        if not call.is_vouched and self._impersonation.is_asked(call):
            await self._impersonate(call)
        decision = ALLOW
        if MASTERS not in call.user.groups:
            decision = await self._decide(call)
        if call.audit is not None:
            call.audit.decided(decision)
        if not decision.allowed:
            raise forbidden(attributes_of(call), decision.reason)
        call.caller = call.user
        await self._view.enter(call)
        if self._is_old_plugin(call):
            call.context.warn(_OLD_PLUGIN_WARNING)

    def _is_old_plugin(self, call: Call) -> bool:
        return call.exchange.request.header("user-agent") == _OLD_PLUGIN

    async def check_create(self, call: Call) -> None:
        """As if the caller had asked to create it, here and where the view leads."""
        other = copy.copy(call)
        other.info = replace(call.info, verb="create")
        other.user, other.is_vouched = call.caller or call.user, True
        other.audit = other._context = None
        await self.check(other)

    async def _impersonate(self, call: Call) -> None:
        """Only masters act as others here: rights to impersonate belong to one workspace."""
        attributes = attributes_of(call)
        if MASTERS not in call.user.groups:
            raise forbidden(
                attributes._replace(
                    verb="impersonate", group="", resource="users", is_resource=True
                )
            )
        call.user = await self._impersonation.apply(call, attributes)

    async def _decide(self, call: Call) -> Decision:
        try:
            return await self._view.authorize(call)
        except AccessUndecided as error:
            path = f"{call.info.base}{call.info.path}"
            raise PlainError(
                f'Internal Server Error: "{path}": {error}', code=500, reason=""
            ) from error


class Nowhere(VirtualView):
    """Paths that no virtual workspace knows."""

    async def authorize(self, call: Call) -> Decision:
        return Decision(Verdict.NO_OPINION, "Path not resolved to a valid virtual workspace")

    async def enter(self, call: Call) -> None:
        raise PageNotFound
