"""A sink whose events have to wait for something before they go on, in order."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque

import orjson

from pykcp.aio.owner import spawn_detached
from pykcp.machinery.status import StatusError
from pykcp.registry.watch.watchers import Sink, Trailers


class WaitingSink(ABC):
    """Between the hub and a stream. Only while something waits, a task is at work."""

    def __init__(self, sink: Sink, task_name: str) -> None:
        self._sink, self._task_name = sink, task_name
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._is_ending = False
        self._trailers: Trailers = ()
        self._task: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        return self._size + self._sink.backlog

    @property
    def closed(self) -> bool:
        return self._is_ending or self._sink.closed

    def write(self, data: bytes) -> None:
        if self.closed:
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._task is None:
            self._task = spawn_detached(self._work(), self._task_name)

    def end(self, trailers: Trailers = ()) -> None:
        """No more will come; what waits is still sent."""
        self._is_ending, self._trailers = True, trailers
        if self._task is None:
            self._sink.end(trailers)

    async def drain(self) -> None:
        if self._task is not None:
            await asyncio.wait((self._task,))
        drain = getattr(self._sink, "drain", None)
        if drain is not None:
            await drain()

    async def _work(self) -> None:
        try:
            while self._waiting and not self._sink.closed:
                batch, size = list(self._waiting), self._size
                self._waiting.clear()
                await self._send(batch)
                self._size -= size
        except StatusError as error:
            self._is_ending = True
            self._sink.write(b'{"type":"ERROR","object":%b}\n' % orjson.dumps(error.to_json()))
        except BaseException:
            self._is_ending = True
            raise
        finally:
            self._task = None
            if self._is_ending and not self._sink.closed:
                with contextlib.suppress(ConnectionError):
                    self._sink.end(self._trailers)

    @abstractmethod
    async def _send(self, batch: list[bytes]) -> None:
        """Write to the stream what becomes of these."""
