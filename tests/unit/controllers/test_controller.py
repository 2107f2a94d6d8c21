"""The controller's loop: concurrency, retries, delays, cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykcp.aio.slices import SLICE
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.failure_log import LINES, SECONDS
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.object_keys import ObjectKey
from pykcp.observe.metrics import Registry


@asynccontextmanager
async def running(controller: Controller[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def long_step() -> None:
    time.sleep(SLICE + 0.001)


async def iterations(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_keys_than_workers_are_worked_on_at_a_time() -> None:
    started: list[int] = []
    go = asyncio.Event()
    done = asyncio.Event()

    async def reconcile(key: int) -> None:
        started.append(key)
        await go.wait()
        if key == 9:
            done.set()

    controller = Controller("c", reconcile, workers=3)
    async with running(controller):
        for key in range(10):
            controller.add(key)
        await iterations(20)
        assert started == [0, 1, 2]
        assert controller.queue.running == 3
        go.set()
        await done.wait()
    assert started == list(range(10))
    assert controller.queue.is_idle


async def test_long_steps_of_several_workers_do_not_run_back_to_back() -> None:
    passes = 0
    began: list[int] = []
    done = asyncio.Event()

    async def reconcile(key: int) -> None:
        began.append(passes)
        long_step()
        await iterations(3)
        if key == 7:
            done.set()

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(count())
    controller = Controller("c", reconcile, workers=4)
    async with running(controller):
        for key in range(8):
            controller.add(key)
        await done.wait()
    others.cancel()
    assert len(set(began)) == 8, began


async def test_a_cancelled_worker_that_waits_for_its_turn_has_no_key() -> None:
    seen: list[int] = []
    first, done = asyncio.Event(), asyncio.Event()

    async def reconcile(key: int) -> None:
        seen.append(key)
        long_step()
        first.set()
        if len(seen) == 10:
            done.set()

    controller = Controller("c", reconcile, workers=2)
    async with running(controller):
        for key in range(10):
            controller.add(key)
        await first.wait()
    before = len(seen)
    async with running(controller):
        await done.wait()
        await iterations(20)
    assert before < 10
    assert sorted(seen) == list(range(10))
    assert controller.queue.is_idle


async def test_a_failing_key_comes_back_and_is_counted() -> None:
    registry = Registry()
    tries: list[str] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> None:
        tries.append(key)
        if len(tries) < 4:
            raise Requeue("not yet")
        done.set()

    controller = Controller("c", reconcile, metrics=ControllerMetrics(registry))
    async with running(controller):
        controller.add("a")
        await done.wait()
    assert tries == ["a"] * 4
    shown = registry.exposition()
    assert 'workqueue_retries_total{name="c"} 3' in shown
    assert 'workqueue_adds_total{name="c"} 1' in shown
    assert 'workqueue_depth{name="c"} 0' in shown


async def test_an_unexpected_error_stops_neither_the_key_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> None:
        seen.append(key)
        if seen == ["bad"]:
            raise ValueError("a bug")
        if {"bad", "good"} <= set(seen[1:]):
            done.set()

    controller = Controller("c", reconcile, workers=1)
    async with running(controller):
        controller.add("bad")
        controller.add("good")
        await done.wait()
    assert "a bug" in caplog.text


async def test_a_number_asks_to_be_called_again() -> None:
    calls = 0
    done = asyncio.Event()

    async def reconcile(key: str) -> float | None:
        nonlocal calls
        calls += 1
        if calls == 3:
            done.set()
            return None
        return 0.001

    controller = Controller("c", reconcile)
    async with running(controller):
        controller.add("a")
        await done.wait()
    assert calls == 3


async def test_a_cancelled_key_is_there_when_the_controller_runs_again() -> None:
    started = asyncio.Event()
    finished = asyncio.Event()
    block = asyncio.Event()

    async def reconcile(key: str) -> None:
        started.set()
        await block.wait()
        finished.set()

    controller = Controller("c", reconcile)
    async with running(controller):
        controller.add("a")
        await started.wait()
    assert len(controller.queue) == 1
    block.set()
    async with running(controller):
        await finished.wait()


async def test_an_idle_controller_is_one_task_that_waits_on_one_future() -> None:
    done = asyncio.Event()

    async def reconcile(key: str) -> None:
        done.set()

    before = len(asyncio.all_tasks())
    controller = Controller("c", reconcile)
    async with running(controller):
        controller.add("a")
        await done.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before + 1
        assert controller._timer is None


async def test_one_cluster_does_not_keep_another_waiting() -> None:
    """Neither by the number of its keys nor by keys that take for ever."""
    now = 0.0
    seen: list[ObjectKey] = []
    done = asyncio.Event()

    async def reconcile(key: ObjectKey) -> None:
        seen.append(key)
        if key.cluster == "calm":
            done.set()
        else:
            await asyncio.Event().wait()

    controller = Controller("c", reconcile, workers=4, clock=lambda: now)
    async with running(controller):
        for number in range(1000):
            controller.add(ObjectKey("busy", "", str(number)))
        controller.add(ObjectKey("calm", "", "one"))
        await done.wait()
        await iterations(20)
        assert sum(key.cluster == "busy" for key in seen) == 3
        # two more clusters whose keys take long: there are workers for others all the same
        done.clear()
        for name in ("slow", "slower"):
            for number in range(4):
                controller.add(ObjectKey(name, "", str(number)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert controller.queue.running == 4
        now = 10.0
        controller.add(ObjectKey("calm", "", "two"))
        await done.wait()


async def test_keys_that_take_long_do_not_keep_others_of_their_cluster_waiting() -> None:
    """As those that wait for a shard which does not answer."""
    ready = asyncio.Event()

    async def reconcile(key: ObjectKey) -> None:
        if key.name == "quick":
            ready.set()
        else:
            await asyncio.Event().wait()

    controller = Controller("c", reconcile, workers=4)
    async with running(controller):
        for number in range(6):
            controller.add(ObjectKey("a", "", f"waits{number}"))
        controller.add(ObjectKey("a", "", "quick"))
        await iterations(20)
        assert controller.queue.running == 3  # one worker is kept for other clusters
        async with asyncio.timeout(10):
            await ready.wait()


async def test_keys_that_await_nothing_let_others_go_on() -> None:
    seen = 0
    turns = 0

    async def reconcile(_: int) -> None:
        nonlocal seen
        seen += 1
        deadline = time.perf_counter() + 0.0005
        while time.perf_counter() < deadline:
            pass

    controller = Controller("c", reconcile)
    async with running(controller):
        for number in range(200):
            controller.add(number)
        while seen < 200:
            turns += 1
            await asyncio.sleep(0)
    assert turns > 10


async def test_failures_of_one_cluster_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, tries = 0.0, 0
    all_tried, again = asyncio.Event(), asyncio.Event()

    async def reconcile(key: ObjectKey) -> None:
        nonlocal tries
        tries += 1
        if tries == 500:
            all_tried.set()
        if key.name == "last":
            again.set()
        raise ValueError("it cannot be done")

    controller = Controller("c", reconcile, clock=lambda: now)
    async with running(controller):
        for number in range(500):
            controller.add(ObjectKey("busy", "", str(number)))
        await all_tried.wait()
        await asyncio.sleep(0)
        assert len(caplog.records) == LINES
        now = SECONDS + 1
        controller.add(ObjectKey("busy", "", "last"))
        await again.wait()
        await asyncio.sleep(0)
    assert "(495 more failures in busy not shown)" in caplog.text
