"""Creates that limits keep count of: written together with the new counts, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from zlib import crc32

from pykcp.registry import codec
from pykcp.registry.indexes.entries import index_entries
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts, Reserve
from pykcp.storage.errors import RevisionMismatch
from pykcp.storage.interface import Entry, Revisions, Store, StoreReader, Value
from pykcp.storage.keys import MARKS, TRASH
from pykcp.storage.operations import Operation, PutKey
from pykcp.types import Object

_TRIES = 64
_TURNS = f"{MARKS}turns/"
_MOST_TURNS = 256


def counted(entry: Entry, limit: Object, cluster: str) -> Operation:
    """What writes a limit with its new count, if it has not changed since it was read.

    Its labels stay, so it is selected by the same terms.
    """
    value, indexes = codec.encode(limit, cluster), index_entries(cluster, limit)
    return PutKey(entry.key, value, entry.terms, indexes, entry.revision)


def turn_of(store: StoreReader, cluster: str) -> Operation:
    """What only one of several servers can do after it has read the state of a logical cluster.

    Written together with a create, it makes the create fail if another server has created
    something since. Some logical clusters share a key, so that there is a bounded number of them.
    """
    return named_turn(store, str(crc32(cluster.encode()) % _MOST_TURNS))


def named_turn(store: StoreReader, name: str) -> Operation:
    """The same for what belongs to no logical cluster."""
    key = f"{_TURNS}{TRASH}{name}//turn"
    entry = store.get(key)
    value = Value(b'{"revision":"', b'"}')
    return PutKey(key, value, "", (), 0 if entry is None else entry.revision)


async def write_reserved(
    store: Store, operations: Sequence[Operation], requests: Sequence[AdmissionRequest]
) -> Revisions:
    """Commit operations together with what the quotas and limits of some creates keep count of.

    Raises what `write_counted` raises, and what a limit raises that has no room.
    """
    counting: dict[Reserve, list[AdmissionRequest]] = {}
    for request in requests:
        for reserve in request.reservations or ():
            counting.setdefault(reserve, []).append(request)
    if not counting:
        return await store.write(operations)

    @asynccontextmanager
    async def reserved() -> AsyncIterator[Counts]:
        counted: list[Operation] = []
        async with AsyncExitStack() as held:
            for reserve in sorted(counting, key=_place):
                counted += await held.enter_async_context(reserve(counting[reserve]))
            yield counted

    return await write_counted(store, operations, reserved)


def _place(reserve: Reserve) -> str:
    """Limits take turns in one order everywhere, so that no two writes wait for each other."""
    return getattr(reserve, "__qualname__", "")


async def write_counted(
    store: Store,
    operations: Sequence[Operation],
    count: Callable[[], AbstractAsyncContextManager[Counts]],
) -> Revisions:
    """Commit operations together with what keeps count of them; their revisions.

    Tries again while a count is changed by other writes. Raises RevisionMismatch if one of the
    operations themselves cannot be done.
    """
    own = {operation.key for operation in operations}
    for attempt in range(_TRIES):
        try:
            async with count() as counted:
                return (await store.write((*counted, *operations)))[len(counted) :]
        except RevisionMismatch as mismatch:
            if mismatch.key in own or attempt == _TRIES - 1:
                raise
    raise AssertionError
