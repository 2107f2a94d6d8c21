"""Watches of kinds that a webhook converts: events wait for their conversion, in order.

The hub writes what is stored; a sink of this module collects that, has it converted (all
that has come in the meantime in one call) and writes it on in the form of the watch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

import orjson

from pykcp.aio.owner import spawn_detached
from pykcp.machinery.status import StatusError
from pykcp.registry.conversion.webhook import StorageConversion
from pykcp.registry.watch.watchers import Sink, Trailers
from pykcp.storage.interface import Event

_READY = ord("{")


class EventLines(Protocol):
    """How a watch writes events down."""

    form: object

    def event(self, kind: str, event: Event) -> bytes: ...

    def initial(self, kind: str, value: bytes) -> bytes: ...

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes: ...


class RawEncoder:
    """Events as `<type> <stored value>`; what is ready to be sent begins with a brace."""

    def __init__(self, lines: EventLines) -> None:
        self._lines = lines
        self.form: object = ("raw", lines.form)

    def event(self, kind: str, event: Event) -> bytes:
        return self.initial(kind, event.value)

    def initial(self, kind: str, value: bytes) -> bytes:
        return b"%b %b" % (kind.encode(), value)

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self._lines.bookmark(revision, is_initial_end=is_initial_end)


class ConvertingSink:
    """Between the hub and a stream. Only while something waits, a task is at work."""

    def __init__(self, sink: Sink, lines: EventLines, webhook: StorageConversion) -> None:
        self._sink, self._lines, self._webhook = sink, lines, webhook
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
            self._task = spawn_detached(self._work(), "watch/conversion")

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

    async def _send(self, batch: list[bytes]) -> None:
        events = [line.partition(b" ") for line in batch if line[0] != _READY]
        converted = iter(await self._webhook.of_events([value for _, _, value in events]))
        kinds = iter([kind.decode() for kind, _, _ in events])
        for line in batch:
            is_ready = line[0] == _READY
            self._sink.write(
                line if is_ready else self._lines.initial(next(kinds), next(converted))
            )
