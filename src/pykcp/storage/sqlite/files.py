"""The file of a store: opening, creating, checking, locking, and what its errors mean."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import secrets
import sqlite3
from collections.abc import Callable

from pykcp.storage.errors import Corrupt, InUse, StoreError, StoreFull, StoreUnavailable

SCHEMA_VERSION = 2
"""1: the first; 2: `lineage` distinguishes a store from others, and from one that was restored."""
APPLICATION_ID = 0x6B637030
"""SQLite's application ID in the file header; identifies a store of this program."""

PAGE_BYTES = 8192
"""Holds five objects of 1.5 KB (a page of 4096 holds two): a fifth less disk, faster scans."""

SCHEMA = """
CREATE TABLE log(
    seq INTEGER PRIMARY KEY, key TEXT NOT NULL, prev INTEGER NOT NULL,
    flags INTEGER NOT NULL, terms TEXT NOT NULL, value BLOB NOT NULL);
CREATE TABLE current(
    key TEXT PRIMARY KEY, seq INTEGER NOT NULL, deleted INTEGER NOT NULL,
    terms TEXT NOT NULL, indexes TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE idx(term TEXT, key TEXT, PRIMARY KEY(term, key)) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

BUSY_SECONDS = 0.1
"""Only another program that has the file open can keep us waiting; not for long."""

WHAT_TO_DO = (
    "stop the server, keep a copy of the file, and restore a backup"
    " or salvage what is left with `sqlite3 FILE .recover`"
)


def connect(
    path: pathlib.Path,
    *,
    synchronous: str = "FULL",
    cache_kib: int = 2048,
    mmap_bytes: int = 0,
    journal_bytes: int = 32 << 20,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
) -> sqlite3.Connection:
    """A connection in autocommit mode that never starts transactions or checkpoints by itself."""
    connection = sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        timeout=BUSY_SECONDS,
        factory=factory,
    )
    for pragma in (
        f"synchronous={synchronous}",
        "wal_autocheckpoint=0",
        f"cache_size=-{cache_kib}",
        f"mmap_size={mmap_bytes}",
        "secure_delete=OFF",
        "temp_store=MEMORY",
        f"journal_size_limit={journal_bytes}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()
    return connection


def create_or_check(connection: sqlite3.Connection, path: pathlib.Path) -> None:
    """Create the tables in a new file, migrate those of an older program.

    A file of another program or of a newer version is rejected.
    """
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables == 0:
        create(connection)
        return
    version = check(connection, path)
    if version < SCHEMA_VERSION:
        migrate(connection, version)


def check(connection: sqlite3.Connection, path: pathlib.Path) -> int:
    """The version of a file that has tables. Raises StoreError if this program cannot use it."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        raise Corrupt(f"{path} is an SQLite file, but not one of this program; {WHAT_TO_DO}")
    version = read_meta(connection, "schema")
    if not 0 < version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this program knows {SCHEMA_VERSION}:"
            " start the program that wrote it, or a newer one"
        )
    return version


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables of an older program up to date, all steps or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in range(version, SCHEMA_VERSION):
            _MIGRATIONS[step](connection)
        write_meta(connection, "schema", SCHEMA_VERSION)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def begin_lineage(connection: sqlite3.Connection) -> None:
    """Say that the log does not continue that of any other store."""
    write_meta(connection, "lineage", secrets.token_hex(8))


_MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: begin_lineage}
"""What brings a file of a version to the next one, in an open transaction."""


def create(connection: sqlite3.Connection) -> None:
    # The page layout is fixed by the first write, so these come before any table.
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}").close()
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
    connection.execute("PRAGMA journal_mode=WAL").close()
    connection.executescript(
        f"BEGIN; PRAGMA application_id={APPLICATION_ID}; {SCHEMA}"
        f"INSERT INTO meta VALUES('schema', {SCHEMA_VERSION}); COMMIT;"
    )
    begin_lineage(connection)


def read_meta(connection: sqlite3.Connection, name: str) -> int:
    return int(read_text(connection, name) or 0)


def read_text(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else ""


def write_meta(connection: sqlite3.Connection, name: str, value: int | str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))


def make_private_file(path: pathlib.Path) -> None:
    """Secrets are in it: only the owner reads it (SQLite gives its side files the same mode)."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise _failed("open", path, error) from error


def translate(error: sqlite3.Error, path: pathlib.Path) -> StoreError:
    """Translate an error of SQLite to an error of the store."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return Corrupt(f"{path} is damaged ({error}): {WHAT_TO_DO}")
    # SQLite says FULL for ENOSPC only; a quota or a limit on the file's size is an I/O error.
    if name in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE"):
        return StoreFull(_no_space(path, str(error)))
    return StoreUnavailable(f"{path}: {error}")


def _failed(verb: str, path: pathlib.Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(_no_space(path, reason))
    return StoreError(f"cannot {verb} {path}: {reason}")


def _no_space(path: pathlib.Path, reason: str) -> str:
    return f"no space left to write {path}: {reason}; make room there"


class FileLock:
    """One process per file. Also remembers whether the last user stopped in order."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock_path = path.with_name(path.name + ".lock")
        self._descriptor = -1
        self.was_clean = True

    def acquire(self) -> None:
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise InUse(f"{self._path} is in use by process {owner}") from None
        self.was_clean = not os.pread(descriptor, 32, 0)
        try:
            # Never empty in between: that would say that the store was closed properly.
            text = f"{os.getpid()}\n".encode()
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        except OSError as error:
            os.close(descriptor)
            raise _failed("write", self._lock_path, error) from error
        self._descriptor = descriptor

    def release(self, *, clean: bool = True) -> None:
        if self._descriptor < 0:
            return
        if clean:
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1
