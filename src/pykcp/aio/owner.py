"""Who owns a task: every task has a name, an owner and an end.

An owner starts tasks in order, hears when one fails, and stops them in reverse.
A task that ends with an error takes the owner down, unless it was started as
restartable; then the error is logged and the task runs again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 0.2, 30.0

Body = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class OwnedTask:
    name: str
    task: asyncio.Task[None]
    started: float = field(default_factory=time.monotonic)
    restarts: int = 0


class TaskOwner:
    """A named group of tasks with one life."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: dict[str, OwnedTask] = {}
        self._failure: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._failure = asyncio.get_running_loop().create_future()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()
        if self._failure is not None and not self._failure.done():
            self._failure.cancel()

    def start(self, name: str, body: Body) -> None:
        """Run a task whose failure is the owner's failure."""
        self._check_free(name)
        self._spawn(name, self._guard(name, body))

    def start_restartable(self, name: str, body: Body) -> None:
        """Run a task that is started again when it fails, with growing pauses."""
        self._check_free(name)
        self._spawn(name, self._keep_running(name, body))

    def _check_free(self, name: str) -> None:
        if name in self._tasks:
            raise ValueError(f"task {name} is already running")

    def _spawn(self, name: str, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        assert isinstance(task, asyncio.Task)
        task.set_name(f"{self.name}/{name}")
        self._tasks[name] = OwnedTask(name, task)
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def _guard(self, name: str, body: Body) -> None:
        try:
            await body()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # handed to whoever waits on the owner
            _log.exception("task %s/%s failed", self.name, name)
            if self._failure is not None and not self._failure.done():
                self._failure.set_exception(error)

    async def _keep_running(self, name: str, body: Body) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await body()
            except asyncio.CancelledError:
                raise
            except Exception:  # it is started again; the log says why
                _log.exception("task %s/%s failed, starting it again", self.name, name)
            else:
                return
            if time.monotonic() - began > _LAST_PAUSE:
                pause = _FIRST_PAUSE
            self._tasks[name].restarts += 1
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)

    async def failure(self) -> None:
        """Wait until a task fails; raises its error."""
        assert self._failure is not None
        await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Cancel the tasks in reverse order and wait for each."""
        for owned in reversed(list(self._tasks.values())):
            owned.task.cancel()
            try:
                await owned.task
            except asyncio.CancelledError:
                if (current := asyncio.current_task()) is not None and current.cancelling():
                    raise
            except Exception:
                _log.exception("task %s/%s failed while stopping", self.name, owned.name)

    def describe(self) -> str:
        """A line per task: name, age, restarts."""
        now = time.monotonic()
        lines = [f"{self.name}: {len(self._tasks)} tasks"]
        lines += [
            f"  {t.name:<40} {now - t.started:8.1f}s  restarts {t.restarts}"
            for t in self._tasks.values()
        ]
        return "\n".join(lines) + "\n"
