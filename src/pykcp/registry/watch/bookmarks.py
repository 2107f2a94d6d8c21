"""Bookmarks, spread over time: a timer serves one slot of watchers after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context

from pykcp.registry.watch.watchers import Watcher

BOOKMARK_PERIOD = 20.0
_SLOTS = 12
_AT_ONCE = 200
"""Bookmarks that are sent before the loop is given to others."""


class BookmarkSchedule:
    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[Watcher], None]) -> None:
        """`send`: gives a watcher its bookmark, if this is the moment for it."""
        self._loop, self._send = loop, send
        self._slots: list[dict[Watcher, None]] = [{} for _ in range(_SLOTS)]
        self._next_slot = 0
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def add(self, watcher: Watcher) -> None:
        watcher.slot = self._next_slot = (self._next_slot + 1) % _SLOTS
        self._slots[watcher.slot][watcher] = None
        if self._timer is None:
            self._timer = self._wake_later()

    def _wake_later(self) -> asyncio.TimerHandle:
        # Without the context of the watch that happens to start it, which would be kept for ever.
        return self._loop.call_later(BOOKMARK_PERIOD / _SLOTS, self._serve_slot, context=Context())

    def remove(self, watcher: Watcher) -> None:
        self._slots[watcher.slot].pop(watcher, None)

    def _serve_slot(self) -> None:
        self._turn = (self._turn + 1) % _SLOTS
        self._send_some(deque(self._slots[self._turn]))
        if any(self._slots):
            self._timer = self._wake_later()
        else:
            self._timer = None

    def _send_some(self, watchers: deque[Watcher]) -> None:
        for _ in range(min(_AT_ONCE, len(watchers))):
            self._send(watchers.popleft())
        if watchers:
            self._loop.call_soon(self._send_some, watchers)
