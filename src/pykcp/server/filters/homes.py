"""Home workspaces: `workspaces/~` in root is the user's own, created when it is first requested.

A home has no Workspace object: its LogicalCluster, named by the user's name, is all there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

from pykcp.admission.plugins.kcp.workspace import owner_text
from pykcp.apis.kcp import workspace_types as types
from pykcp.apis.kcp.logical_clusters import OWNER_ANNOTATION, PATH_ANNOTATION, TYPE_ANNOTATION
from pykcp.auth.authz.attributes import Attributes, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import User
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    LOGICAL_CLUSTERS,
    WORKSPACE_TYPES,
    WORKSPACES,
)
from pykcp.machinery.status import AlreadyExists, InternalError
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.stored import Event, StoreReader
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.filters.authorization import CallAuthorization
from pykcp.server.media.answers import PlainError, send_object
from pykcp.types import Object

HOME = "~"
HOME_TYPE = types.TypeReference(clusters.ROOT, "home")
_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_RBAC = CLUSTER_ROLE_BINDINGS.group
_INITIALIZATION_WAIT = 0.9
"""Seconds for which the first request waits for its home; clients come back after one."""
TIMEOUT = 60.0


def is_home(call: Call) -> bool:
    info = call.info
    return (
        info.name == HOME
        and info.verb == "get"
        and info.resource == WORKSPACES.resource
        and info.group == WORKSPACES.group
        and call.cluster == clusters.ROOT
    )


class HomeComing(PlainError):
    """The home is being made; clients ask again by themselves."""

    code = 429

    def __init__(self) -> None:
        super().__init__("Creating the home workspace", retry_after=1)


class HomeWorkspaces:
    def __init__(
        self,
        store: StoreReader,
        client: LocalClient,
        lookup: ObjectLookup,
        authorizer: Authorizer,
        authorization: CallAuthorization,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._client, self._lookup = store, client, lookup
        self._authorizer, self._authorization = authorizer, authorization
        self._clock = clock

    def around(self, inner: Handler) -> Handler:
        def serve_homes(call: Call) -> Pending:
            # The name is compared first: this is asked of every request.
            if call.info.name == HOME and is_home(call):
                return self.serve(call)
            return inner(call)

        return serve_homes

    async def serve(self, call: Call) -> None:
        """Answer with the user's home; make it if need be."""
        await self._authorization.impersonate(call)
        user = call.user
        cluster = home_cluster_name(user.name)
        home = await self._home(cluster)
        if home is None:
            await self._check_create(user)
            home = await self._create(user, cluster)
        if _phase(home) == "Scheduling":
            home = await self._begin(user, cluster)
        if _phase(home) == "Initializing":
            home = await self._arrival(cluster, home)
        call.negotiate()
        send_object(call, _workspace(home))

    async def _home(self, cluster: str) -> Object | None:
        return await self._client.get(cluster, LOGICAL_CLUSTERS, "cluster")

    async def _check_create(self, user: User) -> None:
        attributes = Attributes(
            user, "create", group=WORKSPACES.group, resource=WORKSPACES.resource, name=HOME
        )
        decision = await self._authorizer.authorize(clusters.ROOT, attributes)
        if not decision.allowed:
            raise forbidden(attributes, "workspace access not permitted")

    async def _create(self, user: User, cluster: str) -> Object:
        try:
            return await self._client.create(
                cluster, LOGICAL_CLUSTERS, _logical_cluster(user, self._initializers())
            )
        except AlreadyExists:  # by another request of the same user
            home = await self._home(cluster)
            if home is None:
                raise HomeComing from None
            return home

    def _initializers(self) -> list[str]:
        def find(path: str, name: str) -> Object | None:
            return self._lookup.find(WORKSPACE_TYPES, path, name)

        try:
            found = types.resolve(clusters.ROOT, HOME_TYPE, find)
            return types.initializers(types.transitive(found, find))
        except types.BadType as error:
            raise InternalError(str(error)) from error

    async def _begin(self, user: User, cluster: str) -> Object:
        """Give the user all rights there, then let the initializers work."""
        with contextlib.suppress(AlreadyExists):  # a request before this one came so far
            await self._client.create(cluster, CLUSTER_ROLE_BINDINGS, _admin_binding(user))

        def initialize(obj: Object) -> None:
            if _phase(obj) == "Scheduling":
                obj["status"] = {**(obj.get("status") or {}), "phase": "Initializing"}

        return await self._client.change(
            cluster, LOGICAL_CLUSTERS, "cluster", initialize, subresource="status"
        )

    async def _arrival(self, cluster: str, home: Object) -> Object:
        """The home once it is initialized, if that does not take long."""
        if self._clock() - meta.parse_rfc3339(meta.creation_timestamp(home)) > TIMEOUT:
            raise InternalError("home workspace creation timeout")
        try:
            async with asyncio.timeout(_INITIALIZATION_WAIT):
                return await self._initialized(cluster)
        except TimeoutError:
            raise HomeComing from None

    async def _initialized(self, cluster: str) -> Object:
        key = object_key(_PREFIX, cluster, "", "cluster")
        changed = asyncio.Event()

        def follow(events: Sequence[Event]) -> None:
            if any(event.key == key for event in events):
                changed.set()

        unlisten = self._store.listen(follow)
        try:
            while True:
                home = await self._home(cluster)
                if home is None:
                    raise HomeComing
                if _phase(home) != "Initializing":
                    return home
                await changed.wait()
                changed.clear()
        finally:
            unlisten()


def _phase(obj: Object) -> str:
    return (obj.get("status") or {}).get("phase") or "Scheduling"


def _logical_cluster(user: User, initializers: list[str]) -> Object:
    spec: Object = {"createdBy": user.to_json()}
    if initializers:
        spec["initializers"] = initializers
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {
            "name": "cluster",
            "annotations": {
                OWNER_ANNOTATION: owner_text(user),
                TYPE_ANNOTATION: str(HOME_TYPE),
                PATH_ANNOTATION: f"user:{user.name}",
            },
        },
        "spec": spec,
    }


def _admin_binding(user: User) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "workspace-admin"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user.name}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
    }


def _workspace(home: Object) -> Object:
    """A Workspace that stands for the home."""
    status = home.get("status") or {}
    shown = {key: status[key] for key in ("phase", "conditions", "initializers") if status.get(key)}
    spec = {"cluster": meta.cluster(home), "URL": status.get("URL")}
    return {
        "kind": "Workspace",
        "apiVersion": f"{WORKSPACES.group}/{WORKSPACES.version}",
        "metadata": {
            "name": meta.name(home),
            "creationTimestamp": meta.creation_timestamp(home),
        },
        "spec": {key: value for key, value in spec.items() if value},
        "status": shown,
    }
