"""How late the event loop is: the delay that one callback causes for everything else.

A timer is due every 20 ms while the loop has work; how late it fires is what a request would have
waited. Without work there is no timer: `wake` starts it again, so an idle process is not woken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pykcp.observe.metrics import Histogram, Registry

INTERVAL = 0.02
_QUIET_TICKS = 3
_QUIET_CPU = 0.0002
"""Seconds of CPU between two ticks that are the meter's own and little else."""
_BOUNDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Late = Callable[[float, float, float], None]
"""Is called with the time at which a tick was due, how late it was and the CPU time spent."""


class LoopMeter:
    """Measures one loop, from its own thread."""

    def __init__(self, registry: Registry) -> None:
        self.is_awake = False
        self.due = 0.0
        """When the next tick is to be, by the monotonic clock; read by the watchdog's thread."""
        self.on_wake: Callable[[], None] | None = None
        self.on_tick: Late | None = None
        self.on_end: Callable[[bool], None] | None = None
        """Is called when a tick is over, with whether a pause begins: there is no work."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.cpu = 0.0
        """CPU time of the loop's thread at the last tick."""
        self._quiet = 0
        self._lateness = Histogram(
            "pykcp_event_loop_lateness_seconds",
            "Lateness of a timer of the event loop, measured every 20 ms while there is work.",
            (),
            _BOUNDS,
        )
        self._busy = Histogram(
            "pykcp_event_loop_busy_cpu_seconds",
            "CPU time of the event loop between two timers.",
            (),
            _BOUNDS,
        )
        registry.add(self._lateness, self._busy)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure this loop; called in its thread."""
        self._loop = loop
        self.wake()

    def wake(self) -> None:
        """There is work: measure until there is none. Cheap to ask for: see `is_awake` first."""
        if self._loop is None or self.is_awake:
            return
        self.is_awake = True
        self._quiet = 0
        self.cpu = time.thread_time()
        self._schedule(self._loop)
        if self.on_wake is not None:
            self.on_wake()

    def stop(self) -> None:
        self._loop = None
        self.is_awake = False
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self.due = time.monotonic() + INTERVAL
        self._timer = loop.call_later(INTERVAL, self._tick)

    def _tick(self) -> None:
        if self._loop is None:
            return
        cpu = time.thread_time()
        late = max(0.0, time.monotonic() - self.due)
        spent, self.cpu = cpu - self.cpu, cpu
        self._lateness.observe((), late)
        self._busy.observe((), spent)
        if self.on_tick is not None:
            self.on_tick(self.due, late, spent)
        self._quiet = self._quiet + 1 if spent < _QUIET_CPU else 0
        is_pause = self._quiet >= _QUIET_TICKS
        if is_pause:
            self.is_awake = False
        else:
            self._schedule(self._loop)
        if self.on_end is not None:  # the next tick shows how long that takes
            self.on_end(is_pause)
