"""Watchers, and groups of them that want the same in the same form."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from pykcp.registry.codec import fill, reopen
from pykcp.storage.interface import Event, Store

TermsFilter = Callable[[str], bool]
Trailers = Sequence[tuple[str, str]]


class Channel(Protocol):
    """Writes the same bytes to several sinks, for less than each of them would."""

    def write_to_all(self, sinks: Sequence[Any], data: bytes) -> int:
        """The largest backlog of these sinks afterwards."""


class Sink(Protocol):
    """Where a watcher's bytes go: a wire stream, a socket, a test's list.

    A sink that shares its connection with others has that as its `channel`.
    """

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
        "channel",
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
        self.channel: Channel | None = getattr(sink, "channel", None)
        self.since = since
        self.wants_bookmarks, self.wants_progress = wants_bookmarks, wants_progress
        self.deadline: asyncio.TimerHandle | None = None
        self.on_end: Callable[[], None] | None = None
        self.is_open = True
        self.slot = 0
        self.group: WatchGroup | None = None


class Portion(NamedTuple):
    """Some members of a group that get an event together."""

    channel: Channel | None
    """None: each has a connection of its own."""
    watchers: Sequence[Watcher]


_PORTION = 100


class WatchGroup:
    """Watchers of one prefix with one filter and one encoding."""

    __slots__ = (
        "_portions",
        "encoder",
        "hides",
        "is_ended",
        "key",
        "matches",
        "prefix",
        "watchers",
    )

    def __init__(
        self,
        prefix: str,
        key: object,
        matches: TermsFilter | None,
        encoder: EventEncoder,
        hides: Callable[[Event], bool] | None = None,
    ) -> None:
        self.prefix = prefix
        self.key = key
        self.matches = matches
        self.encoder = encoder
        self.hides = hides
        """What is no event to these watchers."""
        self.watchers: dict[Watcher, None] = {}
        self._portions: Sequence[Portion] | None = None
        self.is_ended = False
        """Its watchers get nothing any more and are about to be ended."""

    def add(self, watcher: Watcher) -> None:
        self.watchers[watcher] = None
        self._portions = None

    def remove(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)
        self._portions = None

    def portions(self) -> Sequence[Portion]:
        """All members, those of one connection together. It is made anew when they change."""
        if self._portions is None:
            channels: dict[Channel | None, list[Watcher]] = {}
            for watcher in self.watchers:
                channels.setdefault(watcher.channel, []).append(watcher)
            alone = [*channels.pop(None, ())]
            found: list[Portion] = []
            for channel, members in channels.items():
                if len(members) == 1:
                    alone += members
                else:
                    found += _divided(channel, members)
            self._portions = (*found, *_divided(None, alone))
        return self._portions

    def kind_of(self, event: Event) -> str | None:
        """What the event is to these watchers: an object may enter or leave a selection."""
        if self.hides is not None and self.hides(event):
            return None
        matches = self.matches
        if matches is None:
            return "DELETED" if event.deleted else "ADDED" if event.created else "MODIFIED"
        before = not event.created and matches(event.previous_terms)
        after = not event.deleted and matches(event.terms)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def _divided(channel: Channel | None, watchers: Sequence[Watcher]) -> Iterator[Portion]:
    for start in range(0, len(watchers), _PORTION):
        yield Portion(channel, watchers[start : start + _PORTION])


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
