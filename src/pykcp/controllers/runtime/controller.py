"""A controller: a queue of keys and what is done for each.

Whoever sees a change adds a key; `reconcile` makes the world right for that key, whatever
happened to it. There is one task per controller, and while there is nothing to do it waits
on one future. Up to `workers` keys are worked on at a time by tasks that end with the work.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.queue import KeyedQueue
from pykcp.machinery.status import Conflict, StatusError
from pykcp.storage.errors import StoreError

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

Reconcile = Callable[[K], Awaitable[float | None]]
"""Makes the world right for a key. A number asks to be called again after so many seconds."""


class ObjectKey(NamedTuple):
    """An object of a kind that its controller knows."""

    cluster: str
    namespace: str
    name: str


class Later(Exception):
    """The key cannot be finished yet for an ordinary reason; it comes back with backoff."""


class Controller(Generic[K]):
    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 4,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.queue: KeyedQueue[K] = KeyedQueue()
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._jitter = jitter
        self._metrics = metrics
        self._label = metrics.follow(name, self.queue) if metrics else (name,)
        self._wake: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._busy = 0

    def add(self, key: K) -> None:
        """Look at this key soon. Cheap and without waiting: it is called as changes commit."""
        if self.queue.add(key):
            if self._metrics is not None:
                self._metrics.adds.add(self._label)
            self._wake_up()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at this key in a while, unless it is looked at sooner."""
        if self.queue.add_at(key, self._clock() + seconds):
            self._wake_up()

    async def run(self) -> None:
        """Until cancelled."""
        working: set[asyncio.Task[None]] = set()
        try:
            while True:
                self.queue.advance(self._clock())
                self._start_workers(working)
                self._set_timer()
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
        finally:
            self._wake = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _set_timer(self) -> None:
        due = self.queue.next_due()
        if self._timer is not None:
            if due == self._timer_at:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            loop = asyncio.get_running_loop()
            self._timer_at = due
            self._timer = loop.call_later(max(0.0, due - self._clock()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._wake_up()

    def _start_workers(self, working: set[asyncio.Task[None]]) -> None:
        for _ in range(min(len(self.queue), self._workers - self._busy)):
            self._busy += 1
            task = asyncio.create_task(self._work(), name=f"controller/{self.name}")
            working.add(task)
            task.add_done_callback(working.discard)

    async def _work(self) -> None:
        try:
            while (key := self.queue.take()) is not None:
                await self._process(key)
        finally:
            self._busy -= 1
            self._wake_up()  # a delay may have been planned, or a key added meanwhile

    async def _process(self, key: K) -> None:
        began = self._clock()
        try:
            delay = await self._reconcile(key)
        except asyncio.CancelledError:
            self.queue.add(key)  # unfinished: it is there when the controller runs again
            self.queue.done(key)
            raise
        except Exception as error:  # whatever it is, the other keys must go on
            self.queue.done(key)
            self._retry(key, error)
        else:
            self.queue.done(key)
            self.queue.forget(key)
            if delay is not None:
                self.add_after(key, delay)
        if self._metrics is not None:
            self._metrics.durations.observe(self._label, self._clock() - began)

    def _retry(self, key: K, error: Exception) -> None:
        delay = self.queue.fail(key, self._clock(), self._jitter())
        if self._metrics is not None:
            self._metrics.retries.add(self._label)
        match error:
            case Later() | Conflict():
                _log.debug("%s: %s: %s, again in %.3f s", self.name, key, error, delay)
            case StatusError() | StoreError():
                _log.warning("%s: %s: %s, again in %.3f s", self.name, key, error, delay)
            case _:
                _log.error("%s: %s failed, again in %.3f s", self.name, key, delay, exc_info=error)
