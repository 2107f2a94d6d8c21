"""Watches of kinds that a webhook converts: events wait for their conversion, in order.

The hub writes what is stored; a sink of this module collects that, has it converted (all
that has come in the meantime in one call) and writes it on in the form of the watch.
"""

from __future__ import annotations

from pykcp.registry.conversion.webhook import StorageConversion
from pykcp.registry.watch.deferring import SlowLines, is_raw, line_of, raw
from pykcp.registry.watch.waiting import WaitingSink
from pykcp.registry.watch.watchers import Sink
from pykcp.storage.interface import Event


class RawEncoder:
    """Events as `<type> <stored value>`; what is ready to be sent begins otherwise."""

    def __init__(self, lines: SlowLines) -> None:
        self._lines = lines
        self.form: object = ("raw", lines.form)

    def event(self, kind: str, event: Event) -> bytes:
        return self.initial(kind, event.value)

    def initial(self, kind: str, value: bytes) -> bytes:
        return raw(kind, value)

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes:
        return self._lines.bookmark(revision, is_initial_end=is_initial_end)


class ConvertingSink(WaitingSink):
    """Converts events before they go on."""

    def __init__(self, sink: Sink, lines: SlowLines, webhook: StorageConversion) -> None:
        super().__init__(sink, "watch/conversion")
        self._lines, self._webhook = lines, webhook

    async def _send(self, batch: list[bytes]) -> None:
        events = [line.partition(b" ") for line in batch if is_raw(line)]
        converted = iter(await self._webhook.of_events([value for _, _, value in events]))
        kinds = iter([kind.decode() for kind, _, _ in events])
        for line in batch:
            made = line
            if is_raw(line):
                made = await line_of(self._lines, next(kinds), next(converted))
            self._sink.write(made)
