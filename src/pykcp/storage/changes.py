"""Planning of transactions: the pure part that all stores share.

`plan` compares a transaction with what the table says and answers with the
changes it makes, one per written key, each with its own revision; or it raises
Mismatch and nothing has happened. Applying changes is the store's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.storage.errors import RevisionMismatch
from pykcp.storage.interface import Event
from pykcp.storage.operations import Check, DeleteKey, Operation, PutKey
from pykcp.storage.terms import join_indexes


class StoredRow(NamedTuple):
    """What the table of current values says of a key, without its value."""

    revision: int
    deleted: bool
    terms: str
    indexes: str
    """Joined, see `terms.join_indexes`."""


class StoredChange(NamedTuple):
    revision: int
    key: str
    previous: int
    """The revision of the key's last change, its deletion included; 0: none known."""
    created: bool
    deleted: bool
    value: bytes
    terms: str
    """Of a deleted value: its last ones."""
    previous_terms: str
    indexes: str
    previous_indexes: str


Find = Callable[[str], StoredRow | None]


def plan(
    operations: Sequence[Operation], find: Find, revision: int, step: int = 1
) -> list[StoredChange]:
    """The changes of a transaction, numbered upwards in steps from the one after this revision."""
    if len(operations) == 1:  # nearly all are
        (operation,) = operations
        row = compare(operation, find(operation.key))
        return [] if isinstance(operation, Check) else [change(operation, row, revision + step)]
    refuse_repeated_keys(operations)
    rows = [compare(operation, find(operation.key)) for operation in operations]
    changes: list[StoredChange] = []
    for operation, row in zip(operations, rows, strict=True):
        if isinstance(operation, Check):
            continue
        revision += step
        changes.append(change(operation, row, revision))
    return changes


def refuse_repeated_keys(operations: Sequence[Operation]) -> None:
    if len(operations) > 1 and len({operation.key for operation in operations}) < len(operations):
        raise ValueError("a transaction names each key once")


def compare(operation: Operation, row: StoredRow | None) -> StoredRow | None:
    """The row, if the operation may go ahead on it."""
    found = 0 if row is None or row.deleted else row.revision
    if operation.expect is not None and operation.expect != found:
        raise RevisionMismatch(operation.key, found)
    if not found and isinstance(operation, DeleteKey):
        raise RevisionMismatch(operation.key, 0)
    return row


def change(operation: PutKey | DeleteKey, row: StoredRow | None, revision: int) -> StoredChange:
    head, tail = operation.value
    value = b"%b%d%b" % (head, revision, tail)
    if isinstance(operation, DeleteKey):
        return deletion(operation.key, row, revision, value)
    indexes = join_indexes(operation.indexes) if operation.indexes else ""
    return replacement(operation.key, row, revision, value, operation.terms, indexes)


def replacement(
    key: str, row: StoredRow | None, revision: int, value: bytes, terms: str, indexes: str
) -> StoredChange:
    """A new value for a key, whether or not there was one."""
    if row is None:
        return StoredChange(revision, key, 0, True, False, value, terms, "", indexes, "")
    if row.deleted:
        return StoredChange(revision, key, row.revision, True, False, value, terms, "", indexes, "")
    return StoredChange(
        revision, key, row.revision, False, False, value,
        terms, row.terms, indexes, row.indexes,
    )  # fmt: skip


def deletion(key: str, row: StoredRow | None, revision: int, value: bytes) -> StoredChange:
    previous, terms, indexes = (row.revision, row.terms, row.indexes) if row else (0, "", "")
    return StoredChange(revision, key, previous, False, True, value, terms, terms, "", indexes)


def revisions(operations: Sequence[Operation], changes: Sequence[StoredChange]) -> list[int]:
    """The result of `write`: the revision of each operation, 0 for pure compares."""
    if len(changes) == len(operations):
        return [change.revision for change in changes]
    made = iter(changes)
    return [0 if isinstance(operation, Check) else next(made).revision for operation in operations]


def row_after(change: StoredChange) -> StoredRow:
    return StoredRow(change.revision, change.deleted, change.terms, change.indexes)


def event(change: StoredChange) -> Event:
    return Event(
        change.revision, change.key, change.value, change.terms,
        change.previous_terms, change.created, change.deleted,
    )  # fmt: skip
