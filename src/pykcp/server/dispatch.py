"""The end of the chain: which handler answers a call.

A path (health, discovery, OpenAPI, …) is answered by `paths`, a request for a resource by the
handler of its verb. What depends on the server is given to it: which resources there are,
which handler a verb has, who answers for resources whose objects are in another place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pykcp.apis.protobuf import message_of
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.keys import is_wildcard
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import select
from pykcp.server import routing
from pykcp.server.call import Call, Handler, Pending, check_query, check_timeout
from pykcp.server.filters.authorization import Authorization
from pykcp.server.handlers import create, delete, get, listing, patch, scale, update, watch
from pykcp.server.media.answers import PageNotFound
from pykcp.server.media.negotiation import PROTOBUF, SERVED, TRANSFORMS, WITHOUT_TABLE
from pykcp.server.resources import ServedResources

_VERBS: dict[str, Handler] = {
    "get": get.get,
    "list": listing.list_,
    "watch": watch.watch,
    "create": create.create,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
_SCALE: dict[str, Handler] = {"get": scale.get, "update": scale.put, "patch": scale.patch}
_STREAMED = frozenset(("list", "watch"))
_EXTENSIONS, _DEFINITIONS = "apiextensions.k8s.io", "customresourcedefinitions"
_MAY_CREATE = frozenset(("update", "patch"))


class Paths(Protocol):
    def handle(self, call: Call) -> Pending:
        """Answer a request that is not for a resource."""


class AnsweredVerbs(Protocol):
    """Creates that are answered rather than stored: reviews and tokens."""

    def find(self, call: Call) -> Handler | None: ...

    def find_of_pod(self, call: Call) -> Handler | None: ...

    def find_proxy(self, call: Call) -> Handler | None: ...


class VerbHandlers(Protocol):
    def find(self, call: Call) -> Handler:
        """The handler of a call for a resource whose verb is known to exist."""


RemoteResources = Callable[[Call], Coroutine[Any, Any, None]]
"""Answers calls for resources whose objects are not in this server's store."""


class StoredVerbs:
    """The verbs of the registry, and creates that are answered without it."""

    def __init__(
        self,
        answered: AnsweredVerbs | None = None,
        placed_pods: Callable[[Call], Handler | None] | None = None,
    ) -> None:
        """`placed_pods`: finds the handler of requests for pods that run in clusters behind a
        workspace.
        """
        self._answered, self._placed_pods = answered, placed_pods

    def find(self, call: Call) -> Handler:
        info = call.info
        handler: Handler | None = None
        definition = call.resource.definition
        if definition.is_kubernetes and info.subresource == "proxy":
            handler = self._answered.find_proxy(call) if self._answered is not None else None
        elif definition.is_kubernetes and definition.plural == "pods":
            if self._placed_pods is not None:
                handler = self._placed_pods(call)
            if handler is None and info.subresource and self._answered is not None:
                handler = self._answered.find_of_pod(call)
        elif info.verb == "create":
            handler = self._answered.find(call) if self._answered is not None else None
        elif info.subresource == "scale":
            handler = _SCALE[info.verb]
        return handler or _VERBS[info.verb]


class Dispatcher:
    def __init__(
        self,
        resources: ServedResources,
        paths: Paths,
        verbs: VerbHandlers,
        authorization: Authorization,
        remote: RemoteResources | None = None,
        plain_cluster: str = "",
    ) -> None:
        """`remote`: of virtual resources; None: there are none.

        `plain_cluster`: a logical cluster whose objects are shown as kube-apiserver shows them,
        and whose definitions of Kubernetes' own kinds are not shown.
        """
        self._plain_cluster = plain_cluster
        self._plain_definitions: Resource | None = None
        self._resources, self._paths = resources, paths
        self._verbs, self._remote = verbs, remote
        self._authorization = authorization

    def handle(self, call: Call) -> Pending:
        info = call.info
        if not info.is_resource:
            if info.query:
                check_timeout(call)
            return self._handle_path(call)
        resource = self._resources.find(
            call.cluster, info.group, info.version, info.resource, info.identity
        )
        return self._serve(call, resource) if resource is not None else self._not_found(call)

    def _handle_path(self, call: Call) -> Pending:
        if self._resources.is_loaded(call.cluster):
            return self._paths.handle(call)
        return self._load_then_handle_path(call)

    async def _load_then_handle_path(self, call: Call) -> None:
        """Discovery and OpenAPI need the definitions of a cluster, which take time to load."""
        await self._resources.load(call.cluster)
        pending = self._paths.handle(call)
        if pending is not None:
            await pending

    def _not_found(self, call: Call) -> Pending:
        info = call.info
        if is_wildcard(call.cluster) and not info.identity and info.verb in ("list", "watch"):
            return self._serve_partial(call)
        if not self._resources.is_loaded(call.cluster):
            return self._load_then_refuse(call)
        raise self._no_such_resource(call)

    async def _load_then_refuse(self, call: Call) -> None:
        await self._resources.load(call.cluster)
        raise self._no_such_resource(call)

    def _no_such_resource(self, call: Call) -> StatusError:
        if self._resources.is_builtin_group(call.cluster, call.info.group):
            return NotFound.path()
        return PageNotFound()

    async def _serve_partial(self, call: Call) -> None:
        """A custom resource over all clusters, whose schemas may differ: only its metadata."""
        call.negotiate(SERVED[:2], takes_any=True)
        if not call.accepted.transform.startswith("PartialObjectMetadata"):
            raise NotFound.path()
        info = call.info
        resource = await self._resources.find_partial(info.group, info.version, info.resource)
        if resource is None:
            raise NotFound.path()
        pending = self._serve(call, resource)
        if pending is not None:
            await pending

    def _serve(self, call: Call, resource: Resource) -> Pending:
        info = call.info
        call.is_plain = call.cluster == self._plain_cluster
        if call.is_plain and info.resource == _DEFINITIONS and info.group == _EXTENSIONS:
            resource = self._without_kubernetes(resource)
        call.resource = resource
        if resource.definition.is_virtual and self._remote is not None:
            return self._remote(call)
        if info.query:
            check_query(call)
        is_native = resource.definition.native
        has_no_table = resource.definition.ephemeral or info.subresource == "token"
        call.negotiate(
            SERVED if is_native or _has_protobuf(call, resource) else SERVED[:2],
            takes_any=not is_native,
            transforms=WITHOUT_TABLE if has_no_table else TRANSFORMS,
            has_streams=info.verb in _STREAMED,
        )
        routing.check(call)
        if info.verb in _MAY_CREATE and not info.subresource:
            call.context.authorize_create = lambda: self._authorization.check_create(call)
        if info.query and call.has_long_selectors():
            return self._parse_selectors_first(call)
        return self._verbs.find(call)(call)

    def _without_kubernetes(self, definitions: Resource) -> Resource:
        """Only the definitions that a cluster of Kubernetes would have, too."""
        if self._plain_definitions is None:
            custom = select(f"!{KUBERNETES_KIND}", "", None)
            self._plain_definitions = definitions.viewed(scope=custom)
        return self._plain_definitions

    async def _parse_selectors_first(self, call: Call) -> None:
        await call.parse_selectors()
        pending = self._verbs.find(call)(call)
        if pending is not None:
            await pending


def _has_protobuf(call: Call, resource: Resource) -> bool:
    """Whether the client takes protobuf and a custom kind is one of Kubernetes' own, which has it."""
    if PROTOBUF not in (call.exchange.request.header("accept") or ""):
        return False
    kind = resource.kind
    return (
        resource.definition.list_kind == f"{kind}List"
        and message_of(resource.api_version, kind) is not None
    )
