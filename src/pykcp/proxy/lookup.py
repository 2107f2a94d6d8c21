"""Finds the shard of a path: in the table of routes, or by asking shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
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

_SECONDS = 2.0
"""For one lookup."""
_PAUSE = 1.0
"""For which a shard that did not answer is not asked again."""
_OVERTAKEN, _AGAIN = 20, 0.05
"""How often shards are asked again when changes have overtaken their answers, and after what pause."""
_MOST_BYTES = 1 << 20
_FAILURES = (StatusError, SendFailed, TimeoutError, msgspec.MsgspecError)


class UnknownCluster(Exception):
    """No shard has it."""


class ShardsAway(ServiceUnavailable):
    """It is not known to the shards that answer; others do not."""

    def __init__(self, shards: Sequence[str]) -> None:
        names = ", ".join(shards)
        super().__init__(f"shards do not answer: {names}", retry_after=1)


class ShardAway(ServiceUnavailable):
    """The shard that has the logical cluster does not answer.

    Without `Retry-After`: clients would repeat writes of which nobody knows whether they were done.
    """

    def __init__(self, shard: str) -> None:
        super().__init__(f"shard {shard} does not answer", code=502)


class RouteLookup:
    def __init__(self, table: RouteTable, shards: ShardDirectory, peers: Peers) -> None:
        self._table, self._shards, self._peers = table, shards, peers
        self._failed: dict[str, float] = {}
        """When shards did not answer, by name."""
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
        answer = asyncio.shield(task)  # other requests wait for the same answer
        answer.add_done_callback(_look_at)
        return await answer

    def _finish(self, path: str, task: asyncio.Task[ClusterRoute]) -> None:
        del self._under_way[path]
        _look_at(task)

    async def _look_up(self, path: str) -> ClusterRoute:
        enough = min(path.count(":"), clusters.MAX_DEPTH) + 2
        for number in range(enough + _OVERTAKEN):
            found = self._table.find(path)
            if isinstance(found, ClusterRoute):
                return found
            if number >= enough:
                await asyncio.sleep(_AGAIN)
            answer = await self._ask(found, path)
            if answer.is_missing:
                raise UnknownCluster
        # Each answer was overtaken by a change: it exists, and is being moved to and fro.
        raise ServiceUnavailable("the logical cluster is being moved", retry_after=1)

    async def _ask(self, question: RouteQuestion, path: str) -> RouteAnswer:
        """Learn the answer of the shard that has the logical cluster at the path's start."""
        shard = self._shards.name_of(question.shard)
        others = [name for name in self._shards.names() if name != shard]
        if shard:
            try:
                answer = await self._ask_shard(shard, question.path)
            except _FAILURES as error:
                return await self._ask_others(others, path, shard, error)
            if answer.starts_here:
                self._table.learn(answer)
                return answer
            self._table.forget_cluster(question.path.partition(":")[0])
        return await self._ask_all(others, question.path)

    async def _ask_others(
        self, others: Sequence[str], path: str, away: str, error: Exception
    ) -> RouteAnswer:
        """The shard that should know does not answer. Others may have what the path leads to."""
        try:
            return await self._ask_all(others, path, (away,))
        except (UnknownCluster, ShardsAway):
            raise ShardsAway([away]) from error

    async def _ask_all(
        self, shards: Sequence[str], path: str, away: Sequence[str] = ()
    ) -> RouteAnswer:
        """Learn the first answer of a shard that has the start of the path.

        One that was found by its canonical path counts if no other shard has the start.
        `away`: shards that did not answer before.
        """
        tasks = {spawn(self._ask_shard(name, path), "route lookup"): name for name in shards}
        waiting, missing = set(tasks), list(away)
        by_path: RouteAnswer | None = None
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.exception() is not None:
                        missing.append(tasks[task])
                        continue
                    answer = task.result()
                    if answer.path:
                        by_path = answer
                    elif answer.starts_here:
                        self._table.learn(answer)
                        return answer
        finally:
            for task in tasks:
                task.cancel()
                task.add_done_callback(_look_at)
        if by_path is not None:
            self._table.learn(by_path, min(missing, default=""))
            return by_path
        if missing or not self._shards.names():
            raise ShardsAway(sorted(missing) or ["no shard is known yet"])
        raise UnknownCluster

    async def _ask_shard(self, name: str, path: str) -> RouteAnswer:
        """Raises one of _FAILURES."""
        if time.monotonic() < self._failed.get(name, 0.0) + _PAUSE:
            raise TimeoutError  # many requests do not all wait for it
        client = self._peers.client(name)
        target = f"{WHERE}?path={quote(path, safe=':')}"
        try:
            async with asyncio.timeout(_SECONDS):
                response = await client.http.request("GET", target, client.headers())
                body = await response.read(_MOST_BYTES)
        except (SendFailed, TimeoutError):
            self._failed[name] = time.monotonic()
            raise
        if response.status != 200:
            raise error_of(response.status, body)
        return decode_answer(body)


def _look_at(done: asyncio.Future[Any]) -> None:
    """An error is raised where the result is awaited, if anywhere: when the proxy stops, no more."""
    if not done.cancelled():
        done.exception()
