"""Watches whose events are made of decoded objects: those of large objects wait for a worker process.

An event of a small object is made when it is committed. One of a large object is written to a sink
of this module as it is stored; a task has it made, once for all watches that see it alike, and
writes it on. Events that come in the meantime wait behind it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from pykcp.aio.owner import spawn
from pykcp.aio.resting import rest
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.registry.watch.waiting import WaitingSink
from pykcp.registry.watch.watchers import Sink
from pykcp.storage.interface import Event


class SlowLines(Protocol):
    """How a watch writes events down, where that may take long."""

    form: object
    can_wait: bool
    """Whether a worker process can do it, too."""

    @property
    def shared(self) -> object:
        """Equal for watches whose events have the same texts."""

    def event(self, kind: str, event: Event) -> bytes: ...

    def initial(self, kind: str, value: bytes) -> bytes: ...

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes: ...

    async def text_elsewhere(self, kind: str, value: bytes) -> bytes:
        """What is long of an event, by a worker process."""

    def with_text(self, kind: str, value: bytes, text: bytes) -> bytes:
        """The event with that text."""


async def line_of(lines: SlowLines, kind: str, value: bytes) -> bytes:
    """An event of a stored value."""
    try:
        with bounded(lines.can_wait):
            return lines.initial(kind, value)
    except Outgrown:
        return await elsewhere(lines, kind, value)


async def elsewhere(lines: SlowLines, kind: str, value: bytes) -> bytes:
    return lines.with_text(kind, value, await lines.text_elsewhere(kind, value))


def raw(kind: str, value: bytes) -> bytes:
    """A stored value, not yet made into an event."""
    return b"%b %b" % (kind.encode(), value)


def is_raw(line: bytes) -> bool:
    """Lines of JSON begin with a brace, frames of protobuf with the first octet of their length."""
    return line[0] in _INITIALS


_INITIALS = b"AMD"


class DeferringEncoder:
    """Events as they are sent, or raw if they take long."""

    def __init__(self, lines: SlowLines) -> None:
        self._lines = lines
        self.form: object = ("deferring", lines.form)

    def event(self, kind: str, event: Event) -> bytes:
        try:
            with bounded():
                return self._lines.event(kind, event)
        except Outgrown:
            return _raw_event(kind, event)

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self._lines.bookmark(revision, is_initial_end=is_initial_end)


def _raw_event(kind: str, event: Event) -> bytes:
    """The same bytes for all watches."""
    memo = event.memo
    if memo is None:
        memo = event.memo = {}
    key = ("raw", kind)
    found = memo.get(key)
    if found is None:
        found = memo[key] = raw(kind, event.value)
    return found


class DeferringSink(WaitingSink):
    """Writes events on when they are made."""

    def __init__(self, sink: Sink, lines: SlowLines) -> None:
        super().__init__(sink, "watch/large-events")
        self._lines = lines

    def write(self, data: bytes) -> None:
        if self._task is None and not is_raw(data):
            self._sink.write(data)
        else:
            super().write(data)

    async def _send(self, batch: list[bytes]) -> None:
        for line in batch:
            if not is_raw(line):
                self._sink.write(line)
                continue
            text = await _shared_text(self._lines, line)
            await rest()  # all who waited for it are ready now
            kind, _, value = line.partition(b" ")
            self._sink.write(self._lines.with_text(kind.decode(), value, text))


_making: dict[tuple[object, bytes], asyncio.Task[bytes]] = {}
"""Texts that are on their way."""


async def _shared_text(lines: SlowLines, line: bytes) -> bytes:
    key = (lines.shared, line)
    making = _making.get(key)
    if making is None:
        kind, _, value = line.partition(b" ")
        making = spawn(lines.text_elsewhere(kind.decode(), value), "watch/large-event")
        _making[key] = making
        making.add_done_callback(lambda _: _making.pop(key, None))
    return await asyncio.shield(making)
