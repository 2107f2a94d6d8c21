"""Listeners for committed batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pykcp.storage.interface import Event

logger = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]


class Listeners:
    def __init__(self) -> None:
        self._callbacks: dict[object, Listener] = {}

    def add(self, callback: Listener) -> Callable[[], None]:
        token = object()
        self._callbacks[token] = callback

        def stop() -> None:
            self._callbacks.pop(token, None)

        return stop

    def tell(self, events: Sequence[Event]) -> None:
        for callback in tuple(self._callbacks.values()):
            try:
                callback(events)
            except Exception:
                # The batch is committed; one listener's mistake must not keep it from the others.
                logger.exception("a listener of the store failed")
