"""Seats that tenants share."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.clients.shares import Shares, TooManyWaiting


def keys(cluster: str, user: str = "", host: str = "") -> list[str]:
    return [f"cluster {cluster}", f"user {user or cluster}", f"host {host or cluster}"]


async def take_all(shares: Shares, *wanted: list[str]) -> list[asyncio.Task[None]]:
    """Everybody asks; whoever gets a seat keeps it."""
    tasks = [asyncio.create_task(shares.take(each)) for each in wanted]
    await asyncio.sleep(0)
    return tasks


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("greedy", [1, 3, 15])
async def test_the_next_one_always_finds_a_seat(greedy: int) -> None:
    shares = Shares(64)
    tasks = await take_all(shares, *(keys(f"greedy{n % greedy}") for n in range(64 * greedy)))
    held = [sum(t.done() for t in tasks[n::greedy]) for n in range(greedy)]
    assert min(held) >= 64 // (greedy + 1)
    assert max(held) <= 64 // (greedy + 1) + 1
    (innocent,) = await take_all(shares, keys("innocent"))
    assert innocent.done()
    await cancel(tasks)


async def test_a_user_with_many_clusters_has_one_share() -> None:
    shares = Shares(64)
    tasks = await take_all(shares, *(keys(f"c{n}", "mallory", f"h{n}") for n in range(64)))
    assert sum(t.done() for t in tasks) == 32
    tasks += await take_all(shares, *(keys(f"c{n}", f"u{n}", "one-host") for n in range(64)))
    assert sum(t.done() for t in tasks[64:]) == 16
    await cancel(tasks)


async def test_waiting_is_fair_by_tenant() -> None:
    shares = Shares(1)
    await shares.take(keys("holder"))
    order: list[str] = []

    async def work(name: str) -> None:
        await shares.take(keys(name))
        order.append(name)
        shares.release(keys(name))

    tasks = [asyncio.create_task(work(name)) for name in ("a", "a", "a", "b", "c")]
    await asyncio.sleep(0)
    assert shares.waiting == 5
    shares.release(keys("holder"))
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "a", "a"]
    assert (shares.taken, shares.waiting) == (0, 0)


async def test_a_tenant_does_not_wait_for_its_other_destination() -> None:
    shares = Shares(8)
    hanging = await take_all(shares, *(keys(f"c{n}", host="hangs") for n in range(8)))
    assert sum(t.done() for t in hanging) == 4
    waiting = next(n for n, task in enumerate(hanging) if not task.done())
    (other,) = await take_all(shares, keys(f"c{waiting}", host="answers"))
    assert other.done()
    await cancel(hanging)


async def test_whoever_gives_up_leaves_nothing_behind() -> None:
    shares = Shares(1)
    await shares.take(keys("holder"))
    (first, second) = await take_all(shares, keys("a"), keys("b"))
    first.cancel()
    shares.release(keys("holder"))  # in the same turn of the loop
    await asyncio.wait_for(second, 5)
    assert first.cancelled()
    shares.release(keys("b"))
    assert (shares.taken, shares.waiting) == (0, 0)
    await shares.take(keys("holder"))
    (third,) = await take_all(shares, keys("c"))
    shares.release(keys("holder"))  # seated, and cancelled before it notices
    third.cancel()
    await asyncio.gather(third, return_exceptions=True)
    assert (shares.taken, shares.waiting) == (0, 0)


async def test_queues_are_bounded() -> None:
    shares = Shares(1, waiting=4)
    await shares.take(keys("holder"))
    tasks = await take_all(shares, keys("a"), keys("a"), keys("a"), keys("b"), keys("c"), keys("d"))
    refused = [t.done() and isinstance(t.exception(), TooManyWaiting) for t in tasks]
    assert refused == [False, False, True, False, False, True]
    await cancel(tasks)
