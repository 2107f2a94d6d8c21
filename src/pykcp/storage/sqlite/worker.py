"""A thread that waits for the disk, so that the event loop does not."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

Done = Callable[[BaseException | None], None]
Job = tuple[Callable[[], None], Done]


class StoreThread:
    """Runs one thing at a time off the loop and says on the loop how it went."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self._jobs.put((work, done))

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

    def _run(self) -> None:
        while job := self._jobs.get():
            work, done = job
            error: BaseException | None = None
            try:
                work()
            except BaseException as problem:
                error = problem
            self._loop.call_soon_threadsafe(done, error)
