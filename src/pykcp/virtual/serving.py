"""From `/services/<name>/…` to the server of a view.

Each view is served by an `ApiServer` of its own. It shares authentication, fairness, audit and
metrics with the shard's; which resources there are, and who may do what, is up to the view. The
server is made when the view is first visited and goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import ALLOW, Decision, Verdict, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import MASTERS, User
from pykcp.registry.resource import Resource
from pykcp.server import escapes, request_info
from pykcp.server.app import ApiServer
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.chain import OwnParts, SharedParts
from pykcp.server.dispatch import Dispatcher, RemoteResources, VerbHandlers
from pykcp.server.documents.version import GIT_VERSION
from pykcp.server.filters.authorization import attributes_of
from pykcp.server.filters.clusters import ClusterPresence
from pykcp.server.filters.impersonation import Impersonation
from pykcp.server.media.answers import PageNotFound, PlainError
from pykcp.server.mount import SERVICES, service_name
from pykcp.virtual.framework import AccessUndecided, VirtualView, VirtualWorkspace, Visit
from pykcp.virtual.paths import ViewPaths
from pykcp.wire.exchange import Exchange, IncomingRequest
from pykcp.workers.pool import WorkerPool

_OLD_PLUGIN = "Go-http-client/2.0"
_OLD_PLUGIN_WARNING = (
    "You are using an old kubectl-kcp plugin. "
    f'Please update to a version matching the kcp server version "{GIT_VERSION}".'
)


@dataclass(frozen=True, slots=True)
class Host:
    """What a process lends to its virtual workspaces."""

    shared: SharedParts
    authorizer: Authorizer
    presence: ClusterPresence
    """Whether a logical cluster exists on the shard."""
    in_use: ClusterPresence
    """Whether it may be used: it may be inactive."""
    verbs: VerbHandlers
    forward: Callable[[Call, User], Pending]
    """Has the shard itself answer a call, as this user."""
    remote: RemoteResources | None
    address: Callable[[], str]
    workers: WorkerPool | None = None


class VirtualWorkspaces:
    """The application below `/services/`: finds the view that a path leads to."""

    def __init__(self, host: Host, workspaces: Sequence[VirtualWorkspace]) -> None:
        self._host = host
        self._workspaces = {workspace.name: workspace for workspace in workspaces}
        self._nowhere = make_view_server(host, Nowhere())

    @property
    def checks(self) -> list[str]:
        """The names of their health checks."""
        return [check for workspace in self._workspaces.values() for check in workspace.checks]

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> Coroutine[Any, Any, bool]:
        server, call = self._understand(exchange)
        return server.identify_caller(call)

    def handle(self, exchange: Exchange) -> Pending:
        server, call = self._understand(exchange)
        return server.serve(call)

    async def hand_over(self, call: Call, path: str, hops: int) -> None:
        visit = self._visit(path)
        if visit is None:
            raise PageNotFound
        inner = Call(call.exchange, _info(call.exchange.request, path, visit))
        inner.hops, inner.is_seated = hops, True
        pending = self._server_of(visit).take_over(inner, call.user)
        if pending is not None:
            await pending
        call.stream = inner.stream

    def _understand(self, exchange: Exchange) -> tuple[ApiServer, Call]:
        """Which view is meant, and what is asked of it."""
        request = exchange.request
        path = escapes.decode(request.path) if "%" in request.path else request.path
        visit = self._visit(path)
        if visit is None:
            info = request_info.RequestInfo(request.method, path, verb=request.method.lower())
            return self._nowhere, Call(exchange, info)
        return self._server_of(visit), Call(exchange, _info(request, path, visit))

    def _visit(self, path: str) -> Visit | None:
        name = service_name(path)
        workspace = self._workspaces.get(name)
        return workspace.visit(path[len(SERVICES) + len(name) :]) if workspace is not None else None

    def _server_of(self, visit: Visit) -> ApiServer:
        return visit.view.served_by(self._make_server)

    def _make_server(self, view: VirtualView) -> ApiServer:
        return make_view_server(self._host, view)


def _info(request: IncomingRequest, path: str, visit: Visit) -> request_info.RequestInfo:
    base = path[: len(path) - len(visit.path)]
    return request_info.understand(
        request.method, visit.path, request.query, cluster=visit.cluster, base=base
    )


def make_view_server(host: Host, view: VirtualView) -> ApiServer:
    authorization = _ViewAuthorization(view, host.authorizer)
    own = OwnParts(_Resolved(), authorization, presence=None)
    if view.forwards:
        return ApiServer(host.shared, own, lambda call: host.forward(call, call.user))
    served = _Served(view)
    dispatcher = Dispatcher(
        served,
        view.paths or ViewPaths(served, host.address, host.workers),
        _ViewVerbs(view, host.verbs),
        authorization,
        None if host.remote is None else _opening(view, host.remote),
    )
    own = replace(own, presence=_ViewPresence(view, host).check)
    return ApiServer(host.shared, own, dispatcher.handle)


class _ViewPresence:
    def __init__(self, view: VirtualView, host: Host) -> None:
        self._view, self._host = view, host

    def check(self, call: Call) -> None:
        if not self._view.exists():
            raise PageNotFound
        # A path that is not a resource is about the view rather than about the cluster.
        if call.info.is_resource:
            self._host.presence(call)
            if not self._view.serves_inactive:
                self._host.in_use(call)


class _ViewVerbs:
    """Handlers of the view's own, the shard's for the rest."""

    def __init__(self, view: VirtualView, verbs: VerbHandlers) -> None:
        self._view, self._verbs = view, verbs

    def find(self, call: Call) -> Handler:
        handler = self._view.handler(call) or self._verbs.find(call)
        return _opening(self._view, handler) if call.info.verb == "watch" else handler


def _opening(view: VirtualView, handler: Handler) -> RemoteResources:
    """Wraps a watch handler so that the view is notified of the started watch."""

    async def handle(call: Call) -> None:
        pending = handler(call)
        if pending is not None:
            await pending
        if call.info.verb == "watch" and call.stream is not None and not call.stream.closed:
            view.opened(call, call.stream)

    return handle


class _Resolved:
    """Virtual workspaces find the cluster in the path themselves."""

    def is_forwarded(self, path: str) -> bool:
        return False

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

    def is_builtin_group(self, cluster: str, group: str) -> bool:
        return False  # what there is not is answered as by the server of custom resources

    def is_loaded(self, cluster: str) -> bool:
        return self._view.is_loaded(cluster)

    async def load(self, cluster: str) -> None:
        await self._view.load(cluster)

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return self._view.definitions(cluster)


class _ViewAuthorization:
    def __init__(self, view: VirtualView, authorizer: Authorizer) -> None:
        self._view = view
        self._impersonation = Impersonation(authorizer)

    def peek(self, call: Call) -> bool:
        is_special = (
            call.has_trusted_user or MASTERS in call.user.groups or self._is_old_plugin(call)
        )
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
        if not call.has_trusted_user and self._impersonation.is_asked(call):
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
        await self.check(call.as_if("create", call.caller or call.user))

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
