"""A controller: a queue of keys and a `reconcile` function.

Event handlers add keys; `reconcile` makes the actual state of a key match its desired state,
independent of the event. There is one task per controller, which waits on one future while there
is nothing to do. Up to `workers` keys are processed concurrently by tasks that end with the work.

Logical clusters take turns, and none can occupy all workers; keys that take long do not keep
others of their logical cluster waiting, unless there are very many of them. A worker yields to the event loop
when it has used up its time slice, also between keys that await nothing. For a moment after a
step that took long, each worker waits for a turn before its next key, so that the long steps of
several workers never run back to back. Keys that take long, such as a namespace with a hundred
thousand objects, do not block the others: while all workers are busy with such keys, additional
workers run.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from pykcp.aio.costs import metered
from pykcp.aio.owner import spawn_detached
from pykcp.aio.slices import SLICE, Slices
from pykcp.controllers.runtime.failure_log import FailureLog
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.queue import KeyedQueue
from pykcp.machinery.status import Conflict

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_LONG = 1.0
"""Seconds after which a running key no longer counts towards the limit of concurrent keys."""
_MORE = 16
"""How many times the number of workers there are at most, long ones included."""
_CAREFUL = 0.1
"""Seconds for which workers wait for turns after a long step."""

Reconcile = Callable[[K], Coroutine[Any, Any, float | None]]
"""Makes the world right for a key. A number asks to be called again after so many seconds."""


class Requeue(Exception):
    """The key cannot be finished yet for an ordinary reason; it comes back with backoff."""


def lane_of(key: Hashable) -> str:
    """The logical cluster that a key is about; keys that do not say it share a lane."""
    cluster: str = getattr(key, "cluster", "")
    return cluster


def is_cluster(key: str) -> str:
    """The lane of keys that are the names of logical clusters."""
    return key


class Controller(Generic[K]):
    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 4,
        lane: Callable[[K], str] = lane_of,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.queue: KeyedQueue[K] = KeyedQueue(lane, max(1, workers - max(1, workers // 4)))
        self._reconcile = reconcile
        self._workers = workers
        self._clock = clock
        self._jitter = jitter
        self._metrics = metrics
        self._label = metrics.follow(name, self.queue) if metrics else (name,)
        self._wake: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._began: dict[asyncio.Task[None], float] = {}
        """The workers, and when each began with its key."""
        self._keys: dict[asyncio.Task[None], K] = {}
        self._is_watching = False
        self._careful_until = 0.0
        self._wide: dict[Hashable, Callable[[], AsyncIterator[K]]] = {}
        self._spreading: asyncio.Task[None] | None = None
        self._failures = FailureLog(name, _log)

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

    def add_all(self, name: Hashable, keys: Callable[[], AsyncIterator[K]]) -> None:
        """Look at all of these soon, however many there are: they are found in slices, when
        their turn comes. `name` says which they are; they are looked for once at a time.
        """
        self._wide[name] = keys
        self._wake_up()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                self.queue.advance(self._clock())
                self._start_workers()
                if self._wide and self._spreading is None:
                    self._spreading = spawn_detached(
                        self._spread(), f"controller/{self.name}/spread"
                    )
                self._set_timer()
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
        finally:
            self._wake = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            working = [*self._began, *([self._spreading] if self._spreading else ())]
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

    def _start_workers(self) -> None:
        takable = self.queue.takable
        if self.queue.is_held:
            self._look_again_later()
        if not takable:
            return
        now = self._clock()
        free = self._workers + self._long(now) - len(self._began)
        if free > 0:
            task = spawn_detached(self._work(), f"controller/{self.name}")
            self._began[task] = now
            task.add_done_callback(self._ended)
        if free > 1 and takable > 1:
            # The next one when this one's first step is over: it may take long.
            asyncio.get_running_loop().call_soon(self._wake_up)
        elif takable > free:
            self._look_again_later()

    def _long(self, now: float) -> int:
        """Workers that do not count, since they have been busy with their keys for long."""
        if len(self._began) < self._workers:
            return 0
        found = sum(now - began >= _LONG for began in self._began.values())
        return min(found, self._workers * (_MORE - 1))

    def _look_again_later(self) -> None:
        """Some keys may turn out to take long: then more may run."""
        if not self._is_watching:
            self._is_watching = True
            asyncio.get_running_loop().call_later(_LONG, self._look_again)

    def _look_again(self) -> None:
        self._is_watching = False
        if self.queue.is_held:
            before = self._clock() - _LONG
            for task, key in self._keys.items():
                if self._began[task] <= before:
                    self.queue.set_aside(key)
        self._wake_up()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._began.pop(task, None)
        self._keys.pop(task, None)
        self._wake_up()  # a delay may have been planned, or a key added meanwhile

    async def _spread(self) -> None:
        """Queue the keys of `add_all`."""
        slices = Slices(self.name)
        name: Hashable = ""
        try:
            while self._wide:
                name = next(iter(self._wide))
                keys = self._wide.pop(name)
                try:
                    async for key in keys():
                        self.add(key)
                        if slices.is_over():
                            await slices.next()
                except BaseException:
                    self._wide.setdefault(name, keys)  # not all of them were found
                    raise
        except Exception as error:  # whatever it is, they are looked for again
            self._failures.tell("", name, error, _LONG, self._clock())
            asyncio.get_running_loop().call_later(_LONG, self._wake_up)
        finally:
            self._spreading = None

    async def _work(self) -> None:
        slices, task = Slices(self.name), asyncio.current_task()
        assert task is not None
        while True:
            if time.perf_counter() < self._careful_until:
                await slices.next()
            if (key := self.queue.take()) is None:
                return
            self._began[task], self._keys[task] = self._clock(), key
            await self._process(key)
            if slices.is_over():
                await slices.next()
            if len(self._began) > self._workers and not self._long(self._clock()):
                return  # it was needed while others took long

    async def _process(self, key: K) -> None:
        began = self._clock()
        try:
            delay = await metered(self._note_steps, self._reconcile(key))
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

    def _note_steps(self, seconds: float) -> None:
        if seconds > SLICE:
            self._careful_until = time.perf_counter() + _CAREFUL

    def _retry(self, key: K, error: Exception) -> None:
        delay = self.queue.fail(key, self._clock(), self._jitter())
        if self._metrics is not None:
            self._metrics.retries.add(self._label)
        if isinstance(error, Requeue | Conflict):
            _log.debug("%s: %s: %s, again in %.3f s", self.name, key, error, delay)
        else:
            lane = self.queue.lane_of(key)
            self._failures.tell(lane, key, error, delay, self._clock())
