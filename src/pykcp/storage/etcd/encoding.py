"""Encodes transactions of the store as one request to etcd. Pure.

Transactions that have nothing to do with one another travel together, as nested
transactions of one request: one round trip, one sync of etcd's log. etcd does
all compares of a request before any write of it, and refuses to write a key
twice; so no transaction joins a request that writes a key it names, or names a
key it writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from pykcp.storage.errors import TooLarge
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.envelope import PLACES, Envelope, Keyspace
from pykcp.storage.operations import Check, DeleteKey, Operation, PutKey
from pykcp.storage.terms import join_indexes

MOST_TRANSACTIONS = 32
MOST_OPERATIONS = 90
"""Of one transaction in a request of several. etcd's limit is 128 by default, and
transactions within a transaction have what the outer one leaves of it."""
MOST_BYTES = 512 << 10
"""Of a request of several transactions; etcd takes 1.5 MiB by default."""


class Encoded(NamedTuple):
    request: Any
    places: list[list[int]]
    """For each transaction the positions of its operations (-1 for pure compares)."""


def take(queue: deque[Any]) -> list[Any]:
    """Transactions from the front of the queue that may travel together, in order."""
    taken: list[Any] = []
    named: set[str] = set()
    written: set[str] = set()
    places = size = 0
    while queue and len(taken) < MOST_TRANSACTIONS:
        operations: Sequence[Operation] = queue[0].operations
        keys = {operation.key for operation in operations}
        writes = {operation.key for operation in operations if not isinstance(operation, Check)}
        places += len(writes)
        size += sum(size_of(operation) for operation in operations)
        if taken and (
            places > PLACES
            or size > MOST_BYTES
            or etcd_operations(operations) > MOST_OPERATIONS
            or not written.isdisjoint(keys)
            or not named.isdisjoint(writes)
        ):
            break
        taken.append(queue.popleft())
        named |= keys
        written |= writes
        if etcd_operations(operations) > MOST_OPERATIONS:
            break
    return taken


def size_of(operation: Operation) -> int:
    if isinstance(operation, Check):
        return 0
    return len(operation.value.head) + len(operation.value.tail)


def etcd_operations(operations: Sequence[Operation]) -> int:
    return sum(2 if isinstance(operation, DeleteKey) else 1 for operation in operations)


class RequestEncoder:
    def __init__(self, keyspace: Keyspace, writer: int) -> None:
        self.keyspace = keyspace
        self._writer = writer
        self._put_head = messages.RequestOp(request_put=messages.PutRequest(key=keyspace.head))
        self._get_head = messages.RequestOp(request_range=messages.RangeRequest(key=keyspace.head))
        self.fence: Fence | None = None
        """Has to hold for every request that writes; None: nothing has to."""

    def encode(self, transactions: Sequence[Sequence[Operation]], request: int) -> Encoded:
        place = 0
        nested: list[Any] = []
        places: list[list[int]] = []
        for operations in transactions:
            writes = sum(not isinstance(operation, Check) for operation in operations)
            if place + writes > PLACES:
                raise TooLarge(f"a transaction writes at most {PLACES} keys")
            transaction, taken = self._transaction(operations, request, place)
            place += writes
            nested.append(transaction)
            places.append(taken)
        if len(nested) == 1:
            return Encoded(self._with_head(nested[0], is_writing=place > 0), places)
        inner = [messages.RequestOp(request_txn=transaction) for transaction in nested]
        outer = messages.TxnRequest(success=[self._put_head, *inner])
        if self.fence is not None:
            outer.compare.append(self.fence.compare())
            outer.failure.append(self._get_head)
        return Encoded(outer, places)

    def revisions(self, etcd_revision: int, places: Sequence[int]) -> list[int]:
        """The revisions of operations by their places; 0 for pure compares."""
        return [
            0 if place < 0 else self.keyspace.revision_of(etcd_revision, place) for place in places
        ]

    def _with_head(self, transaction: Any, *, is_writing: bool) -> Any:
        transaction.success.append(self._put_head if is_writing else self._get_head)
        transaction.failure.append(self._get_head)
        if self.fence is not None:
            transaction.compare.append(self.fence.compare())
            transaction.failure.append(self.fence.read())
        return transaction

    def _transaction(
        self, operations: Sequence[Operation], request: int, place: int
    ) -> tuple[Any, list[int]]:
        compares: list[Any] = []
        writes: list[Any] = []
        places: list[int] = []
        for operation in operations:
            key = self.keyspace.key(operation.key)
            compares.extend(compare(operation, key, self.keyspace))
            if isinstance(operation, Check):
                places.append(-1)
                continue
            writes.extend(self._writes(operation, key, request, place))
            places.append(place)
            place += 1
        return messages.TxnRequest(compare=compares, success=writes), places

    def _writes(
        self, operation: PutKey | DeleteKey, key: bytes, request: int, place: int
    ) -> list[Any]:
        if isinstance(operation, PutKey):
            indexes = join_indexes(operation.indexes)
            envelope = Envelope(
                place, self._writer, request, operation.terms, indexes, operation.value
            )
            return [put(key, envelope)]
        grave = Envelope(place, self._writer, request, operation.key, "", operation.value)
        delete = messages.DeleteRangeRequest(key=key)
        return [
            put(self.keyspace.grave(place), grave),
            messages.RequestOp(request_delete_range=delete),
        ]


class Fence(NamedTuple):
    """The key of this server's membership, as it was put: a request that is carried out after the
    membership has ended fails."""

    key: bytes
    revision: int

    def compare(self) -> Any:
        return messages.Compare(
            result=messages.EQUAL, target=messages.MOD, key=self.key, mod_revision=self.revision
        )

    def read(self) -> Any:
        return messages.RequestOp(request_range=messages.RangeRequest(key=self.key))

    def has_failed(self, response: Any) -> bool:
        return all(kv.mod_revision != self.revision for kv in response.kvs)


class EtcdResponse(NamedTuple):
    succeeded: list[bool]
    """For each transaction."""
    written: int
    """etcd's revision of what was written."""
    head: int
    """Where the mirror has to be to see what was written, or why a compare failed."""
    is_fenced: bool = False
    """Nothing was written, since the fence did not hold."""


def decode_answer(response: Any, count: int, fence: Fence | None = None) -> EtcdResponse:
    revision = response.header.revision
    if count > 1 and not response.succeeded:
        return EtcdResponse([False] * count, revision, revision, is_fenced=True)
    if count > 1:
        inner = [one.response_txn.succeeded for one in response.responses[1:]]
        return EtcdResponse(inner, revision, revision)
    heads = [one.response_range for one in response.responses if one.HasField("response_range")]
    is_fenced = fence is not None and not response.succeeded and fence.has_failed(heads[1])
    head = head_of(heads[0]) if heads else revision
    return EtcdResponse([response.succeeded], revision, head, is_fenced)


def clear_graves(response: Any, until: int) -> Any:
    """Deletes the graves, as read, that were last used at or before a revision of etcd's."""
    nested = []
    for kv in response.kvs:
        if kv.mod_revision > until:
            continue
        unused = messages.Compare(
            result=messages.EQUAL, target=messages.MOD, key=kv.key, mod_revision=kv.mod_revision
        )
        removal = messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=kv.key))
        nested.append(messages.TxnRequest(compare=[unused], success=[removal]))
    inner = [messages.RequestOp(request_txn=one) for one in nested[:MOST_TRANSACTIONS]]
    return messages.TxnRequest(success=inner) if inner else None


def head_of(response: Any) -> int:
    """etcd's revision of our last change, from a read of the head."""
    return max((int(kv.mod_revision) for kv in response.kvs), default=0)


def put(key: bytes, envelope: Envelope) -> Any:
    return messages.RequestOp(request_put=messages.PutRequest(key=key, value=envelope.pack()))


def compare(operation: Operation, key: bytes, keyspace: Keyspace) -> list[Any]:
    if operation.expect is not None:
        revision = keyspace.etcd_revision_of(operation.expect)
        return [
            messages.Compare(
                result=messages.EQUAL, target=messages.MOD, key=key, mod_revision=revision
            )
        ]
    if isinstance(operation, DeleteKey):
        return [
            messages.Compare(result=messages.GREATER, target=messages.MOD, key=key, mod_revision=0)
        ]
    return []
