"""Many ask how far a shard is, and one question is under way at a time."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.proxy.progress import ShardProgress


class Shard:
    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: list[asyncio.Future[int]] = []

    async def send(self, revision: int) -> int:
        self.asked.append(revision)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return await answer


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_asks_meanwhile_shares_the_next_question() -> None:
    shard = Shard()
    progress = ShardProgress(shard.send)
    first = asyncio.create_task(progress.ask(5))
    await _turns()
    later = [asyncio.create_task(progress.ask(n)) for n in (7, 9, 8)]
    await _turns()
    assert shard.asked == [5]
    shard.answers[0].set_result(6)
    await _turns()
    assert shard.asked == [5, 9]
    shard.answers[1].set_result(10)
    assert await first == 6
    assert await asyncio.gather(*later) == [10, 10, 10]
    assert not await _has_more(progress, shard)


async def _has_more(progress: ShardProgress, shard: Shard) -> bool:
    await _turns()
    return len(shard.asked) > 2


async def test_failures_reach_all_and_the_next_is_asked() -> None:
    shard = Shard()
    progress = ShardProgress(shard.send)
    first = asyncio.create_task(progress.ask(1))
    await _turns()
    second = asyncio.create_task(progress.ask(2))
    await _turns()
    shard.answers[0].set_exception(TimeoutError())
    await _turns()
    with pytest.raises(TimeoutError):
        await first
    shard.answers[1].set_result(3)
    assert await second == 3


async def test_one_that_gives_up_takes_nobody_along() -> None:
    shard = Shard()
    progress = ShardProgress(shard.send)
    gone, stays = (asyncio.create_task(progress.ask(1)) for _ in range(2))
    await _turns()
    gone.cancel()
    await _turns()
    for answer in shard.answers:
        if not answer.done():
            answer.set_result(4)
    await _turns()
    for answer in shard.answers:
        if not answer.done():
            answer.set_result(4)
    assert await stays == 4
