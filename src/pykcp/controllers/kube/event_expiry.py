"""Events older than their time to live are removed.

Each event carries the minute of its last write as an index entry, so a minute's events are
found when it has expired, without reading any others. A minute is a key of the queue, delayed
until then; there are none while there are no events. The day is an index entry too: that is
how minutes are found again at start, however long the server was away.
"""

from __future__ import annotations

import asyncio
import calendar
import time
from collections.abc import Callable

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import EVENTS
from pykcp.machinery.status import Conflict
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import event_entry, event_written

NAME = "event-expiry"
_DAY, _MINUTE = "%Y-%m-%d", "%Y-%m-%dT%H:%M"
_DAYS_BACK = 400
_LONGEST_DELAY = 86400.0
_AT_A_TIME = 32
_PAGE = 512


class EventExpiry:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        ttl: float,
        clock: Callable[[], float] = time.time,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._ttl, self._clock = lister, client, ttl, clock
        self._last_planned = ""
        self.controller: Controller[str] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(EVENTS, self._on_event)
        feed.at_start(self._resume)

    def _on_event(self, change: Change) -> None:
        if change.deleted:
            return
        # The change reported here is the event's last write, within a second.
        self._plan(event_written(decode(change.value))[:16])

    def _plan(self, minute: str) -> None:
        if minute == self._last_planned:
            return  # the ordinary case: one of many events of the present minute
        self._last_planned = minute
        self.controller.add_after(minute, self._seconds_until_expiry(minute))

    def _seconds_until_expiry(self, minute: str) -> float:
        """At most a day at a time: clocks are set, and clients can write odd times."""
        try:
            began = calendar.timegm(time.strptime(minute, _MINUTE))
        except ValueError:
            return 0.0
        return min(max(0.0, began + 60 + self._ttl - self._clock()), _LONGEST_DELAY)

    async def _resume(self) -> None:
        """Plan the minutes of events from before; those long expired come at once."""
        today = int(self._clock()) // 86400 * 86400
        for day in range(today + 86400, today - _DAYS_BACK * 86400, -86400):
            if self._has(time.strftime(_DAY, time.gmtime(day))):
                for minute in range(day, day + 86400, 60):
                    text = time.strftime(_MINUTE, time.gmtime(minute))
                    if self._has(text):
                        self._plan(text)
                await asyncio.sleep(0)

    def _has(self, moment: str) -> bool:
        return bool(self._lister.find(event_entry(moment), EVENTS, limit=1))

    async def reconcile(self, minute: str) -> float | None:
        """Remove what was last written in an expired minute."""
        if delay := self._seconds_until_expiry(minute):
            return delay
        if minute == self._last_planned:
            self._last_planned = ""
        after: ObjectRef | None = None
        while found := self._lister.find(event_entry(minute), EVENTS, after=after, limit=_PAGE):
            after = found[-1]
            for start in range(0, len(found), _AT_A_TIME):
                batch = found[start : start + _AT_A_TIME]
                await asyncio.gather(*(self._remove(ref, minute) for ref in batch))
        return None

    async def _remove(self, ref: ObjectRef, minute: str) -> None:
        value = self._lister.value(ref)
        if value is None or event_written(decode(value))[:16] != minute:
            return  # it was written to again, and has another minute now
        metadata = metadata_of(value)
        cluster, namespace, name = ref.key
        try:
            await self._client.delete(
                cluster, EVENTS, name, namespace,
                uid=metadata.uid, resource_version=metadata.resource_version,
            )  # fmt: skip
        except Conflict:
            return  # likewise
