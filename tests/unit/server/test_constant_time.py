"""When a denial is sent."""

from __future__ import annotations

import asyncio
import pathlib
import time

import pytest

from pykcp.server import constant_time as waiting
from pykcp.server.constant_time import INTERVAL, ConstantTime, due


@pytest.mark.parametrize("took", [0.0, 0.0001, 0.4 * INTERVAL, 0.999 * INTERVAL])
def test_quick_or_slow_it_goes_out_at_the_same_time(took: float) -> None:
    assert due(100.0, 100.0 + took) == 100.0 + INTERVAL


def test_what_takes_longer_goes_out_in_steps() -> None:
    assert due(100.0, 100.0 + 1.5 * INTERVAL) == 100.0 + 2 * INTERVAL


async def test_many_at_once() -> None:
    """Each waits for its own moment; one that is given up does not hold up the others."""
    timer = ConstantTime()
    arrived = time.perf_counter()
    ended: list[float] = []

    async def wait(offset: float) -> None:
        await timer.wait(arrived + offset)
        ended.append(offset)
        assert time.perf_counter() >= arrived + offset + INTERVAL

    offsets = [0.003, 0.0, 0.001, 0.002, 0.0]
    tasks = [asyncio.create_task(wait(offset)) for offset in offsets]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == sorted([0.003, 0.001, 0.002, 0.0])
    timer.close()


async def test_all_servers_share_one_timer() -> None:
    """Views come and go with their servers; open files must not stay behind."""
    await waiting.wait(time.perf_counter())
    before = _open_files()
    for _ in range(5):
        await waiting.wait(time.perf_counter())
    assert _open_files() == before


def _open_files() -> int:
    return sum(1 for _ in pathlib.Path("/proc/self/fd").iterdir())
