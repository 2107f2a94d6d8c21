"""Delivery of events to a backend: in batches (asynchronous), or before the response (blocking).

`BatchedEvents` never delays a request. Its buffer is bounded; events that do not fit are dropped,
counted and logged. The blocking modes respond after the event was delivered; a failure is counted
and logged, and `blocking-strict` rejects the request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from pykcp.aio.owner import TaskOwner, spawn_detached
from pykcp.observe.audit.lines import without_bodies
from pykcp.observe.audit.settings import BatchSettings, TruncateSettings
from pykcp.observe.metrics import Counter

_log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.02
"""A log in batch mode is written so often at most: many lines cost what one does."""
SENDS_AT_ONCE = 8
SLOW_SECONDS = 1.0

Answer = Awaitable[bool] | bool


class Failures:
    """Counts what went wrong, and says so at most once a second for each backend."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = Counter(
            "apiserver_audit_error_total",
            "Audit events lost or rejected by a backend, by backend.",
            ("plugin",),
        )
        self._clock = clock
        self._said: dict[str, float] = {}

    def note(self, plugin: str, message: object, count: int = 1) -> None:
        self.total.add((plugin,), count)
        now = self._clock()
        if now - self._said.get(plugin, -1e9) >= 1.0:
            self._said[plugin] = now
            lost = int(self.total.values[(plugin,)])
            _log.error("audit %s: %s (%d events so far)", plugin, message, lost)


class Backend(Protocol):
    """Where the trail sends events."""

    waits: bool
    """Whether `process` may answer with something to wait for."""

    def process(self, line: bytes) -> Answer:
        """False: the event could not be recorded and the request must not go on."""

    def start(self) -> None: ...

    async def stop(self, seconds: float) -> None:
        """Deliver what was accepted, as far as there is time."""


class Truncation:
    """Removes the bodies of large events, and rejects events that are still too large."""

    def __init__(self, settings: TruncateSettings, failures: Failures) -> None:
        self._most = settings.max_event_size if settings.enabled else 0
        self.batch_bytes = settings.max_batch_size if settings.enabled else 0
        self.is_on = settings.enabled
        self._failures = failures

    def fit(self, line: bytes) -> bytes | None:
        if not self._most or len(line) <= self._most:
            return line
        line = without_bodies(line)
        if len(line) <= self._most:
            return line
        self._failures.note("truncate", "event is too large even after truncating")
        return None


class Blocking:
    """A sink that is written at once (the log); the request waits for it."""

    waits = False

    def __init__(
        self,
        name: str,
        write: Callable[[list[bytes]], None],
        truncation: Truncation,
        failures: Failures,
        *,
        is_strict: bool,
    ) -> None:
        self._name, self._write = name, write
        self._truncation, self._failures = truncation, failures
        self._passes = not is_strict

    def process(self, line: bytes) -> bool:
        fitting = self._truncation.fit(line)
        if fitting is None:
            return self._passes
        began = time.monotonic()
        try:
            self._write([fitting])
        except OSError as error:
            self._failures.note(self._name, error)
            return self._passes
        if time.monotonic() - began > SLOW_SECONDS:
            _log.warning("audit backend %s is slow and blocks requests", self._name)
        return True

    def start(self) -> None:
        """There is nothing that runs."""

    async def stop(self, seconds: float) -> None:
        """Everything is written."""


class Awaited:
    """A sink that takes its time (the webhook); the answer to the request waits for it."""

    waits = True

    def __init__(
        self,
        name: str,
        send: Callable[[list[bytes]], Awaitable[None]],
        truncation: Truncation,
        failures: Failures,
        *,
        is_strict: bool,
    ) -> None:
        self._name, self._send = name, send
        self._truncation, self._failures = truncation, failures
        self._passes = not is_strict

    def process(self, line: bytes) -> Answer:
        fitting = self._truncation.fit(line)
        return self._passes if fitting is None else self._deliver(fitting)

    async def _deliver(self, line: bytes) -> bool:
        try:
            await self._send([line])
        except Exception as error:  # whatever the sink says, the request is what it is about
            self._failures.note(self._name, error)
            return self._passes
        return True

    def start(self) -> None:
        """Requests do the work."""

    async def stop(self, seconds: float) -> None:
        """Requests have ended before."""


class BatchedEvents:
    """Events in a bounded buffer, sent many at a time by a task of its own."""

    waits = False

    def __init__(
        self,
        name: str,
        send: Callable[[list[bytes]], Awaitable[None]],
        settings: BatchSettings,
        truncation: Truncation,
        failures: Failures,
        *,
        merges: bool = False,
    ) -> None:
        self._name, self._send = name, send
        self._settings = settings
        self._truncation, self._failures = truncation, failures
        self._merges = merges
        """A log: everything that waits is written at once, one write after the other."""
        self._lines: deque[bytes] = deque()
        self._wake: asyncio.Event | None = None
        self._owner = TaskOwner("audit")
        self._sending: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(1 if merges else SENDS_AT_ONCE)
        self._tokens = float(settings.throttle_burst)
        self._counted = 0.0
        self._is_stopping = False

    @property
    def waiting(self) -> int:
        return len(self._lines)

    def process(self, line: bytes) -> bool:
        if self._truncation.is_on:
            fitting = self._truncation.fit(line)
            if fitting is None:
                return True
            line = fitting
        lines = self._lines
        if len(lines) >= self._settings.buffer_size:
            self._failures.note(
                "buffered", f"the buffer of audit {self._name} is full: event dropped"
            )
            return True
        lines.append(line)
        if self._wake is not None and (len(lines) == 1 or len(lines) == self._settings.max_size):
            self._wake.set()
        return True

    def start(self) -> None:
        self._wake = asyncio.Event()
        self._owner.start_restartable(self._name, self._run)

    async def stop(self, seconds: float) -> None:
        if self._wake is None:
            return
        self._is_stopping = True
        self._wake.set()
        await self._owner.finish(seconds)
        if self._sending:
            _, unsent = await asyncio.wait(self._sending, timeout=seconds)
            for task in unsent:
                task.cancel()
            await asyncio.gather(*unsent, return_exceptions=True)
        if self._lines:
            self._failures.note(self._name, "stopped before all was sent", len(self._lines))

    async def _run(self) -> None:
        assert self._wake is not None
        while True:
            if not self._lines:
                if self._is_stopping:
                    return
                self._wake.clear()
                await self._wake.wait()
            await self._fill(self._wake)
            while self._lines:
                await self._throttle()
                await self._room.acquire()
                self._dispatch(self._take())
                if not self._is_stopping and len(self._lines) < self._settings.max_size:
                    break

    async def _fill(self, wake: asyncio.Event) -> None:
        """Give others the time to join the batch."""
        if self._is_stopping or (not self._merges and len(self._lines) >= self._settings.max_size):
            return
        wake.clear()
        pause = max(self._settings.max_wait, COALESCE_SECONDS)
        if self._merges:
            await asyncio.sleep(min(pause, COALESCE_SECONDS))
            return
        try:
            await asyncio.wait_for(wake.wait(), pause)
        except TimeoutError:
            return

    def _take(self) -> list[bytes]:
        lines, size = self._lines, 0
        taken: list[bytes] = []
        most = len(lines) if self._merges else self._settings.max_size
        limit = self._truncation.batch_bytes
        while lines and len(taken) < most:
            size += len(lines[0])
            if taken and limit and size > limit:
                break
            taken.append(lines.popleft())
        return taken

    def _dispatch(self, lines: list[bytes]) -> None:
        task = spawn_detached(self._deliver(lines), f"audit-{self._name}-send")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _deliver(self, lines: list[bytes]) -> None:
        try:
            await self._send(lines)
        except asyncio.CancelledError:
            self._failures.note(self._name, "stopped before all was sent", len(lines))
            raise
        except Exception as error:  # the batch is lost, which is logged; try the next one
            self._failures.note(self._name, error, len(lines))
        finally:
            self._room.release()

    async def _throttle(self) -> None:
        """So many batches a second on average, and some at once after a quiet time."""
        settings = self._settings
        if not settings.throttle or self._is_stopping:
            return
        now = time.monotonic()
        if self._counted:
            gained = (now - self._counted) * settings.throttle_qps
            self._tokens = min(float(settings.throttle_burst), self._tokens + gained)
        self._counted = now
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / settings.throttle_qps)
