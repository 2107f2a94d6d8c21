"""Taking over a logical cluster of another shard.

Rows are staged in the mirror's file, which may be lost with the machine: then they are copied
again. They become current by ordinary writes to etcd and get new revisions, so watches of the
logical cluster list again (`complete_since`). The row of the LogicalCluster is the last one:
as long as it is missing, the rest is not complete.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence

from pykcp.storage.keys import resource_of
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.storage.sqlite import incoming, scans

LAST_RESOURCE = "core.kcp.io/logicalclusters/"
ROWS_PER_WRITE = 64
BYTES_PER_WRITE = 256 << 10
WRITES_AT_ONCE = 4

Write = Callable[[Sequence[Operation]], Awaitable[object]]


async def write_staged(connection: sqlite3.Connection, part: str, write: Write) -> set[str]:
    """Write everything that is staged of a part; the keys. Repeatable."""
    last: list[PutKey] = []
    keys: set[str] = set()
    under_way: list[Awaitable[object]] = []
    for batch in _batches(incoming.newest_rows(connection, part), last):
        keys.update(operation.key for operation in batch)
        under_way.append(write(batch))
        if len(under_way) == WRITES_AT_ONCE:
            await asyncio.gather(*under_way)
            under_way.clear()
    await asyncio.gather(*under_way)
    if last:
        keys.update(operation.key for operation in last)
        await write(last)
    return keys


def _batches(
    rows: Iterator[list[PutKey | DeleteKey]], last: list[PutKey]
) -> Iterator[list[PutKey]]:
    """Rows of at most so many bytes together; those that go last are put aside."""
    batch: list[PutKey] = []
    size = 0
    for operations in rows:
        for operation in operations:
            if isinstance(operation, DeleteKey):
                continue
            if resource_of(operation.key) == LAST_RESOURCE:
                last.append(operation)
                continue
            batch.append(operation)
            size += len(operation.value.head) + len(operation.value.tail)
            if len(batch) == ROWS_PER_WRITE or size >= BYTES_PER_WRITE:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def keys_of_part(connection: sqlite3.Connection, part: str) -> set[str]:
    """What a part has here, for instance from an earlier time on this shard."""
    return {
        key
        for prefix in scans.part_prefixes(connection, part)
        for key in scans.keys(connection, prefix, 0)
    }
