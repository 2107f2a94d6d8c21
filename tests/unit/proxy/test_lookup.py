"""Lookups of routes while logical clusters move."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from pykcp.clients.where import RouteAnswer, encode
from pykcp.machinery.status import ServiceUnavailable
from pykcp.proxy import lookup
from pykcp.proxy.lookup import RouteLookup, UnknownCluster
from pykcp.proxy.routes import ClusterRoute, RouteTable

NAME = "2ie4yjgm9p1j82rc"


class OneShard:
    """A shard that has a logical cluster; changes overtake its first answers."""

    def __init__(self, table: RouteTable, overtaken: int, *, has_it: bool = True) -> None:
        self._table, self._overtaken, self._has_it = table, overtaken, has_it
        self.asked = 0

    def client(self, name: str) -> Any:
        return SimpleNamespace(http=self, headers=list)

    async def request(self, method: str, target: str, headers: Any) -> Any:
        self.asked += 1
        answer = RouteAnswer("a", self.asked, starts_here=self._has_it, cluster=NAME)
        if self.asked <= self._overtaken:
            self._table.change("a", NAME, "", self.asked + 1)
        body = encode(answer)

        async def read(limit: int) -> bytes:
            return body

        return SimpleNamespace(status=200, read=read)


def find(overtaken: int, *, has_it: bool = True) -> tuple[ClusterRoute, int]:
    table = RouteTable(lambda shard: True)
    shard = OneShard(table, overtaken, has_it=has_it)
    directory: Any = SimpleNamespace(names=lambda: ["a"], name_of=lambda name: name)
    peers: Any = shard
    found = asyncio.run(RouteLookup(table, directory, peers).find(NAME))
    return found, shard.asked


@pytest.mark.parametrize("overtaken", [0, 1, 5])
def test_answers_that_are_overtaken_are_asked_for_again(
    overtaken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_AGAIN", 0.0)
    found, asked = find(overtaken)
    assert (found.shard, found.cluster, asked) == ("a", NAME, overtaken + 1)


def test_a_cluster_that_never_rests_is_not_an_unknown_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_AGAIN", 0.0)
    with pytest.raises(ServiceUnavailable, match="being moved"):
        find(1000)


def test_a_cluster_that_no_shard_has_is_unknown() -> None:
    with pytest.raises(UnknownCluster):
        find(0, has_it=False)


def test_a_request_that_ended_before_its_lookup_failed_leaves_no_error_behind() -> None:
    """As when the proxy stops."""
    noted: list[dict[str, Any]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: noted.append(context))
        table = RouteTable(lambda shard: True)
        shard: Any = OneShard(table, 0, has_it=False)
        directory: Any = SimpleNamespace(names=lambda: ["a", "b"], name_of=lambda name: name)
        request = RouteLookup(table, directory, shard).find(NAME)
        request.send(None)
        request.close()  # nothing waits for the answer any more
        del request
        lookups = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(lookups)
        del lookups
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(run())
    assert noted == []
