"""A store on SQLite from the segments of a backup, as it was at one revision.

It has no history: watches from before the restore have to list again. Its revision is set ahead
of all that the lost store may have given out since, so that no client takes an old revision that
it remembers for one of the new log.
"""

from __future__ import annotations

import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from pykcp.storage.backup.segments import KnownKeys, Line, LogRow, PartReplaced
from pykcp.storage.keys import part_of
from pykcp.storage.numbering import EPOCH_MILLISECONDS, at_milliseconds
from pykcp.storage.sqlite import files, tables
from pykcp.storage.terms import split_indexes

SPARE_REVISIONS = 1_000_000
REVISIONS_PER_SECOND = 1_000
"""How far ahead the revision of a restored store is set: by more than the lost one can have
written since, if it did not write more than that every second, all the time."""
_BATCH = 1000
_APPEND = "INSERT OR REPLACE INTO log(seq, key, prev, flags, terms, value) VALUES(?, ?, 0, ?, ?, ?)"
_POINT = (
    "INSERT INTO current(key, seq, deleted, terms, indexes) VALUES(?, ?, ?, ?, ?)"
    " ON CONFLICT(key) DO UPDATE SET seq = excluded.seq, deleted = excluded.deleted,"
    " terms = excluded.terms, indexes = excluded.indexes WHERE excluded.seq >= current.seq"
)
_UNKNOWN = "?"
"""In place of index entries that the segment does not have."""

Reindex = Callable[[str, bytes, str], str]
"""The index entries of a row, joined, from its key, value and terms."""


class Rebuilt(NamedTuple):
    objects: int
    revision: int
    """What the store is at now."""


class Rebuilding:
    """A new file that segments are applied to, one after the other."""

    def __init__(self, path: pathlib.Path) -> None:
        files.make_private_file(path)
        self._connection = files.connect(path, synchronous="OFF")
        files.create(self._connection)
        self._connection.create_function("part_of", 1, part_of, deterministic=True)
        self._connection.execute("CREATE TEMP TABLE known(key TEXT PRIMARY KEY) WITHOUT ROWID")

    def close(self) -> None:
        self._connection.close()

    def apply(self, lines: Iterable[Line], until: int) -> None:
        """Apply a segment, but nothing that is newer than a revision."""
        connection, lists_keys = self._connection, False
        connection.execute("BEGIN")
        for batch in _batches(lines):
            first = batch[0]
            if isinstance(first, PartReplaced):
                connection.execute("DELETE FROM current WHERE part_of(key) = ?", (first.part,))
            elif isinstance(first, KnownKeys):
                lists_keys = True
                found = [(key,) for key in first.keys]
                connection.executemany("INSERT OR IGNORE INTO known VALUES(?)", found)
            else:
                self._add([row for row in batch if isinstance(row, LogRow)], until)
        if lists_keys:
            connection.execute("DELETE FROM current WHERE key NOT IN (SELECT key FROM known)")
            connection.execute("DELETE FROM known")
        connection.execute("COMMIT")

    def _add(self, rows: list[LogRow], until: int) -> None:
        rows = [row for row in rows if row.revision <= until]
        self._connection.executemany(
            _APPEND, [(row.revision, row.key, row.flags, row.terms, row.value) for row in rows]
        )
        self._connection.executemany(
            _POINT,
            [
                (
                    row.key,
                    row.revision,
                    bool(row.flags & tables.DELETED),
                    row.terms,
                    _UNKNOWN if row.indexes is None else row.indexes,
                )
                for row in rows
            ],
        )

    def finish(self, revision: int, slot: int, taken_at: float, reindex: Reindex) -> Rebuilt:
        """Remove what is superseded, add the index, set the revision ahead."""
        connection = self._connection
        connection.execute("BEGIN")
        connection.execute("DELETE FROM current WHERE deleted != 0")
        connection.execute("DELETE FROM log WHERE seq NOT IN (SELECT seq FROM current)")
        connection.execute("UPDATE log SET flags = ?", (tables.CREATED,))
        self._reindex(reindex)
        ahead = raised(revision, slot, time.time() - taken_at)
        for name in ("compacted", "reserved", "swept"):
            files.write_meta(connection, name, ahead)
        if slot:
            files.write_meta(connection, "slot", slot)
        (objects,) = connection.execute("SELECT count(*) FROM current").fetchone()
        connection.execute("COMMIT")
        connection.execute("PRAGMA synchronous=FULL").close()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
        return Rebuilt(objects, ahead)

    def _reindex(self, reindex: Reindex) -> None:
        connection = self._connection
        unknown = connection.execute(
            "SELECT c.key, l.value, c.terms FROM current c JOIN log l ON l.seq = c.seq"
            " WHERE c.indexes = ?",
            (_UNKNOWN,),
        ).fetchall()
        connection.executemany(
            "UPDATE current SET indexes = ? WHERE key = ?",
            [(reindex(key, value, terms), key) for key, value, terms in unknown],
        )
        rows = connection.execute("SELECT key, indexes FROM current WHERE indexes != ''")
        entries = ((term, key) for key, joined in rows.fetchall() for term in split_indexes(joined))
        connection.executemany(tables.ADD_INDEX, entries)


def raised(revision: int, slot: int, seconds: float) -> int:
    """The revision of a restored store, `seconds` after the lost one was at `revision`."""
    if slot:  # a hybrid clock: nothing that was given out is newer than the present time
        return max(revision, at_milliseconds(time.time_ns() // 1_000_000 - EPOCH_MILLISECONDS))
    return revision + SPARE_REVISIONS + int(max(0.0, seconds)) * REVISIONS_PER_SECOND


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Rows some at a time, everything else alone, in order."""
    rows: list[Line] = []
    for line in lines:
        if not isinstance(line, LogRow):
            if rows:
                yield rows
                rows = []
            yield [line]
            continue
        rows.append(line)
        if len(rows) >= _BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def rebuild(
    path: pathlib.Path,
    segments: Iterable[Iterable[Line]],
    revision: int,
    slot: int,
    taken_at: float,
    reindex: Reindex,
) -> Rebuilt:
    """Make a store from segments. Raises StoreError; what was written is left behind then."""
    try:
        with closing(Rebuilding(path)) as made:
            for lines in segments:
                made.apply(lines, revision)
            return made.finish(revision, slot, taken_at, reindex)
    except sqlite3.Error as error:
        raise files.translate(error, path) from error
