"""How revisions of the store follow from etcd's, which cannot be advanced. Pure.

A revision of the store is etcd's revision plus an offset, then the place of the operation in its
request. The offset is zero until the store is advanced, as shards do that move logical clusters
to each other or answer one query together. Then a higher offset is stored in etcd, and an *epoch*
begins with etcd's revision of that write.

Every value contains the offset of its epoch, so its revision is known without the list of epochs;
and every request fails if an epoch has begun that its writer does not know. So revisions rise with
etcd's on all servers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykcp.storage.etcd.envelope import PLACE_BITS, PLACES


class Epoch(NamedTuple):
    since: int
    """The first revision of etcd's in it, or of a value that was written in it."""
    offset: int


class Epochs:
    """Those of which there are values, in order; offsets rise with revisions."""

    def __init__(self, known: Iterable[Epoch] = (), record: int = 0) -> None:
        self._known = [Epoch(0, 0)]
        self.record = record
        """etcd's revision of the stored offset; 0: none is stored."""
        for epoch in known:
            self.learn(*epoch)

    def __iter__(self) -> Iterator[Epoch]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def offset(self) -> int:
        return self._known[-1].offset

    def begin(self, record: int, offset: int) -> None:
        """An offset was stored in etcd by a write with this revision."""
        self.record = record
        self.learn(record, offset)

    def learn(self, since: int, offset: int) -> None:
        """There is a value with this offset that was written at this revision of etcd's."""
        place = bisect_right(self._known, offset, key=_offset)
        before = self._known[place - 1]
        if before.offset != offset:
            self._known.insert(place, Epoch(since, offset))
        elif since < before.since:
            self._known[place - 1] = Epoch(since, offset)

    def offset_at(self, etcd_revision: int) -> int:
        if etcd_revision >= self._known[-1].since:
            return self._known[-1].offset
        return self._known[bisect_right(self._known, etcd_revision, key=_since) - 1].offset

    def newest_of(self, etcd_revision: int) -> int:
        """The newest revision of the store when etcd is at this one."""
        return etcd_revision + self.offset_at(etcd_revision) << PLACE_BITS | PLACES - 1

    def etcd_revision_of(self, revision: int) -> int:
        """etcd's revision when the store was at this one."""
        number = revision >> PLACE_BITS
        place = bisect_right(self._known, number, key=_first_number) - 1
        found = number - self._known[place].offset
        if place + 1 < len(self._known):  # revisions between two epochs were never given out
            found = min(found, self._known[place + 1].since - 1)
        return found

    def given_out_at(self, revision: int) -> int:
        """etcd's revision of the write that got this one; -1: it was never given out."""
        found = self.etcd_revision_of(revision)
        return found if found + self.offset_at(found) == revision >> PLACE_BITS else -1

    def offset_for(self, revision: int, applied: int) -> int:
        """An offset with which everything that etcd writes after `applied` is newer."""
        return max(self.offset, (revision >> PLACE_BITS) - applied)

    def without(self, unused: Iterable[Epoch]) -> Epochs:
        dropped = set(unused)
        return Epochs((epoch for epoch in self._known if epoch not in dropped), self.record)


def revision_of(etcd_revision: int, offset: int, place: int) -> int:
    return etcd_revision + offset << PLACE_BITS | place


def _since(epoch: Epoch) -> int:
    return epoch.since


def _offset(epoch: Epoch) -> int:
    return epoch.offset


def _first_number(epoch: Epoch) -> int:
    return epoch.since + epoch.offset
