"""Writing: how changes become rows.

Every value is written once, into the log; the table of current keys points into
it. A deleted key stays in the table as a tombstone until compaction, because
reads at older revisions find their way from the newest row of a key back along
`prev`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from operator import attrgetter

from pykcp.storage.changes import StoredChange, StoredRow
from pykcp.storage.terms import split_indexes

CREATED, DELETED = 1, 2
"""Flags of a log row."""

FIND = "SELECT seq, deleted, terms, indexes FROM current WHERE key = ?"
APPEND = "INSERT INTO log(seq, key, prev, flags, terms, value) VALUES(?, ?, ?, ?, ?, ?)"
POINT = (
    "INSERT INTO current(key, seq, deleted, terms, indexes) VALUES(?, ?, ?, ?, ?)"
    " ON CONFLICT(key) DO UPDATE SET seq = excluded.seq, deleted = excluded.deleted,"
    " terms = excluded.terms, indexes = excluded.indexes"
)
ADD_INDEX = "INSERT OR IGNORE INTO idx(term, key) VALUES(?, ?)"
DROP_INDEX = "DELETE FROM idx WHERE term = ? AND key = ?"
_ADD_MANY = (
    "INSERT OR IGNORE INTO idx(term, key) SELECT value, ?1 FROM json_each(?2) ORDER BY value"
)
_DROP_MANY = "DELETE FROM idx WHERE key = ?1 AND term IN (SELECT value FROM json_each(?2))"
_MANY = 256
"""Entries above which one statement is used for all: the interpreter's lock is taken again after
each, which takes milliseconds while the event loop is busy."""


def find(connection: sqlite3.Connection, key: str) -> StoredRow | None:
    found = connection.execute(FIND, (key,)).fetchone()
    return StoredRow(found[0], found[1] != 0, found[2], found[3]) if found else None


def apply(connection: sqlite3.Connection, changes: Sequence[StoredChange]) -> None:
    """Write the changes, in order, within the open transaction."""
    connection.executemany(APPEND, map(log_row, changes))
    newest = {change.key: change for change in changes} if len(changes) > 1 else None
    connection.executemany(POINT, map(current_row, newest.values() if newest else changes))
    reindexed = [change for change in changes if change.indexes != change.previous_indexes]
    if reindexed:
        update_indexes(connection, reindexed)


def log_row(change: StoredChange) -> tuple[int, str, int, int, str, bytes]:
    flags = DELETED if change.deleted else CREATED if change.created else 0
    return change.revision, change.key, change.previous, flags, change.terms, change.value


current_row = attrgetter("key", "revision", "deleted", "terms", "indexes")
"""The row of a change in the table of current keys."""


def update_indexes(connection: sqlite3.Connection, changes: Iterable[StoredChange]) -> None:
    for change in changes:
        before = set(split_indexes(change.previous_indexes))
        after = set(split_indexes(change.indexes))
        _change_index(connection, DROP_INDEX, _DROP_MANY, change.key, before - after)
        _change_index(connection, ADD_INDEX, _ADD_MANY, change.key, after - before)


def _change_index(
    connection: sqlite3.Connection, one: str, many: str, key: str, terms: set[str]
) -> None:
    if len(terms) > _MANY:
        connection.execute(many, (key, json.dumps(list(terms))))
    elif terms:
        connection.executemany(one, [(term, key) for term in terms])
