"""`/services/copies/clusters/<workspace>/…`: a workspace with everything below it. Not in kcp.

    GET  …/tree                              what there is: logical clusters, exports, a revision
    GET  …/tree?top=true, …/tree?part=true   the same as far as this shard has it, for other shards
    GET  …/rows?cluster=<name>&at=&after=    a page of the content of one of them
    POST …/clone {"source", "name", "shard"} a copy of another workspace in this one; `shard`: of
                                             the source, if it is another one
    POST …/begin {"name", "tree", "isNew"}   restore a saved tree in this workspace …
    POST …/add {"copy", "rows"}              … its content …
    POST …/finish {"copy"}                   … and make it visible

Reading requires all permissions (`*` on `*.*`) in every workspace that is copied. A clone also
requires permission to create workspaces in the parent, and passes admission like a new one.
A saved tree could have been changed by hand and is not checked object by object, so only
administrators of the installation restore one.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from pykcp.auth.authz.attributes import Attributes, Decision, Verdict, forbidden
from pykcp.auth.user import KCP_ADMIN, MASTERS
from pykcp.clients.peers import Peers
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
)
from pykcp.registry.moving.copies import Copies
from pykcp.registry.moving.records import TravellingRow
from pykcp.registry.moving.trees import CopiedTree, tree_from
from pykcp.server.call import Call, integer
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.server.media.bodies import body_of, parse
from pykcp.types import Object
from pykcp.virtual.framework import DENIED, Parts, VirtualView, Visit
from pykcp.virtual.moving.spread import SpreadTrees
from pykcp.virtual.tree import API_VERSION, split_path

_READS = ("/tree", "/rows")
_RESTORES = ("/begin", "/add", "/finish")
_MAX_CLONE = 64 * 1024
"""Bytes of a request that any user may send: it has two names."""


class CopiesWorkspace:
    name = "copies"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts, copies: Copies, peers: Peers | None) -> None:
        self._lookup = parts.lookup
        self._view = CopiesView(parts, copies, peers)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # Where there is none, strangers shall not learn it here.
        return Visit(self._view, self._lookup.cluster_of(place[0]) or "system:nowhere", place[1])


class CopiesView(VirtualView):
    def __init__(self, parts: Parts, copies: Copies, peers: Peers | None) -> None:
        self._parts, self._copies = parts, copies
        self._trees = SpreadTrees(copies.reader, peers)
        self.paths = self

    async def authorize(self, call: Call) -> Decision:
        if call.info.path in _RESTORES:
            return Decision(Verdict.ALLOW) if KCP_ADMIN in call.user.groups else DENIED
        if call.info.path in _READS:
            return await self._may_all(call, call.cluster)
        group, version, resource = WORKSPACES
        question = Attributes(call.user, "create", group=group, resource=resource, version=version)
        return await self._parts.authorizer.authorize(call.cluster, question)

    async def _may_all(self, call: Call, cluster: str) -> Decision:
        return await self._parts.authorizer.authorize(cluster, _everything(call))

    async def _check_tree(self, call: Call, tree: CopiedTree) -> None:
        """Those below have rights of their own; other shards have checked theirs."""
        if MASTERS in call.user.groups:
            return
        for cluster in tree.clusters:
            if cluster in tree.shards:
                continue
            decision = await self._may_all(call, cluster)
            if not decision.allowed:
                raise forbidden(_everything(call), decision.reason)

    def handle(self, call: Call) -> Coroutine[Any, Any, None]:
        if self._parts.lookup.logical_cluster(call.cluster) is None:
            raise PageNotFound
        path = call.info.path
        if path not in (*_READS, *_RESTORES, "/clone"):
            raise PageNotFound
        if call.info.method != ("GET" if path in _READS else "POST"):
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        if path == "/clone" and len(call.exchange.request.body) > _MAX_CLONE:
            raise RequestEntityTooLarge(
                f"Request entity too large: limit is {_MAX_CLONE}", details=False
            )
        body = {} if path in _READS else parse(body_of(call), "Copy")
        if not isinstance(body, dict):
            raise BadRequest("the body must be an object")
        call.negotiate()
        return self._send(call, path, body)

    async def _send(self, call: Call, path: str, body: Object) -> None:
        answers = {
            "/tree": self._tree,
            "/rows": self._rows,
            "/clone": self._clone,
            "/begin": self._begin,
            "/add": self._add,
            "/finish": self._finish,
        }
        send_object(call, await answers[path](call, body))

    async def _tree(self, call: Call, body: Object) -> Object:
        is_top, is_part = call.info.param("top") == "true", call.info.param("part") == "true"
        if is_top or is_part:
            part = await self._copies.reader.part(call.cluster, is_top=is_top)
            tree, found = part.tree, part.to_json()
        else:
            tree = await self._trees.tree(call.cluster, call.user)
            found = tree.to_json()
        await self._check_tree(call, tree)
        return {"kind": "WorkspaceCopy", "apiVersion": API_VERSION, **found}

    async def _rows(self, call: Call, body: Object) -> Object:
        cluster = call.info.param("cluster") or call.cluster
        if not self._copies.reader.is_below(cluster, call.cluster):
            raise NotFound.resource("core.kcp.io", "logicalclusters", cluster)
        decision = await self._may_all(call, cluster)
        if MASTERS not in call.user.groups and not decision.allowed:
            raise forbidden(_everything(call), decision.reason)
        at = integer(call, "at")
        rows, after = await self._copies.reader.rows(cluster, call.info.param("after"), at)
        return {"rows": [list(row) for row in rows], "next": after}

    async def _clone(self, call: Call, body: Object) -> Object:
        source, shard = await self._source(call, body)
        tree = await self._trees.tree(source, call.user, shard)
        if not shard:
            await self._check_tree(call, tree)
        read = partial(self._read, call, tree, shard)
        made = await self._copies.clone(tree, read, call.cluster, _text(body, "name"), call.user)
        return _summary(made, len(tree.clusters))

    async def _source(self, call: Call, body: Object) -> tuple[str, str]:
        """The logical cluster to copy, and the shard that has it; "" is this one."""
        given = _text(body, "source")
        source = self._parts.lookup.cluster_of(given)
        if source is None or not self._copies.reader.has(source):
            shard = _text(body, "shard")
            if not shard or not clusters.is_name(given):
                raise NotFound.resource(WORKSPACES.group, WORKSPACES.resource, given)
            return given, shard  # that shard decides whether the user may read it
        decision = await self._may_all(call, source)
        if MASTERS not in call.user.groups and not decision.allowed:
            raise forbidden(_everything(call), decision.reason)
        return source, ""

    async def _read(
        self, call: Call, tree: CopiedTree, shard: str, cluster: str, after: str
    ) -> tuple[list[TravellingRow], str]:
        return await self._trees.rows(tree, shard, cluster, after, call.user)

    async def _begin(self, call: Call, body: Object) -> Object:
        tree = tree_from(body.get("tree"))
        is_new = body.get("isNew") is True
        here = await self._trees.installation(self._parts.lookup.canonical_path(call.cluster))
        copy = await self._copies.begin(
            tree,
            call.cluster,
            _text(body, "name"),
            call.user,
            is_new=is_new,
            is_foreign=here != tree.installation,
        )
        return {"copy": copy}

    async def _add(self, call: Call, body: Object) -> Object:
        try:
            rows = [TravellingRow(*row) for row in body.get("rows") or ()]
        except TypeError as error:
            raise BadRequest(f"rows: {error}") from error
        return {"objects": await self._copies.add(_text(body, "copy"), rows)}

    async def _finish(self, call: Call, body: Object) -> Object:
        return _summary(await self._copies.finish(_text(body, "copy"), call.user), 0)


def _everything(call: Call) -> Attributes:
    return Attributes(call.user, "*", group="*", resource="*", version="*")


def _summary(workspace: Object, count: int) -> Object:
    return {
        "kind": "WorkspaceCopy",
        "apiVersion": API_VERSION,
        "name": workspace["metadata"]["name"],
        "cluster": workspace["spec"]["cluster"],
        "URL": workspace["spec"].get("URL"),
        "workspaces": count,
    }


def _text(body: Object, part: str) -> str:
    value = body.get(part) or ""
    if not isinstance(value, str):
        raise BadRequest(f"{part} must be a string")
    return value
