"""The handler chain of one API server, in the order a request meets it.

    cluster      which logical cluster the path means            (kcp's local proxy)
    authn        who asks; remembered per connection             401
    audit        what is recorded of it; around all the rest     500
    impersonate  as whom                                         403
    authz        whether they may                                403
    flow         when: what must wait has a seat, or queues      429
    route        a path (health, discovery, OpenAPI, …) or a verb on a resource

A request whose user is known and whose answer needs no waiting (every GET of an
object) goes through in one synchronous call; the rest becomes a coroutine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import Authenticated
from pykcp.auth.user import UNAUTHENTICATED, User
from pykcp.machinery.status import (
    BadRequest,
    Denied,
    InternalError,
    NotFound,
    StatusError,
    Unauthorized,
)
from pykcp.registry.errors import translate
from pykcp.registry.keys import is_wildcard
from pykcp.registry.resource import Resource
from pykcp.server import constant_time as patience
from pykcp.server import request_info, routing
from pykcp.server.call import Call, check_query
from pykcp.server.clusters import HiddenDenial
from pykcp.server.filters.flow_control import FlowControl
from pykcp.server.filters.homes import HOME, is_home
from pykcp.server.handlers import create, delete, get, listing, patch, scale, update, watch
from pykcp.server.media.answers import PageNotFound, send_status
from pykcp.server.media.negotiation import SERVED
from pykcp.server.metrics import RequestMetrics
from pykcp.server.served import ServedResources
from pykcp.storage.errors import StoreError
from pykcp.wire.exchange import Exchange, IncomingRequest

if TYPE_CHECKING:
    from pykcp.server.filters.audit import AuditFilter

_log = logging.getLogger(__name__)

Handler = Callable[[Call], Coroutine[Any, Any, None] | None]

VERBS: dict[str, Handler] = {
    "get": get.get,
    "list": listing.list_,
    "watch": watch.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}


_MAY_CREATE = frozenset(("update", "patch"))
_SCALE: dict[str, Handler] = {"get": scale.get, "update": scale.put, "patch": scale.patch}


class ClusterPresence(Protocol):
    """Whether a logical cluster exists at all."""

    def __call__(self, call: Call) -> None:
        """Raises Forbidden if the call's cluster does not exist and the call does not create it."""


class Authorization(Protocol):
    """Who may do what: `CallAuthorization`, or a virtual workspace's own."""

    def peek(self, call: Call) -> bool:
        """True: go on. False: call `check`. Raises Forbidden when the refusal is known."""

    async def check(self, call: Call) -> None: ...

    async def check_create(self, call: Call) -> None:
        """Whether the user may also create what an update or a patch finds missing."""


class Clusters(Protocol):
    def resolve(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """Set the call's cluster; refuse paths that lead nowhere.

        A coroutine answers the call: what is asked for is not here.
        """


class HomeWorkspaces(Protocol):
    async def serve(self, call: Call) -> None:
        """Answer who asks for their home. It is up to this who may."""


class Paths(Protocol):
    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """Answer what is not a resource."""


class AnsweredVerbs(Protocol):
    """Creates that are answered rather than stored: reviews and tokens."""

    def find(self, call: Call) -> Handler | None: ...


Elsewhere = Callable[[Call], Coroutine[Any, Any, None]]
"""Has a request served by whoever holds the objects of its resource."""


class CommonParts(TypedDict):
    """What the servers of one process share, whatever they serve."""

    authentication: Authentication
    presence: ClusterPresence
    answered: AnsweredVerbs
    metrics: RequestMetrics
    flow: FlowControl | None
    audit: AuditFilter | None
    elsewhere: Elsewhere | None


class ApiServer:
    def __init__(
        self,
        *,
        authentication: Authentication,
        authorization: Authorization,
        presence: ClusterPresence,
        clusters: Clusters,
        directory: ServedResources,
        paths: Paths,
        answered: AnsweredVerbs,
        metrics: RequestMetrics,
        flow: FlowControl | None = None,
        audit: AuditFilter | None = None,
        homes: HomeWorkspaces | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._presence = presence
        self._clusters = clusters
        self._directory = directory
        self._paths = paths
        self._answered = answered
        self._metrics = metrics
        self._flow = flow
        self._meter = None if flow is None else flow.meter
        self._audit = audit
        self._homes = homes
        self.elsewhere = elsewhere
        """Of resources whose objects are not here; None: there are none."""

    def common(self) -> CommonParts:
        """For another server of the same process."""
        return CommonParts(
            authentication=self._authentication,
            presence=self._presence,
            answered=self._answered,
            metrics=self._metrics,
            flow=self._flow,
            audit=self._audit,
            elsewhere=self.elsewhere,
        )

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return False

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        if self._authentication.peek(exchange.request) is not None:
            return True
        request = exchange.request
        try:
            info = request_info.parse(request.method, request.path, request.query)
        except StatusError:
            return False  # refused whatever its body
        return self.identify_caller(Call(exchange, info))

    async def identify_caller(self, call: Call) -> bool:
        """Whether somebody sent this who has signed in, or may do without."""
        try:
            elsewhere = self._clusters.resolve(call)
            if elsewhere is not None:
                elsewhere.close()
                return True  # it is up to them
            found = await self._sign_in(call)
            call.user = found.user
            if UNAUTHENTICATED in found.user.groups:
                await self._authorization.check(call)
        except (StatusError, HiddenDenial):
            return False
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        started = time.perf_counter()
        request = exchange.request
        info = request_info.parse(request.method, request.path, request.query)
        return self.take(Call(exchange, info, started))

    def take(self, call: Call) -> Coroutine[Any, Any, None] | None:
        """Serve a request that is understood already."""
        if self._audit is None:
            pending = self._serve(call)
        else:
            pending = self._audit.attend(call, self._serve)
        return pending if self._meter is None else self._meter.measure(call, pending)

    async def take_over(self, call: Call, user: User) -> None:
        """Go on with a call of another server, which vouches for its user."""
        call.user, call.is_vouched = user, True
        try:
            elsewhere = self._clusters.resolve(call)
        except HiddenDenial as withheld:
            await withheld.check(call)
            raise withheld.refusal from None
        if elsewhere is not None:
            await elsewhere
        elif self._authorization.peek(call):
            pending = self._route(call)
            if pending is not None:
                await pending
        else:
            await self._authorize(call)

    def _serve(self, call: Call) -> Coroutine[Any, Any, None] | None:
        try:
            user = self._authentication.peek(call.exchange.request)
            if user is None and self._is_kept_waiting(call):
                return self._finish(call, self._serve_stranger(call))
            elsewhere = self._clusters.resolve(call)
            if elsewhere is not None:
                return self._finish(call, elsewhere)
            if user is None:
                return self._finish(call, self._authenticate(call))
            pending = self._admit(call, user)
        except HiddenDenial as withheld:
            return self._finish(call, self._reveal(call, withheld))
        except (Denied, Unauthorized) as error:
            return self._deny(call, error)
        except StatusError as error:
            self._refuse(call, error)
            return None
        except StoreError as error:  # a read that did not have to wait
            self._refuse(call, translate(error))
            return None
        if pending is not None:
            return self._finish(call, pending)
        self._metrics.observe(call)
        return None

    def _is_kept_waiting(self, call: Call) -> bool:
        """Whether too much was done already for callers from there who are not signed in."""
        if self._meter is None or self._meter.admits_stranger(call):
            return False
        return not self._authentication.is_cheap(call.exchange.request)

    async def _serve_stranger(self, call: Call) -> None:
        """Serve a call from an indebted address: nothing is done for it before it is its turn."""
        assert self._flow is not None
        await self._flow.wait_for_others(call)
        try:
            elsewhere = self._clusters.resolve(call)
        except HiddenDenial as withheld:
            await self._reveal(call, withheld)
        else:
            await (elsewhere or self._authenticate(call))

    async def _sign_in(self, call: Call) -> Authenticated:
        pending = self._authentication.authenticate(
            call.exchange.request, call.cluster, call.info.path
        )
        return await (pending if self._flow is None else self._flow.sign_in(call, pending))

    async def _authenticate(self, call: Call) -> None:
        found = await self._sign_in(call)
        for text in found.warnings:
            call.context.warn(text)
        pending = self._admit(call, found.user)
        if pending is not None:
            await pending

    async def _reveal(self, call: Call, withheld: HiddenDenial) -> None:
        """Refuse a call for what is not there or not in use, once it is known who asks."""
        found = await self._sign_in(call)
        call.user = found.user
        if call.audit is not None:
            waiting = call.audit.received()
            if waiting is not None:
                await waiting
        await withheld.check(call)
        raise withheld.refusal

    def _admit(self, call: Call, user: User) -> Coroutine[Any, Any, None] | None:
        """Everything behind authentication; what must wait is returned as a coroutine."""
        call.user = user
        if call.audit is not None:
            waiting = call.audit.received()
            if waiting is not None:
                return self._admit_later(call, waiting)
        if self._meter is None or self._meter.admits(call, user):
            return self._enter(call)
        return self._hold(call)

    def _enter(self, call: Call) -> Coroutine[Any, Any, None] | None:
        if call.info.name == HOME and self._homes is not None and is_home(call):
            return self._homes.serve(call)
        if self._authorization.peek(call):
            return self._route(call)
        return self._authorize(call)

    async def _admit_later(self, call: Call, waiting: Coroutine[Any, Any, None]) -> None:
        await waiting
        if self._meter is not None and not self._meter.admits(call, call.user):
            await self._hold(call)
            return
        pending = self._enter(call)
        if pending is not None:
            await pending

    async def _hold(self, call: Call) -> None:
        """Go on with a call of the indebted when it is its turn."""
        assert self._flow is not None
        await self._flow.wait_for_others(call)
        pending = self._enter(call)
        if pending is not None:
            await pending

    async def _authorize(self, call: Call) -> None:
        await self._authorization.check(call)
        pending = self._route(call)
        if pending is not None:
            await pending

    def _route(self, call: Call) -> Coroutine[Any, Any, None] | None:
        call.is_authorized = True
        self._check_presence(call)
        if call.info.is_resource:
            pending = self._resource(call)
        elif self._directory.is_loaded(call.cluster):
            pending = self._paths.handle(call)
        else:
            pending = self._handle_path_later(call)
        if pending is None or self._flow is None or call.is_seated:
            return pending
        return self._flow.govern(call, pending)

    def check_cluster(self, call: Call) -> None:
        """Refuse what may not be asked of a logical cluster by this name: it may be inactive."""
        try:
            self._clusters.resolve(call)
        except HiddenDenial as withheld:
            raise withheld.refusal from withheld

    def _check_presence(self, call: Call) -> None:
        self._presence(call)

    def _resource(self, call: Call) -> Coroutine[Any, Any, None] | None:
        info = call.info
        resource = self._directory.find(
            call.cluster, info.group, info.version, info.resource, info.identity
        )
        if resource is not None:
            return self._serve_resource(call, resource)
        if is_wildcard(call.cluster) and not info.identity and info.verb in ("list", "watch"):
            return self._serve_partial(call)
        if not self._directory.is_loaded(call.cluster):
            return self._not_served(call)
        raise self._no_such_resource(call)

    async def _not_served(self, call: Call) -> None:
        await self._directory.load(call.cluster)
        raise self._no_such_resource(call)

    def _no_such_resource(self, call: Call) -> StatusError:
        if self._directory.is_custom_group(call.cluster, call.info.group):
            return PageNotFound()
        return NotFound.path()

    async def _handle_path_later(self, call: Call) -> None:
        """Paths may tell what a cluster serves, which takes a while to find out."""
        await self._directory.load(call.cluster)
        pending = self._paths.handle(call)
        if pending is not None:
            await pending

    async def _serve_partial(self, call: Call) -> None:
        """A custom resource over all clusters, whose schemas may differ: only its metadata."""
        call.negotiate(SERVED[:2], takes_any=True)
        if not call.accepted.transform.startswith("PartialObjectMetadata"):
            raise NotFound.path()
        info = call.info
        resource = await self._directory.find_partial(info.group, info.version, info.resource)
        if resource is None:
            raise NotFound.path()
        pending = self._serve_resource(call, resource)
        if pending is not None:
            await pending

    def _serve_resource(self, call: Call, resource: Resource) -> Coroutine[Any, Any, None] | None:
        info = call.info
        call.resource = resource
        if resource.definition.is_virtual and self.elsewhere is not None:
            return self.elsewhere(call)
        if info.query:
            check_query(call)
        is_native = resource.definition.native
        call.negotiate(SERVED if is_native else SERVED[:2], takes_any=not is_native)
        routing.check(call)
        if info.verb in _MAY_CREATE and not info.subresource:
            call.context.authorize_create = lambda: self._authorization.check_create(call)
        if info.query and call.has_long_selectors():
            return self._parse_first(call)
        return self._handler(call)(call)

    async def _parse_first(self, call: Call) -> None:
        await call.parse_selectors()
        pending = self._handler(call)(call)
        if pending is not None:
            await pending

    def _handler(self, call: Call) -> Handler:
        info = call.info
        handler: Handler | None = None
        if info.verb == "create":
            handler = self._answered.find(call)
        elif info.subresource == "scale":
            handler = _SCALE[info.verb]
        return handler or VERBS[info.verb]

    async def _finish(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        try:
            await pending
        except (Denied, Unauthorized) as error:
            await self._deny(call, error)
        except StatusError as error:
            self._refuse(call, error)
        except StoreError as error:
            self._refuse(call, translate(error))
        except RecursionError:
            _log.exception("%s %s is nested too deeply", call.info.method, call.info.path)
            self._refuse(call, BadRequest("exceeded max depth"))
        except Exception as error:  # the last line of defence: nobody sees a traceback
            _log.exception("%s %s failed", call.info.method, call.info.path)
            if call.audit is not None:
                call.audit.panicked(error)
            self._refuse(call, InternalError(f"unexpected error: {type(error).__name__}"))
        else:
            self._metrics.observe(call)
        finally:
            call.release()

    async def _deny(self, call: Call, error: StatusError) -> None:
        await patience.wait(call.started)
        self._refuse(call, error)

    def _refuse(self, call: Call, error: StatusError) -> None:
        if call.exchange.responded:
            _log.warning(
                "%s %s failed after its answer began: %s", call.info.method, call.info.path, error
            )
            return
        send_status(call, error)
        self._metrics.observe(call, error.code)
