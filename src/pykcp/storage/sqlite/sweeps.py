"""Compaction: deletes superseded rows and shrinks the file, in small steps.

A row can be deleted when the next row of its key is below the compacted revision, because
no read can then see the older one. That next row references it (`prev`), so a scan of the
rows below the compacted revision finds all rows to delete without an index. An old
tombstone is deleted itself, together with its key.

Each step is part of a batch of the group commit: it takes one or two milliseconds, and its
progress is committed with it, so that an interrupted compaction continues where it stopped.
Afterwards the file is truncated in intermissions of the group commit.
"""

from __future__ import annotations

import sqlite3

from pykcp.storage.sqlite.files import PAGE_BYTES, read_meta, write_meta
from pykcp.storage.sqlite.tables import DELETED

ROWS_PER_STEP = 128
BYTES_PER_STEP = 1 << 20
PAGES_PER_STEP = 256
SPARE_PAGES = 1024
"""Free pages that are kept: the next writes would only have to grow the file again."""
SPARE_SHARE = 8
"""… and one in so many of all pages."""

OLD_ROWS = (
    "SELECT l.seq, l.key, l.flags, l.prev, coalesce(length(p.value), 0)"
    " FROM log l LEFT JOIN log p ON p.seq = l.prev"
    " WHERE l.seq > ? AND l.seq <= ? ORDER BY l.seq LIMIT ?"
)


def sweep(connection: sqlite3.Connection, target: int) -> bool:
    """One step towards having forgotten all before `target`; True: there is more to do."""
    swept = read_meta(connection, "swept")
    rows = connection.execute(OLD_ROWS, (swept, target, ROWS_PER_STEP)).fetchall()
    superseded: list[tuple[int]] = []
    tombstones: list[tuple[str, int]] = []
    size = 0
    for seq, key, flags, previous, previous_size in rows:
        if previous:
            superseded.append((previous,))
        if flags & DELETED:
            tombstones.append((key, seq))
        swept, size = seq, size + previous_size
        if size > BYTES_PER_STEP:
            break
    connection.executemany("DELETE FROM log WHERE seq = ?", superseded)
    connection.executemany("DELETE FROM current WHERE key = ? AND seq = ?", tombstones)
    connection.executemany("DELETE FROM log WHERE seq = ?", [(seq,) for _, seq in tombstones])
    is_more = len(rows) == ROWS_PER_STEP or size > BYTES_PER_STEP
    write_meta(connection, "compacted", target)
    write_meta(connection, "swept", swept if is_more else target)
    return is_more


def excess_pages(connection: sqlite3.Connection) -> int:
    """How many free pages should be given back."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return max(0, int(free) - max(SPARE_PAGES, int(pages) // SPARE_SHARE))


def used_bytes(connection: sqlite3.Connection) -> int:
    """What is in use of the file, without free pages and the write-ahead log."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return (int(pages) - int(free)) * PAGE_BYTES


def shrink(connection: sqlite3.Connection, pages: int) -> None:
    """Give free pages back to the file system, in a transaction of its own."""
    # Only a script is run to its end: the pragma frees one page with each (empty) row.
    connection.executescript(f"PRAGMA incremental_vacuum({pages})")


def set_erasing(connection: sqlite3.Connection, *, is_on: bool) -> None:
    """Whether deleted rows are overwritten with zeros from now on.

    What was deleted before is still in unused parts of the file, so when it is switched on
    the file is written anew, once.
    """
    was_on = bool(read_meta(connection, "erasing"))
    if is_on:
        connection.execute("PRAGMA secure_delete=ON").close()
    if is_on and not was_on:
        connection.execute("VACUUM").close()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    if is_on != was_on:
        write_meta(connection, "erasing", int(is_on))
