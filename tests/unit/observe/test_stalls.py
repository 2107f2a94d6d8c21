"""The meter of the event loop and its watchdog, each without the other."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from pykcp.observe.loop_meter import LoopMeter
from pykcp.observe.metrics import Registry
from pykcp.observe.stalls import (
    LoopHolder,
    StackSample,
    StallLog,
    StallWatchdog,
    own_frames,
    places,
)


def _hold(seconds: float) -> None:
    """Use so much CPU time, however busy the machine is."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def _value(registry: Registry, name: str) -> float:
    lines = registry.exposition().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def test_a_callback_that_holds_the_loop_is_seen() -> None:
    registry = Registry()
    meter = LoopMeter(registry)
    seen: asyncio.Future[tuple[float, float]] = asyncio.get_running_loop().create_future()

    def on_tick(due: float, late: float, spent: float) -> None:
        if late > 0.1 and not seen.done():
            seen.set_result((late, spent))

    meter.on_tick = on_tick
    meter.start(asyncio.get_running_loop())
    _hold(0.3)
    late, spent = await seen
    meter.stop()
    assert late >= 0.25
    assert spent > 0
    assert _value(registry, "pykcp_event_loop_lateness_seconds_count") >= 1
    assert _value(registry, "pykcp_event_loop_busy_cpu_seconds_count") >= 1


async def test_an_idle_loop_is_not_woken() -> None:
    """The timer ends by itself when there is nothing to do, and `wake` starts it again."""
    registry = Registry()
    meter = LoopMeter(registry)
    meter.start(asyncio.get_running_loop())
    async with asyncio.timeout(20):
        while meter.is_awake:  # noqa: ASYNC110  # nobody says when it falls asleep
            await asyncio.sleep(0.1)
    ticks = _value(registry, "pykcp_event_loop_lateness_seconds_count")
    meter.wake()
    assert meter.is_awake
    async with asyncio.timeout(20):
        while meter.is_awake:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert _value(registry, "pykcp_event_loop_lateness_seconds_count") > ticks
    meter.stop()


def _named(frames: Any) -> LoopHolder:
    return LoopHolder(frames[-1].f_code.co_name, "create", "widgets.example.com")


@pytest.mark.parametrize("has_clocks", [True, False], ids=["Linux", "macOS"])
async def test_the_watchdog_logs_one_line_with_the_stack(
    has_clocks: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a clock for the CPU time of another thread as well."""
    if not has_clocks:
        monkeypatch.delattr(time, "pthread_getcpuclockid")
    registry = Registry()
    meter = LoopMeter(registry)
    watchdog = StallWatchdog(meter, 0.05, _named, registry)
    watchdog.start()
    meter.start(asyncio.get_running_loop())
    with caplog.at_level(logging.WARNING):
        _hold(0.5)
        async with asyncio.timeout(20):
            while "event loop late" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert (watchdog._spent() != 0.0) is has_clocks
    watchdog.stop()
    meter.stop()
    (line,) = [r.getMessage() for r in caplog.records if "event loop late" in r.getMessage()]
    assert "handler=_hold verb=create resource=widgets.example.com" in line
    assert "test_stalls.py" in line.partition(" at ")[2].partition(" < ")[0]
    assert "_hold < " in line
    stalls = 'pykcp_event_loop_stalls_total{handler="_hold",verb="create"}'
    assert _value(registry, stalls) == 1


async def test_a_tick_that_came_in_time_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """The watchdog's thread may see the time of a tick long after that has come."""
    registry = Registry()
    meter = LoopMeter(registry)
    watchdog = StallWatchdog(meter, 0.05, _named, registry)
    meter.start(asyncio.get_running_loop())
    watchdog.start()
    try:
        past = meter.due - 10
        thread = threading.Thread(target=watchdog._attend, args=(past, 0.0), daemon=True)
        thread.start()
        thread.join(4)
        assert not thread.is_alive()
    finally:
        watchdog.stop()
        meter.stop()
    assert " so far" not in caplog.text


def test_repetitions_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    log = StallLog(lambda: now[0])
    sample = StackSample(LoopHolder("h", "get"), ("a.py:1 f", "b.py:2 g"))
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            log.write(sample, 0.3, 0.2, is_over=True)
        now[0] += 11
        log.write(sample, 0.3, 0.2, is_over=True)
        log.write(StackSample(LoopHolder("other"), ()), 7.0, 6.9, is_over=False)
    assert [r.getMessage() for r in caplog.records] == [
        "event loop late by 300ms, 200ms of CPU: handler=h verb=get resource=- at a.py:1 f < b.py:2 g",
        "event loop late by 300ms, 200ms of CPU: handler=h verb=get resource=- (4 more of these before) at a.py:1 f < b.py:2 g",
        "event loop late by 7000ms so far, 6900ms of CPU: handler=other verb=- resource=- at unknown",
    ]


def test_a_flood_of_different_stalls_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = StallLog(lambda: 1.0)
    with caplog.at_level(logging.WARNING):
        for n in range(1000):
            log.write(StackSample(LoopHolder(f"h{n}"), ()), 0.3, 0.2, is_over=True)
    assert len(caplog.records) == 60


def test_a_thread_without_a_loop_has_no_stack() -> None:
    assert own_frames(sys._getframe()) == []


def test_only_what_the_loop_called_is_shown() -> None:
    found: list[tuple[str, ...]] = []
    ready, done = threading.Event(), threading.Event()

    async def inner() -> None:
        ready.set()
        done.wait(10)

    thread = threading.Thread(target=lambda: asyncio.run(inner()))
    thread.start()
    assert ready.wait(10)
    frame: FrameType | None = sys._current_frames()[thread.ident or 0]
    found.append(places(own_frames(frame)))
    done.set()
    thread.join()
    assert found[0][-1].endswith(" inner")
    assert not any("base_events" in place for place in found[0])
