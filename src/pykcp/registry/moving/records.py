"""What is stored about moves, and the rows that travel. Pure.

Records lie under keys that no request reaches, like the trash:

    ~migration.pykcp.io/departed/system:moves//<cluster>   it is on another shard now
    ~migration.pykcp.io/arriving/system:moves//<cluster>   it is on its way to this shard
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykcp.registry import codec, trash
from pykcp.registry.keys import object_key
from pykcp.storage.interface import Entry, Event, Value
from pykcp.storage.keys import TRASH as MARK
from pykcp.storage.keys import part_of
from pykcp.storage.moving import ExportedRow, IncomingRow
from pykcp.storage.operations import DeleteKey
from pykcp.types import Object

CLUSTER = "system:moves"
DEPARTED = f"{MARK}migration.pykcp.io/departed/"
ARRIVING = f"{MARK}migration.pykcp.io/arriving/"


class Departure(NamedTuple):
    """A logical cluster that another shard has taken over."""

    cluster: str
    shard: str
    """Where it is now."""
    revision: int
    """The last one that was written to it here."""
    migration: str
    departed_at: str
    is_cleaned: bool = False
    """Nothing of it is left here."""

    @property
    def key(self) -> str:
        return object_key(DEPARTED, CLUSTER, "", self.cluster)

    def encoded(self) -> Value:
        return _encoded(self.cluster, self._asdict())


class Arrival(NamedTuple):
    """A logical cluster that this shard is taking over."""

    cluster: str
    shard: str
    """Where it comes from."""
    migration: str
    is_due: bool = False
    """Everything is here, and the other shard may have given it away; until then it serves it."""

    @property
    def key(self) -> str:
        return object_key(ARRIVING, CLUSTER, "", self.cluster)

    def encoded(self) -> Value:
        return _encoded(self.cluster, self._asdict())


def _encoded(name: str, fields: Object) -> Value:
    return codec.encode({"metadata": {"name": name}, **fields}, CLUSTER)


def departure_from(value: bytes) -> Departure:
    stored = codec.decode(value)
    return Departure(**{field: stored[field] for field in Departure._fields})


def arrival_from(value: bytes) -> Arrival:
    stored = codec.decode(value)
    # Records of earlier versions lack the fields that came later.
    return Arrival(**{field: stored[field] for field in Arrival._fields if field in stored})


class CopyProgress(NamedTuple):
    """How far a logical cluster that arrives has been copied; stored with its rows."""

    migration: str
    base: int
    """The revision that the first copy was made at."""
    after: str
    """The key that the first copy goes on from; "" when it is complete."""
    revision: int
    """Changes up to here were copied."""
    entries: int = 0
    is_copied: bool = False
    """The first copy is complete: changes follow."""
    is_complete: bool = False
    """The origin has held writes at `revision`: if it gives the cluster away, nothing is missing."""


class TravellingRow(NamedTuple):
    """A row as it is sent from shard to shard, with its plain value."""

    key: str
    revision: int
    terms: str
    value: str
    is_deleted: bool = False


def row_of(row: ExportedRow) -> TravellingRow:
    return TravellingRow(row.key, row.revision, row.terms, row.value.decode())


def rows_of_events(events: Sequence[Event], cluster: str) -> list[TravellingRow]:
    """The changes of one logical cluster among events of all of them."""
    return [
        TravellingRow(event.key, event.revision, event.terms, event.value.decode(), event.deleted)
        for event in events
        if part_of(event.key) == cluster
    ]


def incoming(row: TravellingRow) -> IncomingRow:
    """The change that a row stands for, with the index entries that its object has here."""
    value = row.value.encode()
    if row.is_deleted:
        return IncomingRow(DeleteKey(row.key, codec.reopen(value)), row.revision)
    return IncomingRow(
        trash.indexed(row.key, Entry(row.key, row.revision, value, row.terms)), row.revision
    )


def eviction(row: ExportedRow) -> DeleteKey:
    """What removes a row that another shard has now, as watchers see it."""
    return DeleteKey(row.key, codec.reopen(row.value), row.revision)
