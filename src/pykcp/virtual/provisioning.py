"""`/services/provisioning`: what shards ask of each other about workspaces.

    POST …/clusters   provision the logical cluster of a Workspace of another shard
    POST …/reports    a logical cluster on another shard has changed: its Workspace follows
    POST …/protected  the workspaces below some paths that are protected from deletion
    POST …/shards     the shards of the workspaces below some paths
    POST …/trash/…    deleted workspaces (`trash_requests`)

Only other shards have access: system:masters, and administrators of logical clusters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pykcp.auth.authz.attributes import Decision, Verdict
from pykcp.auth.user import LOGICAL_CLUSTER_ADMIN
from pykcp.controllers.tenancy.hosting import ClusterReport, HostedClusters
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import BadRequest, MethodNotAllowed
from pykcp.server.call import Call, Pending
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.server.media.bodies import body_of, parse
from pykcp.types import Object
from pykcp.virtual.framework import DENIED, VirtualView, Visit
from pykcp.virtual.trash_requests import TrashRequests

_KIND = "Provisioning"
_TRASH = "/trash/"


class WorkspacesBelow(NamedTuple):
    """What is known here of the workspaces below some paths."""

    protected: Callable[[list[str]], list[str]]
    """The paths of those that are protected from deletion."""
    shards: Callable[[list[str]], Awaitable[list[str]]]
    """The shards that they are on."""


class ProvisioningWorkspace:
    name = "provisioning"
    checks: tuple[str, ...] = ()

    def __init__(
        self, hosted: HostedClusters, below: WorkspacesBelow, trash: TrashRequests
    ) -> None:
        self._view = ProvisioningView(hosted, below, trash)

    def visit(self, path: str) -> Visit | None:
        return Visit(self._view, clusters.SYSTEM_SHARD, path)


class ProvisioningView(VirtualView):
    def __init__(
        self, hosted: HostedClusters, below: WorkspacesBelow, trash: TrashRequests
    ) -> None:
        self._hosted, self._below, self._trash = hosted, below, trash
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        return Decision(Verdict.ALLOW) if LOGICAL_CLUSTER_ADMIN in call.user.groups else DENIED

    def handle(self, call: Call) -> Pending:
        action = {
            "/clusters": self._provision,
            "/reports": self._report,
            "/protected": self._list_protected,
            "/shards": self._list_shards,
        }.get(call.info.path)
        if action is None and call.info.path.startswith(_TRASH):
            action = self._about_trash
        if action is None:
            raise PageNotFound
        if call.info.method != "POST":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        body = parse(body_of(call), _KIND)
        if not isinstance(body, dict):
            raise BadRequest("the body must be an object")
        call.negotiate()
        return action(call, body)

    async def _provision(self, call: Call, body: Object) -> None:
        workspace = _mapping(body, "workspace")
        names = {part: _text(body, part) for part in ("cluster", "path", "shard")}
        if not meta.uid(workspace) or not clusters.is_name(names["cluster"]):
            raise BadRequest("workspace must have a uid, and cluster must be a name")
        send_object(call, await self._hosted.provision(workspace, **names), 201)

    async def _report(self, call: Call, body: Object) -> None:
        found = body.get("logicalCluster")
        if found is not None and not isinstance(found, dict):
            raise BadRequest("logicalCluster must be an object")
        report = ClusterReport(
            _text(body, "shard"),
            _text(body, "parent"),
            _text(body, "name"),
            _text(body, "uid"),
            _text(body, "cluster"),
            found,
        )
        send_object(call, {"known": await self._hosted.report(report)})

    async def _list_protected(self, call: Call, body: Object) -> None:
        send_object(call, {"protected": self._below.protected(_paths(body))})

    async def _about_trash(self, call: Call, body: Object) -> None:
        action = call.info.path.removeprefix(_TRASH)
        send_object(call, await self._trash.answer(action, body))

    async def _list_shards(self, call: Call, body: Object) -> None:
        send_object(call, {"shards": await self._below.shards(_paths(body))})


def _paths(body: Object) -> list[str]:
    paths = body.get("paths")
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise BadRequest("paths must be a list of strings")
    return paths


def _text(body: Object, part: str) -> str:
    value = body.get(part)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{part} must be a string")
    return value


def _mapping(body: Object, part: str) -> dict[str, Any]:
    value = body.get(part)
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        raise BadRequest(f"{part} must be an object")
    return value
