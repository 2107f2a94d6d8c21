"""Watchers, and groups of them that want the same in the same form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from pykcp.registry.codec import fill, reopen
from pykcp.storage.interface import Event, Store

TermsFilter = Callable[[str], bool]
Trailers = Sequence[tuple[str, str]]


class Sink(Protocol):
    """Where a watcher's bytes go: a wire stream, a socket, a test's list."""

    @property
    def backlog(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def end(self, trailers: Trailers = ()) -> None: ...


class EventEncoder(Protocol):
    """How a group of watchers sees events; instances are compared by `form`."""

    form: object

    def event(self, kind: str, event: Event) -> bytes: ...

    def bookmark(self, revision: int, *, is_initial_end: bool) -> bytes: ...


class Watcher:
    """One open watch."""

    __slots__ = (
        "deadline",
        "group",
        "is_open",
        "on_end",
        "since",
        "sink",
        "slot",
        "wants_bookmarks",
        "wants_progress",
    )

    def __init__(
        self, sink: Sink, since: int, *, wants_bookmarks: bool, wants_progress: bool = False
    ) -> None:
        """`wants_progress`: a bookmark whenever there is reason to send one."""
        self.sink = sink
        self.since = since
        self.wants_bookmarks, self.wants_progress = wants_bookmarks, wants_progress
        self.deadline: asyncio.TimerHandle | None = None
        self.on_end: Callable[[], None] | None = None
        self.is_open = True
        self.slot = 0
        self.group: WatchGroup | None = None


class WatchGroup:
    """Watchers of one prefix with one filter and one encoding."""

    __slots__ = ("encoder", "is_ended", "key", "matches", "prefix", "watchers")

    def __init__(
        self, prefix: str, key: object, matches: TermsFilter | None, encoder: EventEncoder
    ) -> None:
        self.prefix = prefix
        self.key = key
        self.matches = matches
        self.encoder = encoder
        self.watchers: dict[Watcher, None] = {}
        self.is_ended = False
        """Its watchers get nothing any more and are about to be ended."""

    def kind_of(self, event: Event) -> str | None:
        """What the event is to these watchers: an object may enter or leave a selection."""
        matches = self.matches
        if matches is None:
            return "DELETED" if event.deleted else "ADDED" if event.created else "MODIFIED"
        before = not event.created and matches(event.previous_terms)
        after = not event.deleted and matches(event.terms)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def departed(store: Store, event: Event) -> Event:
    """An object that left a selection, as watchers last knew it, at the revision it left."""
    value = store.get_before(event.key, event.revision)
    if value is None:
        return event  # the old state is already compacted; the new one selects the watchers as well
    value = fill(reopen(value), event.revision)
    return Event(
        event.revision,
        event.key,
        value,
        event.terms,
        event.previous_terms,
        created=False,
        deleted=False,
    )
