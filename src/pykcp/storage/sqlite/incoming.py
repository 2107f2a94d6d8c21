"""Parts of other shards: rows that are staged in a table of their own, then adopted.

`incoming` holds the rows of parts that are on their way, `imports` one row for each part: how far
it is, and since when its history is complete after it was adopted. Both tables are made when the
first part arrives.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredChange, StoredRow
from pykcp.storage.interface import TERM_SEPARATOR
from pykcp.storage.keys import end_of_prefix, part_of
from pykcp.storage.moving import Adoption, IncomingRow
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.storage.sqlite import scans, tables
from pykcp.storage.sqlite.files import read_meta, write_meta
from pykcp.storage.terms import join_indexes, split_indexes
from pykcp.storage.values import Value

_SCHEMA = """
CREATE TABLE IF NOT EXISTS incoming(
    part TEXT NOT NULL, seq INTEGER NOT NULL, key TEXT NOT NULL, deleted INTEGER NOT NULL,
    terms TEXT NOT NULL, indexes TEXT NOT NULL, head BLOB NOT NULL, tail BLOB NOT NULL,
    PRIMARY KEY(part, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS imports(
    part TEXT PRIMARY KEY, note TEXT NOT NULL, base INTEGER NOT NULL,
    adopted INTEGER NOT NULL) WITHOUT ROWID;
"""
_EXISTS = "SELECT count(*) FROM sqlite_schema WHERE name = 'imports'"
_STAGE = "INSERT OR REPLACE INTO incoming VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
_NOTE = (
    "INSERT INTO imports VALUES(?, ?, 0, 0)"
    " ON CONFLICT(part) DO UPDATE SET note = excluded.note, base = 0, adopted = 0"
)
_ROWS = (
    "SELECT seq, key, deleted, terms, indexes, head, tail FROM incoming"
    " WHERE part = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
)
_ROWS_OF_KEYS = _ROWS.replace(" ORDER BY", " AND key IN (SELECT value FROM json_each(?4)) ORDER BY")
_CHANGED = (
    "SELECT key FROM incoming WHERE part = ? GROUP BY key HAVING count(*) > 1 OR max(deleted) = 1"
)
_UNCHANGED = "part = ?1 AND key NOT IN (SELECT value FROM json_each(?2))"
"""Rows of keys with one value: nearly all."""
_LOG_UNCHANGED = (
    "INSERT INTO log(seq, key, prev, flags, terms, value)"  # noqa: S608 — constants only
    f" SELECT seq, key, 0, {tables.CREATED}, terms, CAST(head || seq || tail AS BLOB)"
    f" FROM incoming WHERE {_UNCHANGED} ORDER BY seq"
)
_POINT_UNCHANGED = (
    "INSERT INTO current(key, seq, deleted, terms, indexes)"  # noqa: S608
    f" SELECT key, seq, 0, terms, indexes FROM incoming WHERE {_UNCHANGED} ORDER BY key"
)
_INDEX_UNCHANGED = (
    "WITH RECURSIVE entries(key, entry, rest) AS ("  # noqa: S608
    f"SELECT key, '', indexes FROM incoming WHERE indexes <> '' AND {_UNCHANGED} UNION ALL"
    " SELECT key, substr(rest, 1, instr(rest || ?3, ?3) - 1),"
    " substr(rest, instr(rest || ?3, ?3) + 1) FROM entries WHERE rest <> '')"
    " INSERT OR IGNORE INTO idx(term, key)"
    " SELECT entry, key FROM entries WHERE entry <> '' ORDER BY entry, key"
)
_IS_STAGED = "SELECT 1 FROM imports WHERE part = ? AND adopted = 0"
_TIDY = (
    "DELETE FROM incoming WHERE part = ?1 AND seq <="
    " (SELECT max(seq) FROM (SELECT seq FROM incoming WHERE part = ?1 ORDER BY seq LIMIT ?2))"
)
_TIDY_ALL = "DELETE FROM incoming WHERE part NOT IN (SELECT part FROM imports WHERE adopted = 0)"
_ROWS_PER_STEP = 500
_Staged = list[tuple[int, PutKey | DeleteKey]]


class ImportState(NamedTuple):
    note: str
    adoption: Adoption | None


def make_tables(connection: sqlite3.Connection) -> None:
    for statement in filter(str.strip, _SCHEMA.split(";")):
        connection.execute(statement)


def read_all(connection: sqlite3.Connection) -> dict[str, ImportState]:
    (exists,) = connection.execute(_EXISTS).fetchone()
    if not exists:
        return {}
    rows = connection.execute("SELECT part, note, base, adopted FROM imports")
    return {
        part: ImportState(note, Adoption(base, adopted) if adopted else None)
        for part, note, base, adopted in rows
    }


def stage(
    connection: sqlite3.Connection, part: str, rows: Sequence[IncomingRow], note: str
) -> None:
    make_tables(connection)
    if connection.execute(_IS_STAGED, (part,)).fetchone() is None:
        # It was here before, and the process ended before everything of that was removed.
        connection.execute("DELETE FROM incoming WHERE part = ?", (part,))
    connection.executemany(_STAGE, [_staged_row(part, row) for row in rows])
    connection.execute(_NOTE, (part, note))


def _staged_row(part: str, row: IncomingRow) -> tuple[object, ...]:
    operation, (head, tail) = row.operation, row.operation.value
    terms, indexes = "", ""
    if isinstance(operation, PutKey):
        terms, indexes = operation.terms, join_indexes(operation.indexes)
    is_deletion = isinstance(operation, DeleteKey)
    return part, row.revision, operation.key, is_deletion, terms, indexes, head, tail


def discard(connection: sqlite3.Connection, part: str) -> None:
    make_tables(connection)
    connection.execute("DELETE FROM incoming WHERE part = ?", (part,))
    connection.execute("DELETE FROM imports WHERE part = ?", (part,))


def forget_adopted(connection: sqlite3.Connection, compacted: int) -> None:
    """Those whose history is complete again because all before is compacted."""
    if read_all(connection):
        done = "DELETE FROM imports WHERE adopted > 0 AND adopted <= ?"
        connection.execute(done, (compacted,))
        connection.execute(_TIDY_ALL)


def tidy(connection: sqlite3.Connection, part: str) -> bool:
    """Remove some of the rows that were staged of an adopted part; whether there may be more."""
    if connection.execute(_IS_STAGED, (part,)).fetchone() is not None:
        return False  # it comes again
    removed = connection.execute(_TIDY, (part, _ROWS_PER_STEP)).rowcount
    return removed == _ROWS_PER_STEP


def adopt(
    connection: sqlite3.Connection, part: str, base: int, revision: int, step: int
) -> Adoption:
    """In the open transaction; `revision`: newer than all others, as are those in steps after it."""
    _forget_part(connection, part)
    taken = _taken(connection, part)
    if taken:
        revision = _apply_newest(connection, part, taken, revision, step)
        base = revision
    else:
        _apply_all(connection, part)
        # What was staged long ago may lie below what is swept already.
        write_meta(connection, "swept", min(read_meta(connection, "swept"), base))
    # The staged rows are removed later: writes of the part wait meanwhile.
    connection.execute(
        "UPDATE imports SET base = ?, adopted = ? WHERE part = ?", (base, revision, part)
    )
    return Adoption(base, revision)


def _apply_all(connection: sqlite3.Connection, part: str) -> None:
    """Everything with its history. Nothing of the part is in the other tables before.

    Writes of the part wait meanwhile: rows of keys that were not changed while the part was copied
    are written by a few statements, without taking the interpreter's lock for each of them.
    """
    changed = [row[0] for row in connection.execute(_CHANGED, (part,))]
    given = (part, json.dumps(changed))
    connection.execute(_LOG_UNCHANGED, given)
    connection.execute(_POINT_UNCHANGED, given)
    connection.execute(_INDEX_UNCHANGED, (*given, TERM_SEPARATOR))
    if changed:
        for rows in _staged(connection, part, changed):
            _apply(connection, rows)


def _apply(connection: sqlite3.Connection, rows: _Staged) -> None:
    known: dict[str, StoredRow] = {}
    changes: list[StoredChange] = []
    for seq, operation in rows:
        row = known.get(operation.key) or tables.find(connection, operation.key)
        change = planning.change(operation, row, seq)
        known[change.key] = planning.row_after(change)
        changes.append(change)
    tables.apply(connection, changes)


def _apply_newest(
    connection: sqlite3.Connection, part: str, taken: frozenset[int], revision: int, step: int
) -> int:
    """Both stores have counted: no history, and new revisions for rows whose number is in use."""
    for rows in _newest(connection, part):
        kept: _Staged = []
        for seq, operation in rows:
            if isinstance(operation, DeleteKey):
                continue
            if seq in taken:
                revision += step
            kept.append((revision if seq in taken else seq, operation))
        _apply(connection, kept)
    return revision


def newest_rows(connection: sqlite3.Connection, part: str) -> Iterator[list[PutKey | DeleteKey]]:
    """The last change of each key that is staged of a part."""
    for rows in _newest(connection, part):
        yield [operation for _, operation in rows]


def _newest(connection: sqlite3.Connection, part: str) -> Iterator[_Staged]:
    query = "SELECT key, max(seq) FROM incoming WHERE part = ? GROUP BY key"
    newest = dict(connection.execute(query, (part,)).fetchall())
    for rows in _staged(connection, part):
        yield [(seq, operation) for seq, operation in rows if newest[operation.key] == seq]


def _staged(
    connection: sqlite3.Connection, part: str, keys: Sequence[str] | None = None
) -> Iterator[_Staged]:
    """All that is staged of a part, or of some of its keys, in the order of revisions."""
    query, given = (_ROWS, ()) if keys is None else (_ROWS_OF_KEYS, (json.dumps(keys),))
    after = -1
    while rows := connection.execute(query, (part, after, _ROWS_PER_STEP, *given)).fetchall():
        after = rows[-1][0]
        yield [
            (seq, DeleteKey(key, Value(head, tail)))
            if deleted
            else (seq, PutKey(key, Value(head, tail), terms, tuple(split_indexes(indexes))))
            for seq, key, deleted, terms, indexes, head, tail in rows
        ]


def _taken(connection: sqlite3.Connection, part: str) -> frozenset[int]:
    """Revisions of the part that rows of this store have, too: both counted them."""
    rows = connection.execute(
        "SELECT i.seq FROM incoming i JOIN log l ON l.seq = i.seq WHERE i.part = ?", (part,)
    )
    return frozenset(row[0] for row in rows)


def _forget_part(connection: sqlite3.Connection, part: str) -> None:
    """Remove rows that the part left here when it was on this shard before: their revisions
    are those that now come back."""
    for prefix in scans.part_prefixes(connection, part):
        rows = connection.execute(
            "SELECT key, seq, indexes FROM current WHERE key >= ? AND key < ?",
            (prefix, end_of_prefix(prefix)),
        ).fetchall()
        for key, seq, indexes in rows:
            while seq:
                found = connection.execute("SELECT prev FROM log WHERE seq = ?", (seq,)).fetchone()
                connection.execute("DELETE FROM log WHERE seq = ?", (seq,))
                seq = found[0] if found else 0
            connection.execute("DELETE FROM current WHERE key = ?", (key,))
            for term in split_indexes(indexes):
                connection.execute(tables.DROP_INDEX, (term, key))


def complete_since(imports: dict[str, ImportState], prefix: str) -> int:
    """Since when the history below a prefix is complete, as far as imports matter."""
    part = part_of(prefix)
    if part:
        found = imports.get(part)
        return found.adoption.base if found is not None and found.adoption is not None else 0
    return max((one.adoption.revision for one in imports.values() if one.adoption), default=0)
