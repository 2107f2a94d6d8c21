"""The only place that makes tasks: each has a name, and its failure is seen.

- `TaskOwner.start_restartable`: runs as long as the process. When it fails, it is restarted
  after a pause that grows. Restarts are counted; after several failures in a row `problem`
  reports the task, until it has run for a while again.
- `spawn`: computes one result, which the caller awaits.
- `spawn_detached`: computes something that is not awaited. A failure is logged with its name.

The owners of an event loop are found without being passed around (`owners`), so that a task that
a store or an audit backend runs shows up in `/debug/tasks`, `/readyz` and the metrics, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 0.2, 30.0
_MOST_FAILURES = 5
"""In a row; then the task is reported as failing."""
_RECOVERED_SECONDS = 30.0
"""A run that lasts so long ends the row of failures."""

Body = Callable[[], Awaitable[None]]
Result = TypeVar("Result")


def spawn(
    coroutine: Coroutine[Any, Any, Result], name: str, *, context: Context | None = None
) -> asyncio.Task[Result]:
    """A task whose result or error the caller awaits."""
    return asyncio.get_running_loop().create_task(coroutine, name=name, context=context)


def spawn_detached(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task that is not awaited: it is kept until it ends, and its failure is logged."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _detached.add(task)  # the event loop itself refers to its tasks weakly
    task.add_done_callback(_end_detached)
    return task


def _end_detached(task: asyncio.Task[None]) -> None:
    _detached.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("task %s failed", task.get_name(), exc_info=error)


_detached: set[asyncio.Task[None]] = set()


@dataclass(slots=True)
class OwnedTask:
    """A restartable task and how it has fared."""

    name: str
    task: asyncio.Task[None]
    started: float
    restarts: int = 0
    failures: int = 0
    """In a row."""
    running_since: float | None = None
    error: str = ""
    """The last one."""

    def is_failing(self, now: float) -> bool:
        if self.failures < _MOST_FAILURES:
            return False
        return self.running_since is None or now - self.running_since < _RECOVERED_SECONDS


class TaskOwner:
    """A named group of tasks that are stopped together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.restarts: Counter[str] = Counter()
        """Of its tasks by name, also of those that have ended."""
        self._tasks: dict[str, OwnedTask] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def start_restartable(self, name: str, body: Body) -> None:
        """Run a task until it returns or is stopped; a failure restarts it.

        Names are labels of a metric: they must not depend on what users create.
        """
        if name in self._tasks:
            raise ValueError(f"task {name} is already running")
        loop = asyncio.get_running_loop()
        _owners.setdefault(loop, weakref.WeakSet()).add(self)
        task = loop.create_task(self._keep_running(name, body), name=f"{self.name}/{name}")
        self._tasks[name] = OwnedTask(name, task, time.monotonic())
        self.restarts.setdefault(name, 0)
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def _keep_running(self, name: str, body: Body) -> None:
        owned = self._tasks[name]
        while True:
            owned.running_since = time.monotonic()
            try:
                await body()
            except asyncio.CancelledError as error:
                if owned.task.cancelling():
                    raise
                failure: BaseException = error  # something that it awaited was cancelled
            except Exception as error:  # whatever it is: logged, and the task is restarted
                failure = error
            else:
                return
            pause = self._note(owned, failure)
            del failure  # its traceback has this frame
            await asyncio.sleep(pause)
            owned.restarts += 1
            self.restarts[name] += 1

    def _note(self, owned: OwnedTask, error: BaseException) -> float:
        """Log a failure; returns the seconds until the task is restarted."""
        began, owned.running_since = owned.running_since, None
        if began is not None and time.monotonic() - began >= _RECOVERED_SECONDS:
            owned.failures = 0
        owned.failures += 1
        owned.error = f"{type(error).__name__}: {error}"
        pause: float = min(_FIRST_PAUSE * 2 ** (owned.failures - 1), _LAST_PAUSE)
        _log.error(
            "task %s/%s failed (%d in a row), restarting it in %.1f s",
            self.name, owned.name, owned.failures, pause, exc_info=error,
        )  # fmt: skip
        if owned.failures == _MOST_FAILURES:
            _log.error("task %s/%s keeps failing: the process is not ready", self.name, owned.name)
        return pause

    def failing(self) -> list[str]:
        """A line for each task that keeps failing."""
        now = time.monotonic()
        return [
            f"{self.name}/{owned.name} failed {owned.failures} times in a row: {owned.error}"
            for owned in self._tasks.values()
            if owned.is_failing(now)
        ]

    def is_running(self, name: str) -> bool:
        return name in self._tasks

    async def finish(self, seconds: float) -> None:
        """Wait for the tasks to end; cancel those that take longer."""
        if self._tasks:
            await asyncio.wait([owned.task for owned in self._tasks.values()], timeout=seconds)
        await self.stop()

    async def stop(self) -> None:
        """Cancel the tasks in reverse order and wait for each."""
        for owned in reversed(list(self._tasks.values())):
            await self._end(owned)

    async def stop_one(self, name: str) -> None:
        """Cancel one task, if it runs, and wait for it."""
        owned = self._tasks.get(name)
        if owned is not None:
            await self._end(owned)

    async def _end(self, owned: OwnedTask) -> None:
        current = asyncio.current_task()
        before = current.cancelling() if current is not None else 0
        owned.task.cancel()
        try:
            await owned.task
        except asyncio.CancelledError:
            if current is not None and current.cancelling() > before:
                raise  # it is this task that was cancelled, while it waited
        except Exception:
            _log.exception("task %s/%s failed while stopping", self.name, owned.name)

    def describe(self) -> str:
        """A line per task: name, age, restarts."""
        now = time.monotonic()
        lines = [f"{self.name}: {len(self._tasks)} tasks"]
        lines += [
            f"  {t.name:<40} {now - t.started:8.1f}s  restarts {t.restarts}"
            + (f"  failing: {t.error}" if t.is_failing(now) else "")
            for t in self._tasks.values()
        ]
        return "\n".join(lines) + "\n"


_owners: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakSet[TaskOwner]] = (
    weakref.WeakKeyDictionary()
)


def owners() -> list[TaskOwner]:
    """Those that have started tasks on the running loop, by name."""
    found = _owners.get(asyncio.get_running_loop(), ())
    return sorted(found, key=lambda owner: owner.name)


def describe() -> str:
    """All owners with their tasks, for `/debug/tasks`."""
    return "".join(owner.describe() for owner in owners())


def problem() -> str | None:
    """Which tasks keep failing, for `/readyz`; None if all is well."""
    return "; ".join(line for owner in owners() for line in owner.failing()) or None


def restarts() -> dict[str, int]:
    """By owner and name, for the metrics."""
    total: Counter[str] = Counter()
    for owner in owners():
        total.update({f"{owner.name}/{name}": count for name, count in owner.restarts.items()})
    return dict(total)
