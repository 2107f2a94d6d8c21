"""Long work in slices: others get their turn, and the result is the same."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.aio import slices
from pykcp.aio.slices import FREE, Slices, in_slices
from pykcp.steps import Steps, at_once


def count(to: int) -> Steps[int]:
    total = 0
    for _ in range(to):
        total += 1
        yield
    return total


def fail() -> Steps[int]:
    yield
    raise LookupError


class Passes:
    """Counts how often the loop went round."""

    def __init__(self) -> None:
        self.count = 0
        self._is_over = False

    def start(self) -> None:
        if not self._is_over:
            self.count += 1
            asyncio.get_running_loop().call_soon(self.start)

    def stop(self) -> None:
        self._is_over = True


@pytest.fixture
def passes() -> Passes:
    return Passes()


def test_all_steps_at_once() -> None:
    assert at_once(count(1000)) == 1000


async def test_short_work_does_not_wait(passes: Passes) -> None:
    passes.start()
    assert await in_slices(count(3)) == 3
    passes.stop()
    assert passes.count == 1


async def test_short_work_of_many_does_not_add_up(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(slices, "perf_counter", lambda: now)

    def pause() -> Steps[int]:
        nonlocal now
        now += FREE / 2
        yield
        return passes.count

    passes.start()
    seen = [await in_slices(pause()) for _ in range(40)]
    passes.stop()
    assert seen.count(1) >= 2
    assert len(set(seen)) > 2


async def test_others_are_served_between_slices(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1_000_000))
    monkeypatch.setattr(
        slices, "perf_counter", lambda: next(clock) * 0.001
    )  # a step, a millisecond
    passes.start()
    assert await asyncio.gather(*(in_slices(count(100), str(n)) for n in range(3))) == [100] * 3
    passes.stop()
    assert passes.count > 3 * 100 // 5


async def test_a_loop_that_awaits_lets_others_in(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1_000_000))
    monkeypatch.setattr(slices, "perf_counter", lambda: next(clock) * 0.001)
    passes.start()
    cut = Slices()
    for _ in range(100):
        if cut.is_over():
            await cut.next()
    passes.stop()
    assert passes.count > 100 // 5


async def test_failures_are_passed_on() -> None:
    with pytest.raises(LookupError):
        await in_slices(fail())
    assert await in_slices(count(1)) == 1
