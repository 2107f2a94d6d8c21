"""`/services/merged/tree/clusters/<path>`: the tree of workspaces below one, over all shards.

A shard knows the workspaces below a logical cluster as far as they are on it. What is below a
workspace on another shard is asked of that one, as the same user.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

import orjson

from pykcp.clients.errors import SendFailed
from pykcp.machinery.status import BadRequest, Denied, Forbidden, RequestEntityTooLarge
from pykcp.proxy.lookup import ShardsAway, UnknownCluster
from pykcp.proxy.merged import MergedCollections, MergedRequest
from pykcp.proxy.routes import ClusterRoute
from pykcp.server.media.answers import JSON_HEADERS
from pykcp.types import Object

TREE = "/services/tree/clusters/"
_PAGE = 500
_MOST_ITEMS = 100_000
_MOST_BYTES = 64 << 20
_UNSUPPORTED = ("limit", "continue", "phase", "labelSelector")

FindRoute = Callable[[str], Awaitable[ClusterRoute]]
"""Raises UnknownCluster."""


class MergedTree:
    def __init__(self, collections: MergedCollections, find_route: FindRoute) -> None:
        self._collections, self._find_route = collections, find_route

    async def serve(self, asked: MergedRequest) -> None:
        """Raises the error to answer, UnknownCluster among them."""
        for name in _UNSUPPORTED:
            if asked.asked.get(name):
                raise BadRequest(f"{name} is not supported over several shards")
        depth = asked.asked.get("depth") or "0"
        if not depth.isascii() or not depth.isdigit() or len(depth) > 9:
            raise BadRequest("depth must not be negative")
        route = await self._find_route(asked.path[len(TREE) :].strip("/"))
        walk = _TreeWalk(self._collections, self._find_route, asked._replace(query=[]))
        items = await walk.below(route, int(depth))
        asked.call.exchange.respond(200, JSON_HEADERS, orjson.dumps({**walk.head, "items": items}))


class _TreeWalk:
    def __init__(
        self, collections: MergedCollections, find_route: FindRoute, asked: MergedRequest
    ) -> None:
        self._collections, self._find_route, self._asked = collections, find_route, asked
        self.head: Object = {}
        """Of the first answer: kind, path and cluster of the top."""
        self._paths: dict[str, str] = {}
        """Canonical paths of the logical clusters that were asked for."""
        self._count = 0

    async def below(self, top: ClusterRoute, depth: int) -> list[Object]:
        """All workspaces below a logical cluster, parents first; `depth` 0: however deep."""
        found: list[Object] = []
        for item in await self._of_shard(top, depth):
            found.append(item)
            if "children" in item or not item.get("cluster") or item.get("mount"):
                continue
            level = item["path"].count(":") - self._paths[top.cluster].count(":")
            if depth and level >= depth:
                continue
            found += await self._on_another_shard(item, top.shard, depth - level if depth else 0)
        return found

    async def _on_another_shard(self, item: Object, shard: str, depth: int) -> list[Object]:
        """What is below a workspace of which its parent's shard says nothing."""
        try:
            route = await self._find_route(item["cluster"])
            if not route.shard or route.shard == shard:
                return []  # the user may not know
            found = await self.below(route, depth)
        except (UnknownCluster, Forbidden, Denied):
            return []
        level = item["path"].count(":") + 1
        item["children"] = sum(one["path"].count(":") == level for one in found)
        return found

    async def _of_shard(self, top: ClusterRoute, depth: int) -> list[Object]:
        items: list[Object] = []
        path, token = f"{TREE}{quote(top.cluster, safe=':')}", ""
        while True:
            asked = self._asked._replace(path=path)
            more = {"limit": _PAGE, "continue": token, "depth": depth or ""}
            try:
                response = await self._collections.open(top.shard, asked, **more)
                page = orjson.loads(await response.read(_MOST_BYTES))
            except (SendFailed, orjson.JSONDecodeError) as error:
                raise ShardsAway([top.shard]) from error
            items += page["items"]
            self._count += len(page.pop("items"))
            token = page["metadata"].pop("continue", "")
            self.head = self.head or page
            self._paths[top.cluster] = page["path"]
            if self._count > _MOST_ITEMS:
                raise RequestEntityTooLarge("the tree has too many workspaces")
            if not token:
                return items
