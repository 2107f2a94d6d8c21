"""Where controllers hear of changes: the log of the store, first what it still holds, then live.

There are no caches: a handler sees the event, decides from its bytes whether it matters and
adds a key to a queue. At start the retained log is read again in the background, so that work
which a crash interrupted is found again; handlers are level-based and do not mind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pykcp.storage.errors import Compacted
from pykcp.storage.interface import Event, Store
from pykcp.storage.keys import TRASH

_log = logging.getLogger(__name__)

Handler = Callable[[Event], None]
"""Called as events commit: must be quick, and neither wait nor write."""

EVERYTHING = ""
_PAGE = 500


class LogFeed:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_prefix: dict[str, list[Handler]] = {}
        self._of_all: list[Handler] = []
        self._resumes: list[Callable[[], Awaitable[None]]] = []
        self._after: dict[str, int] = {}
        self._until = 0
        self._unlisten: Callable[[], None] | None = None

    def on(self, prefix: str, handler: Handler) -> None:
        """Call the handler for events of one resource (its key prefix), or of EVERYTHING."""
        handlers = self._of_all if prefix == EVERYTHING else self._by_prefix.setdefault(prefix, [])
        handlers.append(handler)

    def at_start(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Run this once in the background, after the log: work found by index."""
        self._resumes.append(resume)

    def start(self) -> None:
        """Follow from now on; `run` then reads what was before."""
        self._until = self._store.revision
        self._unlisten = self._store.listen(self.deliver)

    def stop(self) -> None:
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def deliver(self, events: Sequence[Event]) -> None:
        by_prefix, of_all = self._by_prefix, self._of_all
        for event in events:
            key = event.key
            handlers = by_prefix.get(key[: key.index("/", key.index("/") + 1) + 1])
            if handlers:
                _call(handlers, event)
            if of_all and key[0] != TRASH:
                _call(of_all, event)

    async def run(self) -> None:
        """Read the retained log, then resume by index; ends when both are done.

        A run that failed goes on where it was.
        """
        prefixes = (EVERYTHING,) if self._of_all else tuple(self._by_prefix)
        for prefix in prefixes:
            await self._replay(prefix)
        while self._resumes:
            await self._resumes[0]()
            del self._resumes[0]

    async def _replay(self, prefix: str) -> None:
        store = self._store
        while True:
            after = max(self._after.get(prefix, 0), store.compacted)
            if after >= self._until:
                return
            try:
                events = await store.history(prefix, after, self._until, _PAGE)
            except Compacted:
                continue  # it was compacted meanwhile: what is gone is found by index
            self.deliver(events)
            done = events[-1].revision if len(events) >= _PAGE else self._until
            self._after[prefix] = done
            await asyncio.sleep(0)


def _call(handlers: list[Handler], event: Event) -> None:
    for handler in handlers:
        try:
            handler(event)
        except Exception:  # one controller's mistake must not blind the others
            _log.exception("a handler of %s failed", event.key)
