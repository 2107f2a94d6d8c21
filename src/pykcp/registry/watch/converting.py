"""Watches of kinds that a webhook converts: events wait for their conversion, in order.

The hub writes what is stored; a sink of this module collects that, has it converted (all
that has come in the meantime in one call) and writes it on in the form of the watch.
"""

from __future__ import annotations

from typing import Protocol

from pykcp.registry.conversion.webhook import StorageConversion
from pykcp.registry.watch.waiting import WaitingSink
from pykcp.registry.watch.watchers import Sink
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


class ConvertingSink(WaitingSink):
    """Converts events before they go on."""

    def __init__(self, sink: Sink, lines: EventLines, webhook: StorageConversion) -> None:
        super().__init__(sink, "watch/conversion")
        self._lines, self._webhook = lines, webhook

    async def _send(self, batch: list[bytes]) -> None:
        events = [line.partition(b" ") for line in batch if line[0] != _READY]
        converted = iter(await self._webhook.of_events([value for _, _, value in events]))
        kinds = iter([kind.decode() for kind, _, _ in events])
        for line in batch:
            is_ready = line[0] == _READY
            self._sink.write(
                line if is_ready else self._lines.initial(next(kinds), next(converted))
            )
