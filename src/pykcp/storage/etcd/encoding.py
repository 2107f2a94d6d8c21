"""Encodes transactions of the store as one request to etcd. Pure.

Transactions that have nothing to do with one another travel together, as nested
transactions of one request: one round trip, one sync of etcd's log. etcd does
all compares of a request before any write of it, and refuses to write a key
twice; so no transaction joins a request that writes a key it names, or names a
key it writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pykcp.storage.errors import TooLarge
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.envelope import PLACES, Envelope, Keyspace
from pykcp.storage.etcd.epochs import Epochs
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
    offset: int
    """Of the revisions that the operations get."""


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
    def __init__(self, keyspace: Keyspace, writer: int, epochs: Callable[[], Epochs]) -> None:
        self._keyspace = keyspace
        self._writer = writer
        self._epochs = epochs
        self._put_head = messages.RequestOp(request_put=messages.PutRequest(key=keyspace.head))
        self._get_head = messages.RequestOp(request_range=messages.RangeRequest(key=keyspace.head))
        self.fence: Fence | None = None
        """Has to hold for every request that writes; None: nothing has to."""

    @property
    def fences(self) -> list[Fence]:
        """What has to hold for a request: the numbering is known, the server is a member."""
        numbering = Fence(self._keyspace.numbering, self._epochs().record)
        return [numbering] if self.fence is None else [numbering, self.fence]

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
            request_sent = self._with_head(nested[0], is_writing=place > 0)
            return Encoded(request_sent, places, self._epochs().offset)
        inner = [messages.RequestOp(request_txn=transaction) for transaction in nested]
        outer = messages.TxnRequest(success=[self._put_head, *inner])
        outer.failure.append(self._get_head)
        for fence in self.fences:
            outer.compare.append(fence.compare())
            outer.failure.append(fence.read())
        return Encoded(outer, places, self._epochs().offset)

    def offset(self, offset: int) -> Any:
        """Store an offset: an epoch begins with this request."""
        value = b"%d" % offset
        return self._own_keys(_put(self._keyspace.numbering, value))

    def hold(self, part: str, lease: int) -> Any:
        """Let writes to a part wait on all servers, as long as this one lives.

        The numbering is written again, so that requests of servers fail that do not know the hold.
        """
        hold = messages.PutRequest(key=self._keyspace.hold_of(part), value=b"1", lease=lease)
        numbering = _put(self._keyspace.numbering, b"%d" % self._epochs().offset)
        return self._own_keys(messages.RequestOp(request_put=hold), numbering)

    def release(self, part: str) -> Any:
        return self._own_keys(_delete(self._keyspace.hold_of(part)))

    def imported(self, part: str) -> Any:
        """Store that the history of a part begins here."""
        return self._own_keys(_put(self._keyspace.import_of(part), b"1"))

    def removal(self, keys: Sequence[str]) -> Any:
        """Delete rows without leaving their last values in graves."""
        return self._own_keys(*(_delete(self._keyspace.key(key)) for key in keys))

    def forgotten_imports(self, parts: Sequence[str]) -> Any:
        return self._own_keys(*(_delete(self._keyspace.import_of(part)) for part in parts))

    def _own_keys(self, *writes: Any) -> Any:
        return self._with_head(messages.TxnRequest(success=list(writes)), is_writing=True)

    def _with_head(self, transaction: Any, *, is_writing: bool) -> Any:
        transaction.success.append(self._put_head if is_writing else self._get_head)
        transaction.failure.append(self._get_head)
        for fence in self.fences:
            transaction.compare.append(fence.compare())
            transaction.failure.append(fence.read())
        return transaction

    def _transaction(
        self, operations: Sequence[Operation], request: int, place: int
    ) -> tuple[Any, list[int]]:
        compares: list[Any] = []
        writes: list[Any] = []
        places: list[int] = []
        for operation in operations:
            key = self._keyspace.key(operation.key)
            compares.extend(compare(operation, key, self._epochs()))
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
        offset = self._epochs().offset
        if isinstance(operation, PutKey):
            indexes = join_indexes(operation.indexes)
            envelope = Envelope(
                place, self._writer, request, operation.terms, indexes, operation.value, offset
            )
            return [put(key, envelope)]
        grave = Envelope(place, self._writer, request, operation.key, "", operation.value, offset)
        return [put(self._keyspace.grave(place), grave), _delete(key)]


class Fence(NamedTuple):
    """A key that must be as this server knows it, or a request fails: its own membership, which
    may have ended, or the numbering of revisions, which another server may have changed."""

    key: bytes
    revision: int
    """0: it must not exist."""

    def compare(self) -> Any:
        return messages.Compare(
            result=messages.EQUAL, target=messages.MOD, key=self.key, mod_revision=self.revision
        )

    def read(self) -> Any:
        return messages.RequestOp(request_range=messages.RangeRequest(key=self.key))

    def has_failed(self, response: Any) -> bool:
        return head_of(response) != self.revision


class EtcdResponse(NamedTuple):
    succeeded: list[bool]
    """For each transaction."""
    written: int
    """etcd's revision of what was written."""
    head: int
    """Where the mirror has to be to see what was written, or why a compare failed."""
    failed: tuple[Fence, ...] = ()
    """Nothing was written, since these fences did not hold."""


def decode_answer(response: Any, count: int, fences: Sequence[Fence] = ()) -> EtcdResponse:
    revision = response.header.revision
    if count > 1 and response.succeeded:
        inner = [one.response_txn.succeeded for one in response.responses[1:]]
        return EtcdResponse(inner, revision, revision)
    heads = [one.response_range for one in response.responses if one.HasField("response_range")]
    head = head_of(heads[0]) if heads else revision
    if response.succeeded:
        return EtcdResponse([True], revision, head)
    failed = tuple(
        fence for fence, read in zip(fences, heads[1:], strict=False) if fence.has_failed(read)
    )
    return EtcdResponse([False] * count, revision, head, failed)


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
    return _put(key, envelope.pack())


def _put(key: bytes, value: bytes) -> Any:
    return messages.RequestOp(request_put=messages.PutRequest(key=key, value=value))


def _delete(key: bytes) -> Any:
    return messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))


def compare(operation: Operation, key: bytes, epochs: Epochs) -> list[Any]:
    if operation.expect is not None:
        revision = epochs.given_out_at(operation.expect)
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
