"""Removes expired workspaces from the trash.

Records are stored in the order of their deletion, so only the first has to be looked at, and
there is one timer for it. Workspaces that were being restored when the server stopped go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pykcp.clients.interface import Change, ShardFeed
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.meta import parse_rfc3339
from pykcp.machinery.status import Conflict, StatusError
from pykcp.registry import trash
from pykcp.registry.trash import record_from
from pykcp.registry.verbs.restore import Trash

NAME = "pykcp-trash"
_START = "start"
_NEXT = ""
"""Stands for the first record that is due."""
_AT_A_TIME = 16
_RESTORED_AFTER = 10.0

_log = logging.getLogger(__name__)


class TrashSweeping:
    def __init__(
        self,
        bin_: Trash,
        clock: Callable[[], float] = time.time,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._trash, self._clock = bin_, clock
        self.controller: Controller[str] = Controller(
            NAME, self.reconcile, workers=2, metrics=metrics
        )

    def follow(self, feed: ShardFeed) -> None:
        feed.on_resource(trash.RECORDS.rstrip("/"), self._on_record)
        feed.at_start(self._resume)

    def _on_record(self, change: Change) -> None:
        if change.created:
            self.controller.add_after(_NEXT, self._trash.window)
        elif not change.deleted:
            record = record_from(change.value)
            if record.state:  # by then it is done, unless another shard did not answer
                self.controller.add_after(record.key, _RESTORED_AFTER)

    async def _resume(self) -> None:
        self.controller.add(_START)
        for key in self._trash.unfinished():
            self.controller.add(key)
        self.controller.add(_NEXT)

    async def reconcile(self, key: str) -> float | None:
        if key == _START:
            for step in self._trash.at_start:
                await step()
            return None
        if key == _NEXT:
            return await self._sweep()
        try:
            await self._trash.resume(key)
        except StatusError as error:
            if error.code >= 500 or isinstance(error, Conflict):
                raise  # tried again
            _log.warning("a workspace could not be removed from the trash: %s", error)
        return None

    async def _sweep(self) -> float | None:
        """Sweep what is due; how many seconds until there is more."""
        after = ""
        while True:
            page = await self._trash.records_after(after, _AT_A_TIME)
            for value in page.values:
                record = record_from(value)
                left = parse_rfc3339(record.deleted_at) + self._trash.window - self._clock()
                if left > 0:
                    return left
                if not record.state:
                    await self._trash.forget(record)
            if not page.next_after:
                return None
            after = page.next_after
