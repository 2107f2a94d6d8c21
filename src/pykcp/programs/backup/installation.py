"""What belongs to an installation on this machine: its stores, and the files beside them."""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pykcp.programs.kit.groups.store import FILE as STORE_FILE
from pykcp.storage.backup.manifest import ETCD, SQLITE, BackupError
from pykcp.storage.errors import InUse
from pykcp.storage.sqlite.files import FileLock

MIRROR_FILE = "etcd-mirror.db"
_SKIPPED = (".db", ".db-wal", ".db-shm", ".lock", ".log", ".pid", ".sock")
"""Stores, and what only the running processes need. Caches of other shards' objects are stores,
too, and are filled again."""


class StoreFile(NamedTuple):
    """A store of an installation."""

    directory: str
    """Relative to the root directory; "" for itself."""
    kind: str
    path: pathlib.Path
    """Its file, or the mirror of etcd."""


def find_stores(root: pathlib.Path) -> list[StoreFile]:
    """All stores of shards below a directory. Raises BackupError if there is none."""
    found = []
    for directory, folders, names in os.walk(root):
        folders.sort()
        place = pathlib.Path(directory)
        name = "" if place == root else str(place.relative_to(root))
        if STORE_FILE in names:
            found.append(StoreFile(name, SQLITE, place / STORE_FILE))
        elif MIRROR_FILE in names:
            found.append(StoreFile(name, ETCD, place / MIRROR_FILE))
    if not found:
        raise BackupError(f"no shard found in {root}; set --root-directory")
    return found


def find_files(
    root: pathlib.Path, outside: Iterable[str] = ()
) -> Iterator[tuple[str, pathlib.Path]]:
    """Names for the backup and paths of all files that are saved, in order."""
    for path in _walk(root):
        yield str(path.relative_to(root)), path
    for given in outside:
        place = pathlib.Path(given).absolute()
        for path in _walk(place) if place.is_dir() else (place,):
            if not path.is_relative_to(root.absolute()):
                yield str(path), path


def _walk(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for directory, folders, names in os.walk(root):
        folders.sort()
        place = pathlib.Path(directory)
        links = [name for name in folders if (place / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = place / name
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind) or (stat.S_ISREG(kind) and not name.endswith(_SKIPPED)):
                yield path


def is_served(path: pathlib.Path) -> bool:
    """Whether a process has a store open."""
    if not path.with_name(path.name + ".lock").exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire()
    except InUse:
        return True
    lock.release(clean=lock.was_clean)
    return False
