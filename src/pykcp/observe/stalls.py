"""The stall watchdog: logs what blocked the event loop.

A thread watches the loop's clock while the loop has work, and sleeps otherwise. When a tick of the
loop is overdue, it samples the stack of the loop's thread; when the tick arrives, it writes one log
line. The line contains the verb and the resource of a request and places in the code, nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from pykcp.caching import BoundedCache
from pykcp.observe.loop_meter import LoopMeter
from pykcp.observe.metrics import Counter, Registry

_log = logging.getLogger(__name__)

_REPORT_AFTER = 5.0
"""A stall that lasts longer is logged before its end, which may never come."""
_REPEAT_AFTER = 10.0
"""Seconds in which a stall at the same place is counted rather than logged again."""
_LINES_PER_MINUTE = 60
_PAUSE = 0.005
_PLACES = 256
_DEPTH = 16
_MODULES = 200
"""Bounds the series of the counter; there are fewer modules that can hold the loop."""
_PACKAGE = str(pathlib.Path(__file__).parents[1]) + "/"
_LOOP_FILES = ("/asyncio/runners.py", "/asyncio/base_events.py", "/asyncio/events.py")


@dataclass(frozen=True, slots=True)
class LoopHolder:
    """What the loop was doing."""

    handler: str
    """A module of this package, without the package's name."""
    verb: str = ""
    resource: str = ""
    """As `resource.group`."""


Identify = Callable[[Sequence[FrameType]], LoopHolder]
"""Names what a stack works for; its outermost frame comes first."""


@dataclass(slots=True)
class StackSample:
    """A stack of the loop's thread."""

    held: LoopHolder
    places: tuple[str, ...]
    """`file:line function`, the innermost first."""


def own_frames(innermost: FrameType | None) -> list[FrameType]:
    """The frames that the loop has called, outermost first; empty while it waits for events."""
    frames: list[FrameType] = []
    while innermost is not None:
        if innermost.f_code.co_filename.endswith(_LOOP_FILES):
            break
        frames.append(innermost)
        innermost = innermost.f_back
    else:
        return []  # not inside a loop at all
    frames.reverse()
    if frames and frames[0].f_code.co_filename.endswith("/selectors.py"):
        return []
    return frames


def places(frames: Sequence[FrameType]) -> tuple[str, ...]:
    """Where in the code, the innermost first; what is called again and again is shown once."""
    found: list[str] = []
    for frame in reversed(frames):
        code = frame.f_code
        name = code.co_filename.removeprefix(_PACKAGE)
        if name.startswith("/"):
            name = "/".join(name.rsplit("/", 2)[1:])
        place = f"{name}:{frame.f_lineno} {code.co_name}"
        if place not in found:
            found.append(place)
        if len(found) == _DEPTH:
            break
    return tuple(found)


class StallLog:
    """Log lines about stalls: one each, fewer for repetitions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: BoundedCache[tuple[LoopHolder, str], tuple[float, int]] = BoundedCache(
            "", _PLACES
        )
        self._minute = (0.0, 0)

    def write(self, sample: StackSample, late: float, spent: float, *, is_over: bool) -> None:
        """Log a stall, unless one at the same place was logged just now."""
        now = self._clock()
        key = (sample.held, sample.places[0].partition(":")[0] if sample.places else "")
        logged, more = self._known.get(key) or (-_REPEAT_AFTER, 0)
        if now - logged < _REPEAT_AFTER or not self._has_room(now):
            self._known.put(key, (logged, more + 1))
            return
        self._known.put(key, (now, 0))
        held = sample.held
        _log.warning(
            "event loop late by %.0fms%s, %.0fms of CPU: handler=%s verb=%s resource=%s%s at %s",
            late * 1000,
            "" if is_over else " so far",
            spent * 1000,
            held.handler,
            held.verb or "-",
            held.resource or "-",
            f" ({more} more of these before)" if more else "",
            " < ".join(sample.places) or "unknown",
        )

    def _has_room(self, now: float) -> bool:
        began, lines = self._minute
        if now - began > 60:
            began, lines = now, 0
        self._minute = (began, lines + 1)
        return lines < _LINES_PER_MINUTE


class StallWatchdog:
    """A thread that watches a loop; `start` and `stop` are called in the loop's thread."""

    def __init__(
        self, meter: LoopMeter, threshold: float, identify: Identify, registry: Registry
    ) -> None:
        self._meter = meter
        self._threshold = threshold
        self._identify = identify
        self._stalls = Counter(
            "pykcp_event_loop_stalls_total",
            "Stalls of the event loop longer than --stall-log-threshold, by the code that blocked it.",
            ("handler", "verb"),
            limit=_MODULES,
            open_labels=frozenset(("handler", "verb")),
        )
        registry.add(self._stalls)
        self._log = StallLog()
        self._bell = threading.Event()
        self._ended: deque[tuple[float, float, float]] = deque(maxlen=64)
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._loop_thread = 0
        self._clock: int | None = None
        """The CPU time of the loop's thread; None where the system has no such clock."""
        self._schedule = -1
        self._waited = 0.0
        """How long the loop's thread had waited for a processor when it was last looked at."""

    def start(self) -> None:
        self._loop_thread = threading.get_ident()
        if hasattr(time, "pthread_getcpuclockid"):  # macOS does not have it
            self._clock = time.pthread_getcpuclockid(self._loop_thread)
        with contextlib.suppress(OSError):
            path = f"/proc/self/task/{threading.get_native_id()}/schedstat"
            self._schedule = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._meter.on_wake = self._bell.set
        self._meter.on_tick = self._on_tick
        self._thread = threading.Thread(target=self._run, name="stall-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._bell.set()
        if self._thread is not None:
            self._thread.join()
        if self._schedule >= 0:
            os.close(self._schedule)
            self._schedule = -1

    # -- in the loop's thread ------------------------------------------------------------------

    def _on_tick(self, due: float, late: float, spent: float) -> None:
        if late > self._threshold:
            self._ended.append((due, late, spent))

    # -- in the watchdog's ---------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_stopping:
            if not self._meter.is_awake and not self._ended:
                self._bell.wait()
                self._bell.clear()
            else:  # the next tick may be as late as the threshold, and is then looked at
                left = self._meter.due + self._threshold - time.monotonic()
                time.sleep(max(left, _PAUSE))
            due = self._meter.due
            self._waited, waited = self._processor_wait(), self._waited
            if self._meter.is_awake and time.monotonic() - due > self._threshold:
                self._attend(due, waited)
            while self._ended:  # over before this thread saw them
                self._report(_UNSEEN, *self._ended.popleft()[1:], waited, is_over=True)

    def _processor_wait(self) -> float:
        """Seconds that the loop's thread was runnable but not scheduled; 0 if unknown."""
        if self._schedule < 0:
            return 0.0
        return int(os.pread(self._schedule, 100, 0).split()[1]) / 1e9

    def _spent(self) -> float:
        """Seconds of CPU time of a stall that is going on; 0 if unknown."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock) - self._meter.cpu

    def _attend(self, due: float, waited: float) -> None:
        """A stall is going on: see what it is, and wait for its end."""
        sample = self._take()
        if sample is None:
            return  # the loop has nothing to do, or not been given a processor
        is_reported = False
        while not self._is_stopping:
            # The tick is noted before the next one is due: read in the other order.
            is_past = self._meter.due != due or not self._meter.is_awake
            ended = next((e for e in tuple(self._ended) if e[0] == due), None)
            if ended is not None:
                self._ended.remove(ended)
                if not is_reported:
                    self._report(sample, *ended[1:], waited, is_over=True)
                return
            if is_past:
                return  # it came just in time, while this thread was not scheduled
            late = time.monotonic() - due
            if late > _REPORT_AFTER and not is_reported:
                is_reported = True
                self._report(sample, late, self._spent(), waited, is_over=False)
            time.sleep(self._threshold / 2)

    def _take(self) -> StackSample | None:
        frames = own_frames(sys._current_frames().get(self._loop_thread))
        if not frames:
            return None
        return StackSample(self._identify(frames), places(frames))

    def _report(
        self, sample: StackSample, late: float, spent: float, waited: float, *, is_over: bool
    ) -> None:
        if late - (self._processor_wait() - waited) < self._threshold:
            return  # other processes had the processor: nothing here held the loop
        self._stalls.add((sample.held.handler, sample.held.verb))
        self._log.write(sample, late, spent, is_over=is_over)


_UNSEEN = StackSample(LoopHolder("unknown"), ())
