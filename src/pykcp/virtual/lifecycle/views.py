"""What `initializingworkspaces` and `terminatingworkspaces` have in common.

Each shows a controller the logical clusters that wait for it, in three views: all of them
(`/clusters/*`, to list and watch), one of them (to take itself off its status), and what is
in it, as far as its workspace type permits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.auth.user import MASTERS, User
from pykcp.caching import BoundedCache
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACE_TYPES
from pykcp.machinery.status import Invalid, go_quote, invalid
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import Admission, AdmissionRequest
from pykcp.registry.watch.selection import Selection
from pykcp.server.call import Call
from pykcp.server.filters.authorization import attributes_of
from pykcp.server.media.answers import PlainError
from pykcp.server.request_info import understand
from pykcp.types import Object
from pykcp.virtual.framework import (
    DENIED,
    AccessUndecided,
    FixedView,
    Parts,
    VirtualView,
    Visit,
    restricted,
    split_clusters,
    split_head,
)
from pykcp.virtual.lifecycle.permissions import Permissions, compiled

_KEEP = 256
_KEEP_RULES = 1 << 18
"""Rules of all workspace types, and the values in them."""
_PRIVILEGED = User("system:apiserver", groups=(MASTERS,))
_STATUS_VERBS = ("get", "patch", "update")


KnownPermissions = BoundedCache[tuple[str, str, str], Permissions]
"""By UID and resource version of workspace types, and the field that has the rules."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """One end of a workspace's life."""

    role: str
    """`initializer` or `terminator`."""
    verb: str
    """What a controller must be allowed on its workspace type."""
    group: str
    """Prefix of the group that its requests carry into a workspace."""
    error_group: str
    """The API group that refusals name."""
    scope: Callable[[str], Selection]
    """The logical clusters that wait for a controller."""
    is_open: Callable[[Object], bool]
    """Whether a logical cluster is at this end of its life."""
    discovers_itself: bool
    """Whether discovery in one cluster shows the view rather than the workspace."""

    @property
    def field(self) -> str:
        return f"{self.role}s"

    @property
    def permissions(self) -> str:
        return f"{self.role}Permissions"


class LifecycleWorkspace:
    def __init__(self, name: str, lifecycle: Lifecycle, parts: Parts) -> None:
        self.name = name
        self.checks = tuple(
            f"{name}-{part}"
            for part in ("wildcard-logicalclusters", "logicalclusters", "workspace-content")
        )
        self._lifecycle = lifecycle
        self._parts = parts
        self._views: BoundedCache[str, tuple[VirtualView, VirtualView, VirtualView]] = BoundedCache(
            name, _KEEP
        )
        self._permissions: KnownPermissions = BoundedCache(
            f"{name}-permissions", _KEEP_RULES, cost=lambda known: known.size
        )

    def visit(self, path: str) -> Visit | None:
        head = split_head(path, 1)
        place = split_clusters(head[1]) if head is not None else None
        if head is None or place is None:
            return None
        everywhere, one, content = self._views_of(head[0])
        cluster, rest = place
        if cluster == WILDCARD:
            return Visit(everywhere, cluster, rest)
        return Visit(one if self._is_own(rest) else content, cluster, rest)

    def _views_of(self, controller: str) -> tuple[VirtualView, VirtualView, VirtualView]:
        views = self._views.get(controller)
        if views is None:
            party = _Party(controller, self._lifecycle, self._parts, self._permissions)
            views = AllClusters(party), OneCluster(party), Content(party)
            self._views.put(controller, views)
        return views

    def _is_own(self, path: str) -> bool:
        info = understand("GET", path, "")
        if info.is_resource:
            return (info.group, info.resource) == (
                LOGICAL_CLUSTERS.group,
                LOGICAL_CLUSTERS.resource,
            )
        return self._lifecycle.discovers_itself and path not in ("/", "/healthz")


class _Party:
    """One controller, and what it may do."""

    def __init__(
        self, name: str, lifecycle: Lifecycle, parts: Parts, permissions: KnownPermissions
    ) -> None:
        """`permissions`: of all controllers."""
        self.name, self.lifecycle, self.parts = name, lifecycle, parts
        self.permissions = permissions
        self.type_path, self._colon, self._type = name.rpartition(":")

    async def authorize(self, call: Call) -> Decision:
        if not self._colon:
            raise AccessUndecided("access not permitted")
        cluster = self.parts.lookup.cluster_of(self.type_path)
        if cluster is None:
            return DENIED
        question = Attributes(
            call.user,
            self.lifecycle.verb,
            group=WORKSPACE_TYPES.group,
            resource=WORKSPACE_TYPES.resource,
            name=self._type[:1].lower() + self._type[1:],
            version=WORKSPACE_TYPES.version,
        )
        return await self.parts.authorizer.authorize(cluster, question)

    def workspace_type(self) -> Object | None:
        """None if there is none behind this controller, but kcp itself."""
        if self.type_path == "system":
            return None
        found = self.parts.lookup.find(WORKSPACE_TYPES, self.type_path, self._type)
        if found is None:
            raise LookupError(f'workspacetypes.tenancy.kcp.io "{self._type}" not found')
        return found

    def resource(self) -> Resource:
        return self.parts.directory.builtin(*LOGICAL_CLUSTERS)

    def scope(self) -> Selection:
        return self.lifecycle.scope(self.name)


class AllClusters(FixedView):
    """Every logical cluster that waits for this controller."""

    def __init__(self, party: _Party) -> None:
        resource = party.resource()
        # kcp names the status here, but nothing can be done with it.
        shown = restricted(resource.definition, ("get", "list", "watch"), {"status": ()})
        super().__init__({LOGICAL_CLUSTERS: resource.viewed(definition=shown, scope=party.scope())})
        self._party = party

    async def authorize(self, call: Call) -> Decision:
        return await self._party.authorize(call)


class OneCluster(FixedView):
    """One logical cluster, from whose status the controller takes itself off."""

    def __init__(self, party: _Party) -> None:
        resource = party.resource()
        shown = restricted(resource.definition, ("get",), {"status": _STATUS_VERBS})
        gate = _OnlyItself(party, resource.services.admission)
        view = resource.viewed(definition=shown, scope=party.scope(), admission=gate)
        super().__init__({LOGICAL_CLUSTERS: view})
        self._party = party

    async def authorize(self, call: Call) -> Decision:
        return await self._party.authorize(call)

    async def enter(self, call: Call) -> None:
        call.user = _PRIVILEGED  # the controller has no rights of its own in there


class _OnlyItself:
    """Admission in front of the ordinary one: of the list, only the own entry may go."""

    def __init__(self, party: _Party, then: Admission) -> None:
        self._party = party
        self._then = then

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.obj is not None and request.old is not None:
            self._check(request.name, request.old, request.obj)
        await self._then.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        await self._then.validate(request)

    def _check(self, name: str, old: Object, new: Object) -> None:
        lifecycle, own = self._party.lifecycle, self._party.name
        before, after = ((o.get("status") or {}).get(lifecycle.field) or [] for o in (old, new))
        if not is_own_removal(before, after, own):
            text = f"only removing the {go_quote(own)} {lifecycle.role} is supported"
            raise Invalid.fields(
                lifecycle.error_group,
                "LogicalCluster",
                name,
                [invalid(f"status.{lifecycle.field}", after, text)],
            )


def is_own_removal(before: list[str], after: list[str], own: str) -> bool:
    """Whether nothing changed, or exactly the own entry is gone."""
    return after == before or (own in before and after == [n for n in before if n != own])


class Content(VirtualView):
    """What is in the workspace, while it waits for the controller."""

    forwards = True

    def __init__(self, party: _Party) -> None:
        self._party = party

    async def authorize(self, call: Call) -> Decision:
        return await self._party.authorize(call)

    async def enter(self, call: Call) -> None:
        party, lifecycle = self._party, self._party.lifecycle
        # One that is gone cannot be entered either: with kcp it takes its time, here it does not.
        cluster = self._party.parts.lookup.logical_cluster(call.cluster) or {}
        who = f"{lifecycle.role} {go_quote(party.name)}"
        waiting = (cluster.get("status") or {}).get(lifecycle.field) or ()
        if not cluster or not lifecycle.is_open(cluster) or party.name not in waiting:
            raise PlainError(f"{who} cannot access this workspace", code=403)
        try:
            workspace_type = party.workspace_type()
        except LookupError as error:
            raise PlainError(
                f"{who}: WorkspaceType not found in local or cached indexer; "
                f"refusing to fall back to owner impersonation: {error.args[0]}",
                code=503,
            ) from error
        spec = (workspace_type or {}).get("spec") or {}
        rules = spec.get(lifecycle.permissions)
        if rules:
            permissions = await self._permissions(workspace_type or {}, rules)
            problem = permissions.denial(attributes_of(call))
            if problem is not None:
                raise PlainError(f"{who} denied by {lifecycle.permissions}: {problem}", code=403)
            groups = (lifecycle.group + party.name, *call.user.groups)
            call.user = User(call.user.name, call.user.uid, groups, call.user.extra)
        else:
            call.user = self._creator(call, cluster)

    async def _permissions(self, workspace_type: Object, rules: list[Object]) -> Permissions:
        """The rules of a workspace type, compiled once for each of its versions."""
        metadata, field = workspace_type["metadata"], self._party.lifecycle.permissions
        key = (metadata["uid"], metadata.get("resourceVersion") or "", field)
        known = self._party.permissions.get(key)
        if known is None:
            known = await in_slices(compiled(rules))
            self._party.permissions.put(key, known)
        return known

    def _creator(self, call: Call, cluster: Object) -> User:
        creator = (cluster.get("spec") or {}).get("createdBy")
        if not creator:
            raise PlainError(
                f"LogicalCluster {call.cluster}|cluster had no createdBy recorded", code=500
            )
        extra = {key: tuple(values) for key, values in (creator.get("extra") or {}).items()}
        return User(
            creator.get("username") or "",
            creator.get("uid") or "",
            tuple(creator.get("groups") or ()),
            extra,
        )
