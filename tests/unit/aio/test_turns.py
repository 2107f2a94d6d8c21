"""Long steps take turns, and the loop goes on in between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import weakref
from typing import Self

import pytest

from pykcp.aio import turns as turns_module
from pykcp.aio.turns import heavy_turn, turns_of


class Passes:
    """Counts how often the loop went round: the steps that anybody else could take."""

    def __init__(self) -> None:
        self.count = 0
        self._is_over = False

    def _pass(self) -> None:
        self.count += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._pass)

    def __enter__(self) -> Self:
        asyncio.get_running_loop().call_soon(self._pass)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True


async def _steps(tenant: str, count: int, log: list[tuple[str, int]], passes: Passes) -> None:
    for _ in range(count):
        async with heavy_turn(tenant):
            log.append((tenant, passes.count))


async def test_nobody_before_it_means_no_wait() -> None:
    with Passes() as passes:
        async with heavy_turn("a"):
            assert passes.count == 0


async def test_the_loop_goes_round_between_two_steps() -> None:
    log: list[tuple[str, int]] = []
    with Passes() as passes:
        await asyncio.gather(*(_steps(tenant, 3, log, passes) for tenant in ("a", "a", "b")))
    times = [time for _, time in log]
    assert len(times) == 9
    assert min(later - sooner for sooner, later in itertools.pairwise(times)) >= 8


async def test_tenants_take_turns() -> None:
    log: list[tuple[str, int]] = []
    with Passes() as passes:
        await asyncio.gather(
            *(_steps("flood", 1, log, passes) for _ in range(50)),
            _steps("b", 2, log, passes),
            _steps("c", 1, log, passes),
        )
    assert [tenant for tenant, _ in log][:6] == ["flood", "flood", "b", "c", "flood", "b"]


async def test_a_step_within_a_step_is_part_of_it() -> None:
    async with heavy_turn("a"), heavy_turn("a"):
        pass
    assert turns_of(asyncio.get_running_loop()).waiting == 0


async def test_who_gives_up_does_not_keep_the_others_waiting() -> None:
    """Before the turn came, and in the moment it came."""
    log: list[tuple[str, int]] = []
    turns = turns_of(asyncio.get_running_loop())
    with Passes() as passes:
        async with heavy_turn("a"):
            gone = asyncio.ensure_future(_steps("b", 1, log, passes))
            called = asyncio.ensure_future(_steps("c", 1, log, passes))
            last = asyncio.ensure_future(_steps("d", 1, log, passes))
            await asyncio.sleep(0)
            gone.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
        assert turns.waiting == 1
        called.cancel()  # it was called and has not run yet
        await last
        for task in (gone, called):
            with contextlib.suppress(asyncio.CancelledError):
                await task
    assert [tenant for tenant, _ in log] == ["d"]


async def test_a_waiter_cancelled_before_its_task_runs_again_is_passed_over() -> None:
    """The turn goes to the next one, once: when the cancelled task runs, it gives none away."""
    log: list[tuple[str, int]] = []
    turns = turns_of(asyncio.get_running_loop())
    with Passes() as passes:
        await turns.enter("a")
        gone = asyncio.ensure_future(_steps("b", 1, log, passes))
        others = [asyncio.ensure_future(_steps(tenant, 1, log, passes)) for tenant in "cd"]
        await asyncio.sleep(0)
        gone.cancel()
        turns._pass(0)  # before the loop runs the cancelled task
        with contextlib.suppress(asyncio.CancelledError):
            await gone
        assert turns.waiting == 1
        await asyncio.gather(*others)
    assert [tenant for tenant, _ in log] == ["c", "d"]


async def test_an_error_ends_the_turn() -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with heavy_turn("a"):
                raise ValueError("no")


async def test_others_get_as_much_time_as_the_step_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only if they have something in progress; and never more than a limit."""
    loop = asyncio.get_running_loop()
    turns = turns_of(loop)
    pauses: list[float] = []
    call_later = loop.call_later

    def noted(delay: float, *rest: object) -> asyncio.TimerHandle:
        pauses.append(delay)
        return call_later(0, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_later", noted)
    turns.leave(0.5)
    assert pauses == []
    turns.contended = lambda: True
    turns.leave(0.003)
    turns.leave(30.0)
    assert pauses == [0.003, turns_module._LONGEST_PAUSE]


async def test_a_task_that_is_cancelled_while_it_waits_is_no_garbage() -> None:
    """Its error holds the frames that it went through: none of them may hold the task."""

    class Marker:
        """What the task has in its variables."""

    found: list[weakref.ref[Marker]] = []

    async def wait() -> None:
        marker = Marker()
        found.append(weakref.ref(marker))
        async with heavy_turn("b"):
            pass

    gc.collect()
    gc.disable()
    try:
        async with heavy_turn("a"):
            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
            del task
            await asyncio.sleep(0)
        assert [ref() for ref in found] == [None]
    finally:
        gc.enable()
