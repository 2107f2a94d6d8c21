"""`/services/trash/clusters/<parent>/workspaces`: deleted workspaces, and restoring them.

Not in kcp, and only served if deleted workspaces are kept. Listing requires `list` on the
workspaces of the parent, restoring requires `create` and `get`. A workspace is restored only if
it could be created now: its type must exist, be usable by the user and allowed in the parent,
and the parent's limits and quotas must have room for it.

    GET  …/workspaces
    POST …/workspaces/<name>/undelete[?recursive=true][&cluster=<logical cluster>]
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterator
from typing import Any

from pykcp.auth.authz.attributes import Attributes, Decision, forbidden
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import MethodNotAllowed, NotFound
from pykcp.registry.trash import Record
from pykcp.registry.verbs.restore import Trash
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.types import Object
from pykcp.virtual.framework import Parts, VirtualView, Visit
from pykcp.virtual.tree import API_VERSION, split_path


class TrashWorkspace:
    name = "trash"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, trash: Trash) -> None:
        self._lookup = parts.lookup
        self._view = TrashView(parts, trash)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", place[1])


class TrashView(VirtualView):
    def __init__(self, parts: Parts, trash: Trash) -> None:
        self._parts, self._trash = parts, trash
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        match call.info.path.strip("/").split("/"):
            case ["workspaces", name, "undelete"]:
                return await self._may_restore(call, call.cluster, name)
            case _:
                return await self._may(call, call.cluster, "list")

    async def _may_restore(self, call: Call, cluster: str, name: str) -> Decision:
        """Whether the user may create and see a workspace of this name in a logical cluster."""
        decision = await self._may(call, cluster, "create")
        return await self._may(call, cluster, "get", name) if decision.allowed else decision

    async def _may(self, call: Call, cluster: str, verb: str, name: str = "") -> Decision:
        return await self._parts.authorizer.authorize(cluster, _attributes(call, verb, name))

    def handle(self, call: Call) -> Coroutine[Any, Any, None] | None:
        words = call.info.path.strip("/").split("/")
        if self._parts.lookup.logical_cluster(call.cluster) is None:
            raise PageNotFound
        call.negotiate()
        match words:
            case ["workspaces"]:
                _expect(call, "GET")
                send_object(call, self._listed(call.cluster))
            case ["workspaces", name, "undelete"]:
                _expect(call, "POST")
                return self._undelete(call, name)
            case _:
                raise PageNotFound
        return None

    def _listed(self, parent: str) -> Object:
        return _list([self._item(record) for record in self._trash.records(parent)])

    def _item(self, record: Record) -> Object:
        kind = record.workspace["spec"].get("type") or {}
        ends = meta.parse_rfc3339(record.deleted_at) + self._trash.window
        return {
            "name": record.name,
            "path": record.path,
            "cluster": record.cluster,
            "type": clusters.join(kind.get("path") or "", kind.get("name") or ""),
            "deletedAt": record.deleted_at,
            "expiresAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends)),
            "children": len(list(self._companions(record))),
        }

    def _companions(self, record: Record) -> Iterator[Record]:
        """The workspaces that were deleted with the one that they were in, one of each name."""
        seen: set[str] = set()
        began = record.workspace["metadata"]["deletionTimestamp"]
        for child in self._trash.records(record.cluster):
            is_earlier = child.workspace["metadata"]["deletionTimestamp"] < began
            if not is_earlier and child.name not in seen:
                seen.add(child.name)
                yield child

    async def _undelete(self, call: Call, name: str) -> None:
        wanted = call.info.param("cluster")
        for record in self._trash.records(call.cluster):
            if record.name == name and wanted in ("", record.cluster):
                break
        else:
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, name)
        restored: list[Object] = []
        waiting = [record]
        while waiting:
            record = waiting.pop()
            children = list(self._companions(record)) if call.info.is_true("recursive") else []
            item = self._item(record)
            if record.parent != call.cluster:
                await self._check_rights(call, record)
            await self._trash.restore(record, call.user)
            restored.append(item)
            waiting.extend(reversed(children))
        send_object(call, _list(restored))

    async def _check_rights(self, call: Call, record: Record) -> None:
        """Those in the parent were asked about before; what lay below has rights of its own."""
        decision = await self._may_restore(call, record.parent, record.name)
        if not decision.allowed:
            raise forbidden(_attributes(call, "create", record.name), decision.reason)


def _attributes(call: Call, verb: str, name: str = "") -> Attributes:
    group, version, resource = WORKSPACES
    return Attributes(call.user, verb, group=group, resource=resource, version=version, name=name)


def _expect(call: Call, method: str) -> None:
    if call.info.method != method:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _list(items: list[Object]) -> Object:
    return {"kind": "DeletedWorkspaceList", "apiVersion": API_VERSION, "items": items}
