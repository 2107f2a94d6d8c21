"""The store on one SQLite file: a log of revisions and a table of current keys."""

from pykcp.storage.sqlite.store import SQLiteSettings, SQLiteStore

__all__ = ["SQLiteSettings", "SQLiteStore"]
