"""From etcd's events to changes of the mirror. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from pykcp.storage import changes as planning
from pykcp.storage.changes import Find, StoredChange, StoredRow
from pykcp.storage.etcd.envelope import PLACES, Envelope, Keyspace, unpack
from pykcp.storage.etcd.epochs import Epochs, revision_of


class EtcdEvent(NamedTuple):
    revision: int
    key: bytes
    value: bytes | None
    """None: deleted."""


class EtcdOutcome(NamedTuple):
    """One of our requests as etcd has carried it out: the places of what was written."""

    request: int
    revision: int
    places: frozenset[int]


class Decoded(NamedTuple):
    changes: list[StoredChange]
    outcomes: list[EtcdOutcome]
    foreign: list[bytes]
    """Keys below the prefix whose values were not written by this program."""


def decode(
    events: Iterable[EtcdEvent],
    keyspace: Keyspace,
    find: Find,
    last_value: Callable[[str], bytes],
    writer: int,
    epochs: Epochs,
) -> Decoded:
    """What the events mean. `last_value` is for deletions that left no grave."""
    decoded = Decoded([], [], [])
    rows: dict[str, StoredRow] = {}

    def find_now(key: str) -> StoredRow | None:
        return rows.get(key) or find(key)

    for revision, group in groupby(events, attrgetter("revision")):
        offset = epochs.offset_at(revision)
        transaction = EtcdRevision(revision, offset, keyspace, list(group), decoded.foreign)
        for change in transaction.changes(find_now, last_value):
            rows[change.key] = planning.row_after(change)
            decoded.changes.append(change)
        decoded.outcomes.extend(transaction.outcomes(writer))
    return decoded


class EtcdRevision:
    """All events of one etcd revision."""

    def __init__(
        self,
        revision: int,
        offset: int,
        keyspace: Keyspace,
        events: Sequence[EtcdEvent],
        foreign: list[bytes],
    ) -> None:
        self._revision, self._offset = revision, offset
        self._puts: list[tuple[str, Envelope]] = []
        self._deleted: list[str] = []
        self._graves: dict[str, Envelope] = {}
        for event in events:
            try:
                self._add(event, keyspace)
            except ValueError:
                foreign.append(event.key)

    def _add(self, event: EtcdEvent, keyspace: Keyspace) -> None:
        """Raises ValueError for what none of us has written."""
        if keyspace.is_data(event.key):
            key = keyspace.key_of(event.key)
            if event.value is None:
                self._deleted.append(key)
            else:
                self._puts.append((key, unpack(event.value)))
        elif keyspace.is_grave(event.key) and event.value is not None:
            envelope = unpack(event.value)
            self._graves[envelope.terms] = envelope

    def changes(self, find: Find, last_value: Callable[[str], bytes]) -> list[StoredChange]:
        made = [self._replaced(key, envelope, find(key)) for key, envelope in self._puts]
        spare = PLACES
        for key in self._deleted:
            row = find(key)
            if row is None or row.deleted:
                continue
            spare -= 1
            made.append(self._buried(key, row, spare, last_value))
        made.sort()
        return made

    def outcomes(self, writer: int) -> list[EtcdOutcome]:
        places: dict[int, set[int]] = {}
        for envelope in (*(envelope for _, envelope in self._puts), *self._graves.values()):
            if envelope.writer == writer:
                places.setdefault(envelope.request, set()).add(envelope.place)
        return [
            EtcdOutcome(request, self._revision, frozenset(found))
            for request, found in places.items()
        ]

    def _replaced(self, key: str, envelope: Envelope, row: StoredRow | None) -> StoredChange:
        revision = revision_of(self._revision, envelope.offset, envelope.place)
        value = rendered(envelope, revision)
        return planning.replacement(key, row, revision, value, envelope.terms, envelope.indexes)

    def _buried(
        self, key: str, row: StoredRow, spare_place: int, last_value: Callable[[str], bytes]
    ) -> StoredChange:
        grave = self._graves.get(key)
        if grave is None:  # not deleted by one of us: its last known value has to do
            revision = revision_of(self._revision, self._offset, spare_place)
            return planning.deletion(key, row, revision, last_value(key))
        revision = revision_of(self._revision, grave.offset, grave.place)
        return planning.deletion(key, row, revision, rendered(grave, revision))


def rendered(envelope: Envelope, revision: int) -> bytes:
    head, tail = envelope.value
    return b"%b%d%b" % (head, revision, tail)
