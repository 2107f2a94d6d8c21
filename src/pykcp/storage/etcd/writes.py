"""Writing to etcd: transactions are queued and sent in batches.

A write is acknowledged when etcd has executed it and the mirror contains it, so
that writers read their own writes. A request without a response may have been
executed nevertheless; the mirror can tell, because every value contains the ID of
its request. If the mirror has caught up with etcd and does not contain it, the
write is reported as failed with unknown outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from pykcp.aio.owner import spawn_detached
from pykcp.storage import changes as planning
from pykcp.storage.errors import MovedAway, RevisionMismatch, StoreError, StoreUnavailable, TooLarge
from pykcp.storage.etcd.client import EtcdClient, NotSent, UnknownOutcome
from pykcp.storage.etcd.decoding import EtcdOutcome
from pykcp.storage.etcd.encoding import Encoded, RequestEncoder, decode_answer, take
from pykcp.storage.etcd.envelope import PLACE_BITS
from pykcp.storage.etcd.epochs import revision_of
from pykcp.storage.etcd.feed import EtcdFeed
from pykcp.storage.failures import LastFailure
from pykcp.storage.holds import Holds
from pykcp.storage.interface import Entry
from pykcp.storage.operations import Operation
from pykcp.storage.terms import join_indexes

MOST_REQUESTS = 4
"""Under way at once. More would make the batches smaller, not the writes faster."""

RETRY_SECONDS = 0.05


class PendingTransaction:
    def __init__(
        self,
        operations: Sequence[Operation],
        future: asyncio.Future[list[int]],
        deadline: float,
        passes_holds: bool,
    ) -> None:
        self.operations = operations
        self.passes_holds = passes_holds
        self.future = future
        self.deadline = deadline

    def succeed(self, etcd_revision: int, offset: int, places: Sequence[int]) -> None:
        if not self.future.done():
            self.future.set_result(
                [0 if place < 0 else revision_of(etcd_revision, offset, place) for place in places]
            )

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Writes:
    def __init__(
        self,
        client: EtcdClient,
        feed: EtcdFeed,
        encoder: RequestEncoder,
        *,
        get: Callable[[str], Entry | None],
        holds: Holds,
        seconds: float,
    ) -> None:
        self._client = client
        self._feed = feed
        self._encoder = encoder
        self._get, self._holds = get, holds
        self._seconds = seconds
        self._queue: deque[PendingTransaction] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._is_woken = False
        self._outcomes: dict[int, EtcdOutcome | None] = {}
        """Of the requests under way; None: not seen in the mirror yet."""
        self.failure = LastFailure()
        feed.carried_out = self._carried_out

    async def write(
        self, operations: Sequence[Operation], *, passes_holds: bool = False
    ) -> list[int]:
        planning.refuse_repeated_keys(operations)
        for operation in operations:
            join_indexes(getattr(operation, "indexes", ()))
        self._refuse_made_up_revisions(operations)
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        deadline = time.monotonic() + self._seconds
        self._queue.append(PendingTransaction(operations, future, deadline, passes_holds))
        self._wake()
        return await future

    def _carried_out(self, outcome: EtcdOutcome) -> None:
        """The mirror has something that one of our requests wrote."""
        if outcome.request in self._outcomes:
            self._outcomes[outcome.request] = outcome

    async def close(self) -> None:
        """Return when everything that was taken has been answered."""
        while self._tasks or self._queue:
            await asyncio.sleep(0)
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def settled(self) -> None:
        """Return when everything that was taken until now, and is not held, has been answered."""
        self._queue = deque(self._without_held(self._queue))
        waiting: list[asyncio.Future[Any]] = [transaction.future for transaction in self._queue]
        waiting += self._tasks
        if waiting:
            await asyncio.wait(waiting)

    def _refuse_made_up_revisions(self, operations: Sequence[Operation]) -> None:
        """etcd compares its own revision only; the last bits have to be compared here."""
        for operation in operations:
            if not operation.expect:
                continue
            entry = self._get(operation.key)
            if entry is None or entry.revision == operation.expect:
                continue
            if entry.revision >> PLACE_BITS >= operation.expect >> PLACE_BITS:
                raise RevisionMismatch(operation.key, entry.revision)

    def _wake(self) -> None:
        if not self._is_woken and len(self._tasks) < MOST_REQUESTS:
            # Deferred, so that other writes of this iteration of the event loop join the batch.
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_woken = False
        while self._queue and self._queue[0].future.done():  # its caller has given up
            self._queue.popleft()
        if not self._queue:
            return
        task = spawn_detached(self._carry_out(take(self._queue)), "etcd-write")
        self._tasks.add(task)
        task.add_done_callback(self._sent)
        if self._queue:
            self._wake()

    def _without_held(self, transactions: Iterable[PendingTransaction]) -> list[PendingTransaction]:
        """Those whose logical cluster is not held by now; the others wait outside of the queue."""
        free: list[PendingTransaction] = []
        for transaction in transactions:
            try:
                is_held = not transaction.passes_holds and self._holds.keeps(
                    transaction.operations, partial(self._go_on, transaction)
                )
            except MovedAway as error:
                transaction.fail(error)
            else:
                if not is_held:
                    free.append(transaction)
        return free

    def _go_on(self, transaction: PendingTransaction, error: MovedAway | None) -> None:
        if error is not None:
            transaction.fail(error)
        else:
            self._queue.append(transaction)
            self._wake()

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._queue:
            self._wake()

    async def _carry_out(self, transactions: list[PendingTransaction]) -> None:
        # No await from here until the request is encoded: a hold that is learned later makes it fail.
        transactions = self._without_held(transactions) if self._holds else transactions
        if not transactions:
            return
        self._requests += 1
        request = self._requests & 0xFFFFFFFF
        self._outcomes[request] = None
        try:
            await self._ask(transactions, request)
            self.failure.clear()
        except StoreError as error:
            if not isinstance(error, TooLarge):
                self.failure.note(error)
            for transaction in transactions:
                transaction.fail(error)
        except BaseException as error:
            for transaction in transactions:
                transaction.fail(StoreUnavailable(f"the write was interrupted: {error!r}"))
            raise
        finally:
            del self._outcomes[request]

    async def _ask(self, transactions: list[PendingTransaction], request: int) -> None:
        fences = self._encoder.fences
        encoded = self._encoder.encode([one.operations for one in transactions], request)
        try:
            deadline = max(transaction.deadline for transaction in transactions)
            response = await self._send_until(encoded.request, deadline)
        except UnknownOutcome as error:
            # This server may be cut off from the others: only another one can tell what happened.
            self._feed.change_server()
            await self._find_out(transactions, encoded, request, error)
            return
        answer = decode_answer(response, len(transactions), fences)
        if len(fences) > 1 and fences[1] in answer.failed:
            raise StoreUnavailable("the lease of this server in etcd has ended")
        if answer.failed:
            await self._feed.reach(answer.head, self._seconds)
            self._repeat(transactions)
            return
        # A failed compare waits for the mirror too, so that its caller sees the winning write.
        await self._feed.reach(answer.head, self._seconds)
        for transaction, is_done, places in zip(
            transactions, answer.succeeded, encoded.places, strict=True
        ):
            if is_done:
                transaction.succeed(answer.written, encoded.offset, places)
            else:
                self._mismatched(transaction)

    async def _send_until(self, request: Any, deadline: float) -> Any:
        """Retry while no server accepts it, unless etcd has been unreachable for long."""
        while True:
            try:
                return await self._client.txn(request, deadline - time.monotonic())
            except NotSent:
                if time.monotonic() + RETRY_SECONDS > deadline:
                    raise
                if self._feed.lost_seconds() > self._seconds:
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def _find_out(
        self,
        transactions: list[PendingTransaction],
        encoded: Encoded,
        request: int,
        error: UnknownOutcome,
    ) -> None:
        """There was no answer: see whether the mirror gets what was to be written."""
        deadline = time.monotonic() + self._seconds
        while self._outcomes[request] is None and time.monotonic() < deadline:
            try:
                newest = await self._feed.newest(self._seconds)
                await self._feed.reach(newest.head, self._seconds)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                break
        outcome = self._outcomes[request]
        if outcome is None:
            raise error
        for transaction, taken in zip(transactions, encoded.places, strict=True):
            if (
                outcome.places.issuperset(place for place in taken if place >= 0)
                and max(taken, default=-1) >= 0
            ):
                transaction.succeed(outcome.revision, encoded.offset, taken)
            else:
                transaction.fail(error)

    def _mismatched(self, transaction: PendingTransaction) -> None:
        for operation in transaction.operations:
            entry = self._get(operation.key)
            row = planning.StoredRow(entry.revision, False, "", "") if entry else None
            try:
                planning.compare(operation, row)
            except RevisionMismatch as mismatch:
                transaction.fail(mismatch)
                return
        # It has changed again since, and now it would fit.
        self._repeat((transaction,))

    def _repeat(self, transactions: Iterable[PendingTransaction]) -> None:
        for transaction in transactions:
            if time.monotonic() < transaction.deadline:
                self._queue.append(transaction)
            else:
                transaction.fail(StoreUnavailable("the key changes faster than it can be compared"))
        self._wake()
