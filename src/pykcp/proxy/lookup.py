"""Finds the shard of a path: in the table of routes, or by asking shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from pykcp.aio.owner import spawn
from pykcp.clients.errors import SendFailed
from pykcp.clients.peers import Peers
from pykcp.clients.remote.errors import error_of
from pykcp.clients.where import WHERE, RouteAnswer, decode_answer
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import ServiceUnavailable, StatusError
from pykcp.proxy.routes import ClusterRoute, RouteQuestion, RouteTable
from pykcp.proxy.shards import ShardDirectory

_SECONDS = 5.0
"""For one lookup."""
_MOST_BYTES = 1 << 20


class UnknownCluster(Exception):
    """No shard has it."""


class ShardsAway(ServiceUnavailable):
    """It is not known to the shards that answer; others do not."""

    def __init__(self, shards: Sequence[str]) -> None:
        names = ", ".join(shards)
        super().__init__(f"shards do not answer: {names}", retry_after=1)


class RouteLookup:
    def __init__(self, table: RouteTable, shards: ShardDirectory, peers: Peers) -> None:
        self._table, self._shards, self._peers = table, shards, peers
        self._under_way: dict[str, asyncio.Task[ClusterRoute]] = {}

    async def find(self, path: str) -> ClusterRoute:
        """Where a valid path leads. Raises UnknownCluster, ShardsAway."""
        found = self._table.find(path)
        if isinstance(found, ClusterRoute):
            return found
        task = self._under_way.get(path)
        if task is None:
            task = self._under_way[path] = spawn(self._look_up(path), "route lookup")
            task.add_done_callback(lambda done: self._finish(path, done))
        return await asyncio.shield(task)  # other requests wait for the same answer

    def _finish(self, path: str, task: asyncio.Task[ClusterRoute]) -> None:
        del self._under_way[path]
        if not task.cancelled():
            task.exception()  # it was raised where it is awaited, if anywhere

    async def _look_up(self, path: str) -> ClusterRoute:
        for _ in range(min(path.count(":"), clusters.MAX_DEPTH) + 2):
            found = self._table.find(path)
            if isinstance(found, ClusterRoute):
                return found
            answer = await self._ask(found)
            self._table.learn(answer)
            if answer.is_missing:
                break
        raise UnknownCluster

    async def _ask(self, question: RouteQuestion) -> RouteAnswer:
        """The answer of the shard that has the logical cluster at the path's start."""
        shard = self._shards.name_of(question.shard)
        if shard:
            try:
                answer = await self._ask_shard(shard, question.path)
            except (StatusError, SendFailed, TimeoutError, msgspec.MsgspecError) as error:
                raise ShardsAway([shard]) from error
            if answer.starts_here:
                return answer
            self._table.forget_cluster(question.path.partition(":")[0])
        return await self._ask_all([n for n in self._shards.names() if n != shard], question.path)

    async def _ask_all(self, shards: Sequence[str], path: str) -> RouteAnswer:
        tasks = {spawn(self._ask_shard(name, path), "route lookup"): name for name in shards}
        waiting, away = set(tasks), []
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.exception() is not None:
                        away.append(tasks[task])
                    elif task.result().starts_here:
                        return task.result()
        finally:
            for task in waiting:
                task.cancel()
        if away or (not shards and not self._shards.names()):
            raise ShardsAway(sorted(away) or ["no shard is known yet"])
        raise UnknownCluster

    async def _ask_shard(self, name: str, path: str) -> RouteAnswer:
        """Raises StatusError, SendFailed, TimeoutError."""
        client = self._peers.client(name)
        target = f"{WHERE}?path={quote(path, safe=':')}"
        async with asyncio.timeout(_SECONDS):
            response = await client.http.request("GET", target, client.headers())
            body = await response.read(_MOST_BYTES)
        if response.status != 200:
            raise error_of(response.status, body)
        return decode_answer(body)
