"""Reading: points, ranges and history, at the newest or at an older revision.

A long scan runs in slices on a connection of its own, whose read transaction is
its snapshot: between slices the loop is free, and whatever is written meanwhile
is not seen. A short one never suspends.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import lru_cache
from operator import itemgetter
from time import perf_counter
from typing import Any

from pykcp.aio.resting import SLICE_SECONDS, ShortSlices
from pykcp.machinery.terms import matcher
from pykcp.storage import terms
from pykcp.storage.errors import StoreUnavailable
from pykcp.storage.interface import HISTORY_BYTES, Entry, Event, History, Query
from pykcp.storage.keys import end_of_prefix, resource_of, start_of_range
from pykcp.storage.moving import ExportedRow
from pykcp.storage.sqlite.tables import CREATED, DELETED

FIRST_ROWS = 4
ROWS_PER_FETCH = 256
KEYS_PER_COUNT = 20_000
ROWS_PER_HISTORY_STEP = 1_000
ROWS_PER_TEST = 32
ROWS_PER_WINDOW = 256
MOST_ROWS_PER_WINDOW = 4_096
FETCH_SECONDS = 0.004
"""How long SQLite may look for the next rows before it is interrupted."""
OPERATIONS_PER_LOOK = 4_000
"""Of its virtual machine, from one look at the clock to the next: some tenths of a millisecond."""

GET = (
    "SELECT c.seq, l.value, c.terms FROM current c CROSS JOIN log l ON l.seq = c.seq"
    " WHERE c.key = ? AND c.deleted = 0"
)
FIRST_KEY = "SELECT key FROM current WHERE key >= ? ORDER BY key LIMIT 1"
EXPORT = (
    "SELECT c.key, c.seq, c.deleted, c.terms, l.value, l.prev"
    " FROM current c CROSS JOIN log l ON l.seq = c.seq"
    " WHERE c.key >= ? AND c.key < ? ORDER BY c.key"
)
ARRIVALS = (
    "SELECT c.key, c.seq, c.terms, l.value FROM current c CROSS JOIN log l ON l.seq = c.seq"
    " WHERE c.key >= ? AND c.key < ? AND c.deleted = 0 ORDER BY c.key"
)
KEYS = "SELECT key FROM current WHERE key >= ? AND key < ? AND deleted = 0 ORDER BY key LIMIT ?"
NEWEST_OF = "SELECT seq FROM current WHERE key = ?"
NEWEST = "SELECT max(seq) FROM log"
OLDER = "SELECT seq, prev, flags, terms, value FROM log WHERE seq = ?"
LOOKUP = "SELECT key FROM idx WHERE term = ? AND key > ? ORDER BY key LIMIT ?"
COUNT = "SELECT count(*) FROM current WHERE key >= ? AND key < ? AND deleted = 0"
SKIP = "SELECT key FROM current WHERE key >= ? AND key < ? ORDER BY key LIMIT 1 OFFSET ?"
HISTORY_STEP = (
    "SELECT max(seq) FROM (SELECT seq FROM log WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?)"
)
EVENTS = (
    "SELECT l.seq, l.key, l.value, l.terms, l.flags, p.terms"
    " FROM log l LEFT JOIN log p ON p.seq = l.prev"
    " WHERE l.seq > ? AND l.seq <= ? AND l.key >= ? AND l.key < ? ORDER BY l.seq LIMIT ?"
)

NO_END = b""
"""In SQLite every text is smaller than every blob."""


class Readers:
    """Connections for scans, made when needed and kept."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], most: int) -> None:
        self._connect = connect
        self._most = most
        self._idle: list[sqlite3.Connection] = []
        self._count = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drained: Callable[[], None] | None = None
        self._is_held = False
        self._is_closed = True

    def open(self) -> None:
        self._is_closed = self._is_held = False

    async def take(self) -> sqlite3.Connection:
        while True:
            if self._is_closed:
                raise StoreUnavailable("the store is not running")
            if not self._is_held:
                if self._idle:
                    return self._idle.pop()
                if self._count < self._most:
                    connection = self._connect()
                    self._count += 1
                    return connection
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def give(self, connection: sqlite3.Connection) -> None:
        if self._is_closed:
            connection.close()
            return
        self._idle.append(connection)
        if self._is_held:
            self._tell_if_drained()
        else:
            self._wake(1)

    def drain(self, drained: Callable[[], None]) -> None:
        """Hold new scans back until `resume`; say when those under way are through."""
        self._is_held = True
        self._drained = drained
        self._tell_if_drained()

    def resume(self) -> None:
        if self._is_held:
            self._is_held = False
            self._wake(self._most)

    def _tell_if_drained(self) -> None:
        if self._drained is not None and len(self._idle) == self._count:
            drained, self._drained = self._drained, None
            drained()

    def _wake(self, count: int) -> None:
        while self._waiters and count:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def close(self) -> None:
        """Those in use are closed when they come back."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._count = 0
        self._is_closed = True


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[int]:
    """A read transaction; yields the newest revision in it."""
    connection.execute("BEGIN")
    try:
        yield connection.execute(NEWEST).fetchone()[0] or 0
    finally:
        connection.execute("ROLLBACK")


def get(connection: sqlite3.Connection, key: str) -> Entry | None:
    row = connection.execute(GET, (key,)).fetchone()
    return Entry(key, row[0], row[1], row[2]) if row else None


def keys(connection: sqlite3.Connection, prefix: str, limit: int = 0) -> list[str]:
    rows = connection.execute(KEYS, (*key_range(Query(prefix)), limit or -1))
    return [row[0] for row in rows]


def get_before(connection: sqlite3.Connection, key: str, revision: int) -> bytes | None:
    newest = connection.execute(NEWEST_OF, (key,)).fetchone()
    found = row_at(connection, newest[0], revision - 1) if newest else None
    return found[1] if found else None


def lookup(connection: sqlite3.Connection, index: str, after: str, limit: int) -> list[str]:
    return [row[0] for row in connection.execute(LOOKUP, (index, after, limit or -1))]


async def scan(
    connection: sqlite3.Connection, query: Query, at: int | None
) -> tuple[list[bytes], str]:
    """Values of a range, and the last key if it was cut by a limit.

    `at` is None for the snapshot's own revision. To know whether there is more
    after the limit, one more key is read: any key of the range, even if the query does not
    want it, so that nobody looks through all the others for one that it does. After a limit
    in bytes nothing more is read: there may be no further keys.
    """
    rows = _rows(connection, query, at)
    reads_one_more = not terms.is_filtered(query)
    wanted = query.limit + reads_one_more if query.limit else 0
    values: list[bytes] = []
    last = ""
    room = query.max_bytes
    slices = ShortSlices()
    with closing(rows):
        for batch in rows:
            missing = wanted - len(values)
            if wanted and len(batch) >= missing and not reads_one_more:
                values.extend(map(_VALUE, batch[:missing]))
                last = batch[missing - 1][0]
                return values, last if await _follows(connection, query, at, last) else ""
            if wanted and len(batch) >= missing:
                values.extend(map(_VALUE, batch[: missing - 1]))
                return values, batch[missing - 2][0] if missing > 1 else last
            if batch:
                found = list(map(_VALUE, batch))
                values += found
                last = batch[-1][0]
                if room:
                    room -= sum(map(len, found))
                    if room <= 0:
                        return values, last
            if slices.is_over():
                await slices.rest()
    return values, ""


def _rows(
    connection: sqlite3.Connection, query: Query, at: int | None
) -> Generator[Found, None, None]:
    return current_rows(connection, query) if at is None else rows_at(connection, query, at)


async def _follows(
    connection: sqlite3.Connection, query: Query, at: int | None, after: str
) -> bool:
    """Whether there is any key after this one in the range of a query."""
    slices = ShortSlices()
    with closing(_rows(connection, Query(query.prefix, after=after, limit=1), at)) as rows:
        for batch in rows:
            if batch:
                return True
            if slices.is_over():
                await slices.rest()
    return False


_VALUE = itemgetter(1)

Found = list[tuple[str, bytes]]
Row = tuple[Any, ...]
Range = tuple[str, str | bytes]


def current_rows(connection: sqlite3.Connection, query: Query) -> Generator[Found, None, None]:
    """Keys and values, some at a time."""
    query = terms.split_for_sql(query)
    conditions, parameters = terms.sql_conditions(query.where, "c.terms")
    residual = query.residual
    statement = select_current(
        conditions, query.limit > 0 or query.max_bytes > 0, residual is not None
    )
    for batch in batches(connection, query, statement, parameters):
        yield batch if residual is None else [row[:2] for row in batch if residual(row[2])]


def rows_at(connection: sqlite3.Connection, query: Query, at: int) -> Generator[Found, None, None]:
    """The same at an older revision: newer rows lead back to the one that was current then."""
    query = terms.split_for_sql(query)
    conditions, parameters = terms.sql_conditions(query.where, "c.terms")
    residual, wanted = query.residual, matcher(query.where, query.residual)
    for batch in batches(connection, query, select_at(conditions), [at, *parameters]):
        found: Found = []
        for key, value, row_terms, seq, previous in batch:
            if seq <= at:
                if residual is None or residual(row_terms):
                    found.append((key, value))
                continue
            older = row_at(connection, previous, at)
            if older is not None and (wanted is None or wanted(older[0])):
                found.append((key, older[1]))
        yield found


def batches(
    connection: sqlite3.Connection, query: Query, statement: str, parameters: Sequence[str | int]
) -> Generator[list[Row], None, None]:
    """The rows of a statement about a range of keys, some at a time.

    A statement that is interrupted since it looks at too many rows without finding any (see
    `StatementTimeout`) begins anew, on a few rows at a time.
    """
    count = 0
    try:
        for rows in _fetched(connection, query, statement, key_range(query), parameters):
            count += len(rows)
            yield rows
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise
        yield from _in_windows(connection, query, statement, parameters, count)


def _fetched(
    connection: sqlite3.Connection,
    query: Query,
    statement: str,
    keys: Range,
    parameters: Sequence[str | int],
) -> Generator[list[Row], None, None]:
    timeout = connection.timeout if isinstance(connection, ScanConnection) else nullcontext()
    with timeout:
        cursor = connection.execute(statement, (*keys, *parameters))
    try:
        size = FIRST_ROWS
        wanted = query.limit + 1 if query.limit and query.residual is None else 0
        while True:
            if wanted:  # not more than is needed, and all of it at once if it is little
                size = max(1, min(size, wanted))
            began = perf_counter()
            with timeout:
                rows = cursor.fetchmany(size)
            # Fewer while they take long, as large values do.
            is_quick = perf_counter() - began < SLICE_SECONDS
            if not rows:
                return
            wanted -= len(rows) if wanted > len(rows) else 0
            if query.residual is None:
                yield rows
            else:  # our own test of a row may take long: others have their turn in between
                for start in range(0, len(rows), ROWS_PER_TEST):
                    yield rows[start : start + ROWS_PER_TEST]
            size = min(2 * size, ROWS_PER_FETCH) if is_quick else max(1, size // 2)
    finally:
        cursor.close()


def _in_windows(
    connection: sqlite3.Connection,
    query: Query,
    statement: str,
    parameters: Sequence[str | int],
    known: int,
) -> Generator[list[Row], None, None]:
    """The same without the first rows, which are known, looking at a few keys at a time: as
    many as take about a millisecond."""
    start: str | bytes
    start, end = key_range(query)
    size, is_last = ROWS_PER_WINDOW, False
    while not is_last:
        yield []
        began = perf_counter()
        row = connection.execute(SKIP, (start, end, size)).fetchone()
        is_last = row is None
        until = end if is_last else row[0]
        found = connection.execute(statement, (start, until, *parameters)).fetchall()
        yield found[known:]
        known = max(0, known - len(found))
        start = until
        took = perf_counter() - began
        if took < SLICE_SECONDS / 4:
            size = min(size * 2, MOST_ROWS_PER_WINDOW)
        elif took > SLICE_SECONDS:
            size = max(size // 4, 1)


def row_at(connection: sqlite3.Connection, seq: int, at: int) -> tuple[str, bytes] | None:
    """Terms and value of the newest row at or before a revision, going back from row `seq`."""
    found = _older_row(connection, seq, at)
    return found[1:] if found else None


def _older_row(connection: sqlite3.Connection, seq: int, at: int) -> tuple[int, str, bytes] | None:
    while seq:
        row = connection.execute(OLDER, (seq,)).fetchone()
        if row is None:  # a tombstone that compaction has taken away
            return None
        if row[0] <= at:
            return None if row[2] & DELETED else (row[0], row[3], row[4])
        seq = row[1]
    return None


def part_prefixes(
    connection: sqlite3.Connection, part: str, after: str = ""
) -> Generator[str, None, None]:
    """Where the keys of a part may be: one prefix for each resource that is stored at all."""
    start: str | None = resource_of(after) if after else ""
    while start is not None:
        found = connection.execute(FIRST_KEY, (start,)).fetchone()
        if found is None:
            return
        resource = resource_of(found[0])
        yield f"{resource}{part}/"
        start = end_of_prefix(resource)


def exported(
    connection: sqlite3.Connection, part: str, after: str, at: int
) -> Generator[ExportedRow | None, None, None]:
    """The rows of a part after a key, as they were at a revision; None: nothing of it, so far."""
    for prefix in part_prefixes(connection, part, after):
        if after and (end_of_prefix(prefix) or "") <= after:
            continue
        start = after if after.startswith(prefix) else ""
        keys = key_range(Query(prefix, after=start))
        yield None
        for key, seq, deleted, terms_, value, previous in connection.execute(EXPORT, keys):
            if seq <= at:
                yield None if deleted else ExportedRow(key, seq, value, terms_)
                continue
            older = _older_row(connection, previous, at)
            yield ExportedRow(key, older[0], older[2], older[1]) if older else None


def arrivals(
    connection: sqlite3.Connection, part: str, at_once: int
) -> Generator[list[Event], None, None]:
    """What listeners are told about the rows of a part that came from another shard."""
    for prefix in part_prefixes(connection, part):
        cursor = connection.execute(ARRIVALS, key_range(Query(prefix)))
        while rows := cursor.fetchmany(at_once):
            yield [
                Event(seq, key, value, terms_, "", True, False) for key, seq, terms_, value in rows
            ]


def key_range(query: Query) -> tuple[str, str | bytes]:
    return start_of_range(query.prefix, query.after), end_of_prefix(query.prefix) or NO_END


@lru_cache(maxsize=256)
def select_current(conditions: str, with_key: bool, with_terms: bool) -> str:
    return (  # the conditions are of our making: nothing in them but `?`
        f"SELECT {'c.key' if with_key else 'NULL'}, l.value{', c.terms' if with_terms else ''}"  # noqa: S608
        " FROM current c CROSS JOIN log l ON l.seq = c.seq"
        f" WHERE c.key >= ? AND c.key < ? AND c.deleted = 0{conditions} ORDER BY c.key"
    )


@lru_cache(maxsize=256)
def select_at(conditions: str) -> str:
    return (
        "SELECT c.key, l.value, c.terms, c.seq, l.prev"  # noqa: S608
        " FROM current c CROSS JOIN log l ON l.seq = c.seq"
        " WHERE c.key >= ? AND c.key < ?"
        f" AND (c.seq > ? OR (c.deleted = 0{conditions})) ORDER BY c.key"
    )


class StatementTimeout:
    """Interrupts a statement that takes too long; in a `with` around its execution."""

    __slots__ = ("_deadline",)

    def __init__(self) -> None:
        self._deadline = math.inf

    def __enter__(self) -> None:
        self._deadline = perf_counter() + FETCH_SECONDS

    def __exit__(self, *_: object) -> None:
        self._deadline = math.inf

    def is_exhausted(self) -> bool:
        return perf_counter() > self._deadline


class ScanConnection(sqlite3.Connection):
    """A connection for scans, which are interrupted when they find nothing for too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.timeout = StatementTimeout()
        self.set_progress_handler(self.timeout.is_exhausted, OPERATIONS_PER_LOOK)


async def count(connection: sqlite3.Connection, query: Query, at: int | None) -> int:
    """How many keys are in a range; `at` as for `scan`."""
    total: int = 0
    slices = ShortSlices()
    with closing(
        counts(connection, query) if at is None else counts_at(connection, query, at)
    ) as parts:
        for part in parts:
            total += part
            if slices.is_over():
                await slices.rest()
    return total


def counts(connection: sqlite3.Connection, query: Query) -> Generator[int, None, None]:
    start: str | bytes
    start, end = key_range(query)
    while row := connection.execute(SKIP, (start, end, KEYS_PER_COUNT)).fetchone():
        yield connection.execute(COUNT, (start, row[0])).fetchone()[0]
        start = row[0]
    yield connection.execute(COUNT, (start, end)).fetchone()[0]


def counts_at(connection: sqlite3.Connection, query: Query, at: int) -> Generator[int, None, None]:
    with closing(rows_at(connection, query, at)) as rows:
        for batch in rows:
            yield len(batch)


async def history(
    connection: sqlite3.Connection, prefix: str, after: int, until: int, limit: int
) -> History:
    """Events from the log, oldest first; looks at a bounded number of rows at a time."""
    end = end_of_prefix(prefix) or NO_END
    events: list[Event] = []
    size, slices = 0, ShortSlices()
    while True:
        step = (after, until, ROWS_PER_HISTORY_STEP)
        (last,) = connection.execute(HISTORY_STEP, step).fetchone()
        if last is None:
            return History(events, until)
        asked = (after, last, prefix, end, limit - len(events))
        with closing(connection.execute(EVENTS, asked)) as rows:
            for row in rows:
                event = event_of_row(*row)
                events.append(event)
                size += len(event.value)
                if size > HISTORY_BYTES or len(events) >= limit:
                    return History(events, event.revision)
                if slices.is_over():
                    await slices.rest()
        after = last
        if slices.is_over():
            await slices.rest()


def some_events(connection: sqlite3.Connection, after: int, until: int, limit: int) -> History:
    """The same of all keys, without a pause."""
    events: list[Event] = []
    size = 0
    with closing(connection.execute(EVENTS, (after, until, "", NO_END, limit))) as rows:
        for row in rows:
            event = event_of_row(*row)
            events.append(event)
            size += len(event.value)
            if size > HISTORY_BYTES or len(events) >= limit:
                return History(events, event.revision)
    return History(events, until)


def event_of_row(
    seq: int, key: str, value: bytes, row_terms: str, flags: int, previous_terms: str | None
) -> Event:
    created = bool(flags & CREATED)
    return Event(
        seq, key, value, row_terms, "" if created else previous_terms or "",
        created, bool(flags & DELETED),
    )  # fmt: skip
