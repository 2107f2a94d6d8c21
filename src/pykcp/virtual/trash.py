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
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.controllers.tenancy.far_trash import FarTrash, KeptWorkspace
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import MethodNotAllowed, NotFound, ServiceUnavailable
from pykcp.registry.trash import Record
from pykcp.registry.verbs.restore import Trash
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.types import Object
from pykcp.virtual.framework import Parts, VirtualView, Visit
from pykcp.virtual.trash_requests import RestoreRights
from pykcp.virtual.tree import API_VERSION, split_path
from pykcp.wire.exchange import Header


class TrashWorkspace:
    name = "trash"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, trash: Trash, far: FarTrash | None = None) -> None:
        """`far`: other shards, which may keep workspaces of logical clusters that are here."""
        self._lookup = parts.lookup
        self._view = TrashView(parts, trash, far)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", place[1])


class TrashView(VirtualView):
    def __init__(self, parts: Parts, trash: Trash, far: FarTrash | None) -> None:
        self._parts, self._trash, self._far = parts, trash, far
        self._rights = RestoreRights(parts.authorizer)
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        match call.info.path.strip("/").split("/"):
            case ["workspaces", name, "undelete"]:
                decision = await self._may(call, call.cluster, "create")
                if not decision.allowed:
                    return decision
                return await self._may(call, call.cluster, "get", name)
            case _:
                return await self._may(call, call.cluster, "list")

    async def _may(self, call: Call, cluster: str, verb: str, name: str = "") -> Decision:
        return await self._parts.authorizer.authorize(cluster, _attributes(call, verb, name))

    def handle(self, call: Call) -> Coroutine[Any, Any, None]:
        words = call.info.path.strip("/").split("/")
        if self._parts.lookup.logical_cluster(call.cluster) is None:
            raise PageNotFound
        call.negotiate()
        match words:
            case ["workspaces"]:
                _expect(call, "GET")
                return self._list(call)
            case ["workspaces", name, "undelete"]:
                _expect(call, "POST")
                return self._undelete(call, name)
            case _:
                raise PageNotFound

    async def _list(self, call: Call) -> None:
        found, away = await self._find([call.cluster])
        below, also_away = await self._find([one.record.cluster for one in found])
        items = [self._item(one.record, len(_companions(one.record, below))) for one in found]
        missing = sorted({*away, *also_away})
        send_object(call, _listed(items), more=tuple(_warnings(missing)))

    async def _find(self, parents: Sequence[str]) -> tuple[list[KeptWorkspace], list[str]]:
        """What is kept of the workspaces in some logical clusters, the newest first.

        With the names of shards that do not answer.
        """
        found = [KeptWorkspace("", one) for name in parents for one in self._trash.records(name)]
        away: list[str] = []
        if self._far is not None and parents:
            others, away = await self._far.records(parents)
            found += others
        found.sort(key=lambda one: one.record.deleted_at, reverse=True)
        return found, away

    def _item(self, record: Record, children: int) -> Object:
        kind = record.workspace["spec"].get("type") or {}
        ends = meta.parse_rfc3339(record.deleted_at) + self._trash.window
        return {
            "name": record.name,
            "path": record.path,
            "cluster": record.cluster,
            "type": clusters.join(kind.get("path") or "", kind.get("name") or ""),
            "deletedAt": record.deleted_at,
            "expiresAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends)),
            "children": children,
        }

    async def _undelete(self, call: Call, name: str) -> None:
        wanted = call.info.param("cluster")
        found, away = await self._find([call.cluster])
        for kept in found:
            if kept.record.name == name and wanted in ("", kept.record.cluster):
                break
        else:
            if away:
                raise ServiceUnavailable(f"shards do not answer: {', '.join(away)}", retry_after=1)
            raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, name)
        restored: list[Object] = []
        waiting = [kept]
        while waiting:
            kept = waiting.pop()
            below, _ = await self._find([kept.record.cluster])
            children = _companions(kept.record, below)
            await self._restore(call, kept)
            restored.append(self._item(kept.record, len(children)))
            if call.info.is_true("recursive"):
                waiting.extend(reversed(children))
        send_object(call, _listed(restored))

    async def _restore(self, call: Call, kept: KeptWorkspace) -> None:
        """Rights in the parent were asked about before; what lay below has rights of its own."""
        if kept.shard:
            assert self._far is not None
            await self._far.restore(kept, call.user)
            return
        parent = kept.record.parent
        if parent != call.cluster and self._trash.is_here(parent):
            await self._rights.check(call.user, kept.record)
        await self._trash.restore(kept.record, call.user)


def _companions(record: Record, kept: Sequence[KeptWorkspace]) -> list[KeptWorkspace]:
    """The workspaces that were deleted with the one that they were in, one of each name."""
    found: dict[str, KeptWorkspace] = {}
    began = record.workspace["metadata"]["deletionTimestamp"]
    for one in kept:
        is_earlier = one.record.workspace["metadata"]["deletionTimestamp"] < began
        if one.record.parent == record.cluster and not is_earlier:
            found.setdefault(one.record.name, one)
    return list(found.values())


def _warnings(away: Sequence[str]) -> Iterator[Header]:
    """A warning that names the shards whose deleted workspaces are missing."""
    if away:
        names = ", ".join(away)
        yield ("warning", f'299 - "shards do not answer, and what they keep is missing: {names}"')


def _attributes(call: Call, verb: str, name: str = "") -> Attributes:
    group, version, resource = WORKSPACES
    return Attributes(call.user, verb, group=group, resource=resource, version=version, name=name)


def _expect(call: Call, method: str) -> None:
    if call.info.method != method:
        raise MethodNotAllowed("the server does not allow this method on the requested resource")


def _listed(items: list[Object]) -> Object:
    return {"kind": "DeletedWorkspaceList", "apiVersion": API_VERSION, "items": items}
