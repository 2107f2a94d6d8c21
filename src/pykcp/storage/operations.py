"""What a write of the store is made of.

Only the registry makes operations: what is stored has passed its verbs. An import contract
keeps it so, since without operations nothing can be written.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.storage.values import Value


class PutKey(NamedTuple):
    """Write a value if the key is at revision `expect` (0: absent, None: whatever)."""

    key: str
    value: Value
    terms: str = ""
    indexes: tuple[str, ...] = ()
    expect: int | None = None


class DeleteKey(NamedTuple):
    """Remove a key; `value` is what watchers see as its last state (with the new revision).

    A key that is not there cannot be deleted: Mismatch, found at 0.
    """

    key: str
    value: Value
    expect: int | None = None


class Check(NamedTuple):
    """Only compare: the key must be at revision `expect` (0: absent)."""

    key: str
    expect: int


Operation = PutKey | DeleteKey | Check
