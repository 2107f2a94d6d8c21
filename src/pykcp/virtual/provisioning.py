"""`/services/provisioning`: what shards ask of each other about workspaces.

    POST …/clusters   provision the logical cluster of a Workspace of another shard
    POST …/reports    a logical cluster on another shard has changed: its Workspace follows
    POST …/protected  the workspaces below some paths that are protected from deletion

Only other shards have access: system:masters, and administrators of logical clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

_KIND = "Provisioning"

ProtectedBelow = Callable[[list[str]], list[str]]
"""The paths of protected workspaces in those with these paths."""


class ProvisioningWorkspace:
    name = "provisioning"
    checks: tuple[str, ...] = ()

    def __init__(self, hosted: HostedClusters, protected_below: ProtectedBelow) -> None:
        self._view = ProvisioningView(hosted, protected_below)

    def visit(self, path: str) -> Visit | None:
        return Visit(self._view, clusters.SYSTEM_SHARD, path)


class ProvisioningView(VirtualView):
    def __init__(self, hosted: HostedClusters, protected_below: ProtectedBelow) -> None:
        self._hosted, self._protected_below = hosted, protected_below
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        return Decision(Verdict.ALLOW) if LOGICAL_CLUSTER_ADMIN in call.user.groups else DENIED

    def handle(self, call: Call) -> Pending:
        action = {
            "/clusters": self._provision,
            "/reports": self._report,
            "/protected": self._list_protected,
        }.get(call.info.path)
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
        paths = body.get("paths")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise BadRequest("paths must be a list of strings")
        send_object(call, {"protected": self._protected_below(paths)})


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
