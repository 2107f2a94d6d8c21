"""Clusters are read once for all requests that need them."""

from __future__ import annotations

import asyncio
import contextlib

from pykcp.auth.authz.role_cache import ClusterRules, RoleCache


class Store:
    """Reads when it is told to."""

    def __init__(self) -> None:
        self.reads = self.under_way = self.most = 0
        self.error: Exception | None = None
        self.may_go_on = asyncio.Event()

    async def load(self, cluster: str) -> ClusterRules:
        self.reads += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.may_go_on.wait()
        finally:
            self.under_way -= 1
        if self.error is not None:
            raise self.error
        return ClusterRules(logical_cluster={"metadata": {"name": "cluster"}})


async def _waiting(cache: RoleCache, count: int) -> list[asyncio.Future[object]]:
    tasks: list[asyncio.Future[object]] = [
        asyncio.ensure_future(cache.load("a")) for _ in range(count)
    ]
    await asyncio.sleep(0)
    return tasks


async def test_requests_share_one_read() -> None:
    store = Store()
    cache = RoleCache(store.load)
    tasks = await _waiting(cache, 5)
    store.may_go_on.set()
    states = await asyncio.gather(*tasks)
    assert store.reads == 1
    assert all(state is cache.get("a") for state in states)


async def test_a_change_ends_the_sharing() -> None:
    """Requests that come after it read anew; what was read before it is not kept."""
    store = Store()
    cache = RoleCache(store.load)
    early = await _waiting(cache, 2)
    cache.invalidate("a", "roles")
    late = await _waiting(cache, 2)
    store.may_go_on.set()
    first, second = await asyncio.gather(*early)
    third, fourth = await asyncio.gather(*late)
    assert store.reads == 2
    assert first is second
    assert third is fourth is cache.get("a")
    assert first is not third


async def test_a_cluster_that_changes_all_the_time_is_read_once_at_a_time() -> None:
    store = Store()
    cache = RoleCache(store.load)
    tasks: list[asyncio.Future[object]] = []
    for _ in range(5):
        tasks += await _waiting(cache, 3)
        cache.invalidate("a", "roles")
    last = await _waiting(cache, 3)
    store.may_go_on.set()
    states = await asyncio.gather(*tasks, *last)
    assert store.most == 1
    assert store.reads == 2
    assert set(states[3:]) == {cache.get("a")}


async def test_a_read_that_fails_is_tried_by_the_next() -> None:
    store = Store()
    cache = RoleCache(store.load)
    leader, *others = await _waiting(cache, 3)
    leader.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await leader
    store.may_go_on.set()
    states = await asyncio.gather(*others)
    assert store.reads == 2
    assert states[0] is states[1] is cache.get("a")


async def test_errors_reach_every_request() -> None:
    store = Store()
    store.error = OSError("no")
    cache = RoleCache(store.load)
    tasks = await _waiting(cache, 3)
    store.may_go_on.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in found] == [OSError] * 3
    assert cache.get("a") is None
