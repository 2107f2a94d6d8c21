"""Listeners for committed batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.storage.interface import Event

logger = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
_MOST_RESOURCES = 1024
"""For which is remembered who is told of them."""


class _Listening(NamedTuple):
    callback: Listener
    prefixes: Sequence[str]

    def may_want(self, resource: str) -> bool:
        return not self.prefixes or any(
            prefix.startswith(resource) or resource.startswith(prefix) for prefix in self.prefixes
        )


class Listeners:
    def __init__(self) -> None:
        self._listening: dict[object, _Listening] = {}
        self._all: tuple[Listener, ...] = ()
        self._of_resource: dict[str, tuple[Listener, ...]] = {}

    def add(self, callback: Listener, prefixes: Sequence[str] = ()) -> Callable[[], None]:
        """`prefixes`: of the keys that matter; the callback may be told of others as well."""
        token = object()
        self._listening[token] = _Listening(callback, prefixes)
        self._changed()

        def stop() -> None:
            if self._listening.pop(token, None) is not None:
                self._changed()

        return stop

    def _changed(self) -> None:
        self._all = tuple(listening.callback for listening in self._listening.values())
        self._of_resource = {}

    def tell(self, events: Sequence[Event]) -> None:
        for callback in self._concerned(events):
            try:
                callback(events)
            except Exception:
                # The batch is committed; one listener's mistake must not keep it from the others.
                logger.exception("a listener of the store failed")

    def _concerned(self, events: Sequence[Event]) -> tuple[Listener, ...]:
        """Who is told of a batch. Most are of one resource, which few listeners are about."""
        if not events:
            return ()
        segments = events[0].key.split("/", 2)
        resource = f"{segments[0]}/{segments[1]}/" if len(segments) > 2 else ""
        for event in events:
            if not event.key.startswith(resource):
                return self._all
        found = self._of_resource.get(resource)
        if found is None:
            if len(self._of_resource) >= _MOST_RESOURCES:
                self._of_resource.clear()
            found = self._of_resource[resource] = tuple(
                listening.callback
                for listening in self._listening.values()
                if listening.may_want(resource)
            )
        return found
