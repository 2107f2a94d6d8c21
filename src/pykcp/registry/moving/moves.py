"""Which logical clusters have left this shard, and which are on their way to it.

Both are read from the store when the process starts and followed from then on, so that all
servers of a shard know them. There are few: departures are forgotten after a day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from pykcp.registry.moving.records import (
    ARRIVING,
    DEPARTED,
    Arrival,
    Departure,
    arrival_from,
    departure_from,
)
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.interface import Event, Store

_ARRIVAL_SECONDS = 5.0
"""How long requests wait for a logical cluster that is about to be served here."""


class _Left(NamedTuple):
    """Between which revisions rows of a logical cluster are here, but not the cluster."""

    since: int
    until: float


class ClusterMoves:
    def __init__(self, store: Store, hub: WatchHub) -> None:
        self._store, self._hub = store, hub
        self.departed: dict[str, Departure] = {}
        self.arriving: dict[str, Arrival] = {}
        self._awaited: dict[str, asyncio.Event] = {}
        self._left: dict[str, _Left] = {}
        self._leaving: set[str] = set()
        """Those that have departed, and of which something is still here."""
        self._cleaned_at = 0
        """The revision since which nothing is here of the others."""
        for prefix in (DEPARTED, ARRIVING):
            for key in store.keys(prefix):
                entry = store.get(key)
                if entry is not None:
                    self._note(key, entry.value, entry.revision)
        store.listen(self._follow, (DEPARTED, ARRIVING))

    def __bool__(self) -> bool:
        return bool(self.departed or self.arriving)

    def shard_of(self, name: str) -> str:
        """The shard that a logical cluster has moved to; "" if it has not."""
        departure = self.departed.get(name)
        return departure.shard if departure is not None else ""

    def is_arriving(self, name: str) -> bool:
        return name in self.arriving

    def origin_of(self, name: str) -> str:
        """The shard that still serves a logical cluster which arrives here; "" if none does."""
        arrival = self.arriving.get(name)
        return arrival.shard if arrival is not None and not arrival.is_due else ""

    def hidden_at(self, revision: int) -> Collection[str]:
        """Logical clusters that are on another shard, although rows of them are here as of then."""
        if not self._leaving and revision >= self._cleaned_at:
            return ()
        return {
            cluster for cluster, (since, until) in self._left.items() if since < revision < until
        }

    def _note_left(self, departure: Departure, noted_at: int) -> None:
        cluster = departure.cluster
        if departure.is_cleaned:
            self._leaving.discard(cluster)
            self._cleaned_at = max(self._cleaned_at, noted_at)
            self._left[cluster] = _Left(departure.revision, noted_at)
        else:
            self._leaving.add(cluster)
            self._left[cluster] = _Left(departure.revision, inf)

    async def all_arrived(self) -> None:
        """Return when all that other shards may have given away are here, or after some seconds."""
        due = [name for name, arrival in self.arriving.items() if arrival.is_due]
        if due:
            await asyncio.gather(*map(self.arrived, due))

    async def arrived(self, name: str) -> None:
        """Return when a logical cluster has arrived, or after some seconds."""
        if name not in self.arriving:
            return  # it has arrived since this was asked for
        event = self._awaited.setdefault(name, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(_ARRIVAL_SECONDS):
                await event.wait()

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith((DEPARTED, ARRIVING)):
                self._changed(event)

    def _changed(self, event: Event) -> None:
        cluster = event.key.rpartition("/")[2]
        if event.deleted:
            self._forget(event.key, cluster)
        else:
            self._note(event.key, event.value, event.revision)

    def _note(self, key: str, value: bytes, revision: int) -> None:
        if key.startswith(ARRIVING):
            arrival = arrival_from(value)
            self.arriving[arrival.cluster] = arrival
        else:
            departure = departure_from(value)
            self.departed[departure.cluster] = departure
            self._note_left(departure, revision)
            self._store.refuse(departure.cluster, departure.shard)
            self._hub.end_moved(departure.cluster, departure.shard, departure.revision)

    def _forget(self, key: str, cluster: str) -> None:
        if key.startswith(ARRIVING):
            self.arriving.pop(cluster, None)
            awaited = self._awaited.pop(cluster, None)
            if awaited is not None:
                awaited.set()
        elif self.departed.pop(cluster, None) is not None:
            self._left.pop(cluster, None)
            self._leaving.discard(cluster)
            self._store.release(cluster)
            self._hub.forget_moved(cluster)
