"""Index entries of rows that were superseded when they were saved: from their values."""

from __future__ import annotations

import pathlib

from pykcp.registry import trash
from pykcp.registry.moving.records import ARRIVING, DEPARTED
from pykcp.storage.backup.manifest import BackupError
from pykcp.storage.encryption import sealed
from pykcp.storage.encryption.opening import Opening
from pykcp.storage.interface import SEALED_INDEX, Entry
from pykcp.storage.terms import join_indexes


class Reindexing:
    def __init__(self, opening: Opening | None) -> None:
        """`opening`: reads encrypted values; None if there is no configuration for it."""
        self._opening = opening

    def __call__(self, key: str, value: bytes, terms: str) -> str:
        entry, more = Entry(key, 0, value, terms), list[str]()
        if sealed.is_sealed(value):
            if self._opening is None:
                raise BackupError(
                    f"{key} is encrypted: set --encryption-provider-config, it is among the files"
                    " of the backup"
                )
            entry, more = self._opening.entry(entry), [SEALED_INDEX]
        return join_indexes((*_entries(entry), *more))


def _entries(entry: Entry) -> tuple[str, ...]:
    key = entry.key
    if key.startswith((DEPARTED, ARRIVING)):
        return ()
    if key.startswith(trash.RECORDS):
        return trash.record_from(entry.value).indexes
    if trash.is_trash(key):
        return trash.moved(entry._replace(key=trash.original_key(key)))[1].indexes
    return trash.indexed(key, entry).indexes


def reindexing(config: str) -> Reindexing:
    """With the encryption configuration in a file; "" for none."""
    if not config:
        return Reindexing(None)
    from pykcp.storage.encryption import load_config
    from pykcp.storage.encryption.store import make_kms
    from pykcp.storage.encryption.transformers import Transformers

    return Reindexing(Opening(Transformers(load_config(pathlib.Path(config)), make_kms)))
