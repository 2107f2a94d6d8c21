"""An event loop in a thread, for callers that do not await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")


class Portal:
    """Runs coroutines in a thread of its own; `close` it at the end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pykcp", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine. Interrupting the caller cancels it."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a handler that the client calls cannot wait for the client")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call(self, function: Callable[[], Result]) -> Result:
        """What a function returns that has to be called in the thread."""

        async def called() -> Result:
            return function()

        return self.run(called())

    def iterate(self, items: AsyncIterator[Result]) -> Iterator[Result]:
        """The items one by one; closing the iterator closes the source."""
        try:
            while True:
                try:
                    item = self.run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                self.run(close())

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _next(items: AsyncIterator[Result]) -> Result:
    return await anext(items)
