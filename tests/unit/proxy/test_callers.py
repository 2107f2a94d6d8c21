"""Seats of callers: a caller waits for itself only."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.proxy.callers import CallerSeats
from pykcp.server.filters.flow_control import TooBusy


async def test_a_caller_waits_for_its_own_requests_in_their_order() -> None:
    seats = CallerSeats(most=2, most_waiting=2)
    assert seats.take(("greedy", ""))
    assert seats.take(("greedy", ""))
    assert not seats.take(("greedy", ""))
    assert seats.take(("other", ""))
    assert seats.take(("greedy", "another shard"))
    seats.release(("greedy", "another shard"))
    order: list[int] = []

    async def wait(number: int) -> None:
        await seats.wait(("greedy", ""))
        order.append(number)

    tasks = [asyncio.create_task(wait(n)) for n in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await seats.wait(("greedy", ""))
    assert order == []
    seats.release(("greedy", ""))
    seats.release(("greedy", ""))
    await asyncio.gather(*tasks)
    assert order == [0, 1]
    for caller in ("greedy", "greedy", "other"):
        seats.release((caller, ""))
    assert seats.is_idle


@pytest.mark.parametrize("is_seated", [False, True], ids=["waiting", "just seated"])
async def test_who_gives_up_leaves_no_seat_behind(is_seated: bool) -> None:
    seats = CallerSeats(most=1, most_waiting=4)
    await seats.wait(("one", ""))
    waiting = asyncio.create_task(seats.wait(("one", "")))
    await asyncio.sleep(0)
    if is_seated:
        seats.release(("one", ""))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    if not is_seated:
        seats.release(("one", ""))
    assert seats.is_idle


async def test_a_seat_is_held_for_as_long_as_it_is_needed() -> None:
    seats = CallerSeats(most=1, most_waiting=4)
    async with seats.seat(("one", "")):
        assert not seats.take(("one", ""))
    with pytest.raises(ValueError, match="boom"):
        async with seats.seat(("one", "")):
            raise ValueError("boom")
    assert seats.is_idle
