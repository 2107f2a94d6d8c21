"""Taking a segment of a store on SQLite tables while a server writes to it.

The log is read in the order of revisions, some rows at a time, each in a transaction of its own:
a server is never kept from resetting its write-ahead log. Rows of the log do not change, and new
ones are always behind those that were read; so the last transaction, which finds fewer rows than
it asked for, completes a state that existed.

After each transaction it rests for longer than that took. A lower priority alone does not help
where the scheduler shares CPU time between sessions or control groups first, and the backup is
the only one in its own.

There are two exceptions. Compaction removes rows: if it went beyond where this segment began,
deletions may be missing, and the segment lists all keys that exist. And a logical cluster that
was adopted from another shard has older revisions: its rows are all taken.
"""

from __future__ import annotations

import pathlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from pykcp.storage.backup.manifest import BackupError
from pykcp.storage.backup.segments import LogRow, SegmentWriter
from pykcp.storage.keys import end_of_prefix
from pykcp.storage.sqlite import files, incoming, scans

ROWS = 500
"""Of one transaction: about 10 ms."""
_REST = 3.0
"""A quarter of the CPU time of one core is used at most, and less where others need it as well."""
_LONGEST_REST = 0.25
"""Seconds. The machine may have been suspended, or is busy: the backup has to end some time."""
_SELECT = (
    "SELECT l.seq, l.key, l.flags, l.terms, c.indexes, l.value FROM log l"
    " LEFT JOIN current c ON c.key = l.key AND c.seq = l.seq"
)
_LOG = f"{_SELECT} WHERE l.seq > ? ORDER BY l.seq LIMIT ?"
_PART = (
    "SELECT l.seq, l.key, l.flags, l.terms, c.indexes, l.value FROM current c"
    " CROSS JOIN log l ON l.seq = c.seq WHERE c.key >= ? AND c.key < ? AND c.deleted = 0"
)
_KEYS = "SELECT key FROM current WHERE deleted = 0 ORDER BY key"


class Captured(NamedTuple):
    """What a segment holds."""

    until: int
    oldest: int
    slot: int
    time: float
    """What was acknowledged before is in it."""


class Source:
    """The file of a store, or the mirror of one on etcd, opened beside the server that writes it."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        if not path.is_file():
            raise BackupError(f"there is no store at {path}")
        try:
            self._connection = files.connect(path)
            files.check(self._connection, path)
            self._connection.execute("PRAGMA query_only=ON").close()
        except sqlite3.Error as error:
            raise files.translate(error, path) from error

    def close(self) -> None:
        self._connection.close()

    @property
    def lineage(self) -> str:
        """Differs from one store to another, and after a restore."""
        return files.read_text(self._connection, "lineage")

    @property
    def newest(self) -> int:
        return self._connection.execute(scans.NEWEST).fetchone()[0] or 0

    def capture(
        self, since: int, writer: SegmentWriter, rest: Callable[[float], None] = time.sleep
    ) -> Captured:
        """Write everything after a revision (0: all there is). Raises StoreError."""
        try:
            return self._capture(since, writer, rest)
        except sqlite3.Error as error:
            raise files.translate(error, self._path) from error

    def _capture(
        self, since: int, writer: SegmentWriter, rest: Callable[[float], None]
    ) -> Captured:
        last, newest = since, self.newest
        base = since or files.read_meta(self._connection, "compacted")
        while True:
            moment, began = time.time(), time.perf_counter()
            with self._snapshot() as connection:
                rows = [LogRow(*row) for row in connection.execute(_LOG, (last, ROWS))]
                writer.add_rows(rows)
                last = rows[-1].revision if rows else last
                if len(rows) < ROWS:
                    return self._complete(connection, base, last, moment, writer)
            if last < newest:  # what is written meanwhile is caught up with, without rests
                rest(min(_REST * (time.perf_counter() - began), _LONGEST_REST))

    def _complete(
        self,
        connection: sqlite3.Connection,
        base: int,
        until: int,
        moment: float,
        writer: SegmentWriter,
    ) -> Captured:
        """`base`: where the segment begins; all rows after it were there at the beginning."""
        oldest = min(base, until)
        for part, state in incoming.read_all(connection).items():
            if state.adoption is not None and state.adoption.revision > base:
                writer.replace_part(part)
                for prefix in scans.part_prefixes(connection, part):
                    found = connection.execute(_PART, (prefix, end_of_prefix(prefix)))
                    writer.add_rows([LogRow(*row) for row in found])
                oldest = until
        if files.read_meta(connection, "compacted") > base:
            writer.add_keys([row[0] for row in connection.execute(_KEYS)])
            oldest = until
        return Captured(until, oldest, files.read_meta(connection, "slot"), moment)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN")
        try:
            yield self._connection
        finally:
            self._connection.execute("ROLLBACK")


@contextmanager
def opened(path: pathlib.Path) -> Iterator[Source]:
    with closing(Source(path)) as source:
        yield source
