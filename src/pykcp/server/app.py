"""The handler chain of one API server, in the order a request meets it.

    cluster      which logical cluster the path means            (kcp's local proxy)
    authn        who asks; remembered per connection             401
    impersonate  as whom                                         403
    authz        whether they may                                403
    route        a path (health, discovery, OpenAPI, …) or a verb on a resource

A request whose user is known and whose answer needs no waiting (every GET of an
object) goes through in one synchronous call; the rest becomes a coroutine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.user import User
from pykcp.machinery.status import InternalError, MethodNotAllowed, NotFound, StatusError
from pykcp.registry.directory import Directory
from pykcp.registry.keys import WILDCARD
from pykcp.registry.resource import Resource
from pykcp.server import request_info
from pykcp.server.answers import send_status
from pykcp.server.authorization import CallAuthorization
from pykcp.server.call import Call, check_timeout
from pykcp.server.clusters import ClusterResolver
from pykcp.server.handlers import create, delete, get, listing, patch, update, watch
from pykcp.server.metrics import RequestMetrics
from pykcp.server.negotiation import SERVED
from pykcp.server.paths import PathHandlers
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Exchange, Request

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


class ClusterPresence(Protocol):
    """Whether a logical cluster exists at all."""

    def __call__(self, call: Call) -> None:
        """Raises Forbidden if the call's cluster does not exist and the call does not create it."""


class Subresources(Protocol):
    """Creates that are answered rather than stored: reviews and tokens."""

    def find(self, call: Call) -> Handler | None: ...


class ApiServer:
    def __init__(
        self,
        *,
        authentication: Authentication,
        authorization: CallAuthorization,
        presence: ClusterPresence,
        clusters: ClusterResolver,
        directory: Directory,
        paths: PathHandlers,
        subresources: Subresources,
        metrics: RequestMetrics,
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._presence = presence
        self._clusters = clusters
        self._directory = directory
        self._paths = paths
        self._subresources = subresources
        self._metrics = metrics

    def wants_streaming(self, request: Request) -> bool:
        return False

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        call = Call(exchange, request_info.parse(request.method, request.path, request.query))
        try:
            self._clusters.resolve(call)
            user = self._authentication.peek(request)
            if user is None:
                return self._finish(call, self._authenticate(call))
            pending = self._admit(call, user)
        except StatusError as error:
            self._refuse(call, error)
            return None
        if pending is not None:
            return self._finish(call, pending)
        self._metrics.observe(call)
        return None

    async def _authenticate(self, call: Call) -> None:
        found = await self._authentication.authenticate(
            call.exchange.request, call.cluster, call.info.path
        )
        for text in found.warnings:
            call.context.warn(text)
        pending = self._admit(call, found.user)
        if pending is not None:
            await pending

    def _admit(self, call: Call, user: User) -> Coroutine[Any, Any, None] | None:
        """Everything behind authentication; what must wait is returned as a coroutine."""
        call.user = user
        if self._authorization.peek(call):
            return self._route(call)
        return self._authorize(call)

    async def _authorize(self, call: Call) -> None:
        await self._authorization.check(call)
        pending = self._route(call)
        if pending is not None:
            await pending

    def _route(self, call: Call) -> Coroutine[Any, Any, None] | None:
        self._presence(call)
        if not call.info.is_resource:
            return self._paths.handle(call)
        return self._resource(call)

    def _resource(self, call: Call) -> Coroutine[Any, Any, None] | None:
        info = call.info
        resource = self._directory.find(
            call.cluster, info.group, info.version, info.resource, info.identity
        )
        if resource is None or (info.in_namespace and not resource.namespaced):
            raise NotFound.path()
        call.resource = resource
        if info.query:
            check_timeout(call)
        call.negotiate(SERVED if resource.definition.native else SERVED[:2])
        if call.cluster == WILDCARD and info.verb not in ("list", "watch"):
            raise MethodNotAllowed(
                f'{info.verb} is not supported on resources of kind "{info.resource}" in the `*` logical cluster',
                group=info.group,
                kind=info.resource,
            )
        if len(info.parts) > 3 or _is_misplaced(info, resource):
            raise NotFound.path()
        handler = self._subresources.find(call) if info.verb == "create" else None
        if handler is None:
            handler = VERBS.get(info.verb)
            _check_supported(call, handler)
            assert handler is not None
        return handler(call)

    async def _finish(self, call: Call, pending: Coroutine[Any, Any, None]) -> None:
        try:
            await pending
        except StatusError as error:
            self._refuse(call, error)
        except Exception as error:  # the last line of defence: nobody sees a traceback
            _log.exception("%s %s failed", call.info.method, call.info.path)
            self._refuse(call, InternalError(f"unexpected error: {type(error).__name__}"))
        else:
            self._metrics.observe(call)

    def _refuse(self, call: Call, error: StatusError) -> None:
        if call.exchange.responded:
            _log.warning(
                "%s %s failed after its answer began: %s", call.info.method, call.info.path, error
            )
            return
        send_status(call, error)
        self._metrics.observe(call, error.code)


def _check_supported(call: Call, handler: Handler | None) -> None:
    """405 for a verb that the resource does not have, as the server's router would say it."""
    info, resource = call.info, call.resource
    verbs = resource.definition.verbs
    if info.subresource:
        verbs = _subresource_verbs(resource, info.subresource)
        if not verbs:
            raise NotFound.path()
    if handler is None or info.verb not in verbs or not _fits_place(info, resource):
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _is_misplaced(info: RequestInfo, resource: Resource) -> bool:
    """A namespaced object without its namespace, or the other way round."""
    if not resource.namespaced or info.namespace:
        return False
    return len(info.parts) > 1


def _fits_place(info: RequestInfo, resource: Resource) -> bool:
    """Whether the method is meant for an item or a collection, as the path is one."""
    is_item = len(info.parts) > 1
    if info.method == "HEAD":
        return False
    if info.method == "POST":
        return bool(info.subresource) or (not is_item and _in_scope(info, resource))
    if info.method in ("PUT", "PATCH"):
        return is_item
    if info.method == "DELETE":
        return is_item or _in_scope(info, resource)
    return True


def _in_scope(info: RequestInfo, resource: Resource) -> bool:
    return bool(info.namespace) or not resource.namespaced


def _subresource_verbs(resource: Resource, name: str) -> tuple[str, ...]:
    for subresource in resource.definition.subresources_of(resource.version):
        if subresource.name == name:
            return subresource.verbs
    return ()
