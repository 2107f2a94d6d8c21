"""A thread that waits for the disk, so that the event loop does not."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from collections.abc import Callable

Done = Callable[[BaseException | None], None]
Job = tuple[Callable[[], None], Done, float]
_LATE = 0.003
"""Seconds that a job waited for its start, although the thread was idle: the event loop does not
let go of the interpreter."""
_HURRY_SECONDS = 1.0
"""How long turns stay short after a job was late."""
_SHORT_TURN = 0.0005
"""Seconds after which the event loop lets another thread have the interpreter (all of Python's)."""
USUAL_TURN = sys.getswitchinterval()


class StoreThread:
    """Runs one thing at a time off the loop and says on the loop how it went."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._hurries_until = 0.0
        self.ended = 0.0
        """When the last job was over."""
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self._jobs.put((work, done, time.perf_counter()))

    async def run(self, work: Callable[[], None]) -> None:
        """The same for a caller who waits."""
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.submit(work, done)
        await future

    def close(self) -> None:
        """Returns when everything submitted has run."""
        self._jobs.put(None)
        self._thread.join()
        if self._hurries_until:
            sys.setswitchinterval(USUAL_TURN)

    def _run(self) -> None:
        while job := self._jobs.get():
            work, done, submitted = job
            self._set_turn(time.perf_counter(), submitted)
            error: BaseException | None = None
            try:
                work()
            except BaseException as problem:
                error = problem
            self.ended = time.perf_counter()
            self._loop.call_soon_threadsafe(done, error)

    def _set_turn(self, now: float, submitted: float) -> None:
        """While the event loop is busy all the time, have it let go of the interpreter sooner.

        A commit needs the interpreter several times, and waits for a turn of the event loop each
        time. Short turns cost more when there is no need for them: commits are smaller then.
        """
        if now - submitted > _LATE:
            if not self._hurries_until:
                sys.setswitchinterval(_SHORT_TURN)
            self._hurries_until = now + _HURRY_SECONDS
        elif self._hurries_until and now > self._hurries_until:
            self._hurries_until = 0.0
            sys.setswitchinterval(USUAL_TURN)
