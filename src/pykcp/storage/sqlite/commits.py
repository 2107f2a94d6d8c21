"""Group commit: many transactions, one sync.

Transactions are queued. The compares and row writes of a batch run on the event
loop's thread, which takes some microseconds each and never waits; only COMMIT,
which waits for the disk, runs in a separate thread, together with the rows of a
batch that contains something large. Meanwhile the next batch is collected. After
the COMMIT the results are announced on the event loop: first the revision, then
the listeners, then the writers.

After a commit the writers that it answered have some time to join the next batch, if they are
several: programs that write one object after the other would otherwise be divided into two groups
with a commit each. Their requests come together, but the event loop works on one after the other:
as long as more of them join, the batch waits on, up to a limit.

Transactions of different tenants take turns, and large ones have separate batches, in turn
with all others: a tenant with many or large writes delays another's by one such batch.

A compare may depend on a write of an earlier transaction in the same batch, so a
Mismatch is also reported only after the COMMIT. If COMMIT fails, every writer of
the batch gets the error and nothing is written.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from pykcp.aio.costs import payer
from pykcp.aio.round_robin import RoundRobin
from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredChange, StoredRow
from pykcp.storage.errors import MovedAway, RevisionMismatch, StoreError, StoreUnavailable
from pykcp.storage.failures import LastFailure
from pykcp.storage.holds import Holds
from pykcp.storage.numbering import Numbering
from pykcp.storage.operations import Check, Operation
from pykcp.storage.sqlite import tables
from pykcp.storage.sqlite.worker import Done, StoreThread

Maintenance = Callable[[sqlite3.Connection], object]
"""Work on the write connection within a batch; short, by contract."""


_LARGE = 256 * 1024
_LARGE_INDEX = 16 * 1024
"""Octets of a value, and of its index entries, that are written by the thread that commits."""
_LARGE_BATCH = 512 * 1024
"""A batch takes no more large transactions once it has so many octets: small ones wait for it."""
_GATHER_SECONDS = 0.001
"""Between two looks at how many transactions wait for a batch that gathers."""
_GATHER_LONGEST = 0.005
"""After which a batch is started, whatever else may come."""
_GATHER_FROM = 2
"""Transactions that have to be expected for a batch to gather at all."""
_GATHER_MOST = 32
"""Transactions that are enough for a batch."""


class _Transaction:
    """A transaction in the queue, and the future of its caller."""

    __slots__ = ("future", "operations", "passes_holds", "tenant")

    def __init__(
        self,
        operations: Sequence[Operation],
        future: asyncio.Future[list[int]],
        tenant: str,
        passes_holds: bool,
    ) -> None:
        self.operations, self.future, self.tenant = operations, future, tenant
        self.passes_holds = passes_holds
        """It is part of moving a logical cluster."""


_Waiting = RoundRobin[str, _Transaction]
"""By who pays for the request."""


def _is_large(operations: Sequence[Operation]) -> bool:
    for operation in operations:
        if not isinstance(operation, Check) and len(operation.value.tail) > _LARGE:
            return True
    return False


class CommitBatch:
    """The transactions of one COMMIT, and the results to announce after it."""

    def __init__(self, base: int) -> None:
        self.base = base
        """The revision that its first change follows."""
        self.changes: list[StoredChange] = []
        self.futures: list[asyncio.Future[Any]] = []
        """Everyone who waits for this batch."""
        self.results: list[tuple[asyncio.Future[Any], object]] = []
        self.mismatches: list[tuple[asyncio.Future[Any], RevisionMismatch]] = []
        self.newest: dict[str, StoredChange] = {}
        """The last change of each key, for the compares that follow."""
        self.has_maintenance = False
        self.is_large = False
        """Writing its rows would hold the event loop for some milliseconds."""
        self.observers: list[asyncio.Future[None]] = []
        """Those who wait for its end, whatever it is."""

    def end(self) -> None:
        for future in self.observers:
            if not future.done():
                future.set_result(None)

    def resolve(self) -> None:
        for future, result in self.results:
            if not future.done():
                future.set_result(result)
        for future, mismatch in self.mismatches:
            if not future.done():
                future.set_exception(mismatch)

    def fail(self, error: BaseException) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


class GroupCommit:
    def __init__(
        self,
        connection: sqlite3.Connection,
        worker: StoreThread,
        revision: int,
        numbering: Numbering,
        *,
        most_operations: int,
        most_bytes: int,
        announce: Callable[[list[StoredChange]], None],
        translate: Callable[[sqlite3.Error], StoreError],
    ) -> None:
        self._connection = connection
        self._worker = worker
        self._revision = revision
        """The newest revision given out; ahead of the announced one while a batch commits."""
        self.numbering = numbering
        self._advanced = revision
        """Revisions up to here are not given out any more, even if they were not used."""
        self.holds = Holds()
        self._most_operations = most_operations
        self._most_bytes = most_bytes
        self._announce = announce
        self._translate = translate
        self._loop = asyncio.get_running_loop()
        self._small: _Waiting = RoundRobin()
        self._large: _Waiting = RoundRobin()
        self._was_large = False
        """The last batch was one of large transactions."""
        self._maintenance: deque[tuple[Maintenance, asyncio.Future[object]]] = deque()
        self._intermissions: deque[tuple[Callable[[], None], Done]] = deque()
        self._gathering: asyncio.TimerHandle | None = None
        """When to look whether the next batch begins, though fewer than `_expected` wait."""
        self._gathers_until = 0.0
        self._expected = 0
        self._busy = False
        """A batch commits, or a flush is about to start one."""
        self._committing: CommitBatch | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.failure = LastFailure()

    async def write(
        self, operations: Sequence[Operation], *, passes_holds: bool = False
    ) -> list[int]:
        self._refuse_if_closed()
        future: asyncio.Future[list[int]] = self._loop.create_future()
        self._enqueue(_Transaction(operations, future, payer().tenant, passes_holds))
        try:
            return await future
        finally:
            del future  # its error knows this frame: both, and the values, would await a collection

    def _enqueue(self, transaction: _Transaction) -> None:
        waiting = self._large if _is_large(transaction.operations) else self._small
        waiting.add(transaction.tenant, transaction)
        if self._gathering is not None and len(self._small) == self._expected:
            self._loop.call_soon(self._end_gathering)
        self._wake()

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, and nothing waits."""
        is_waiting_for_writers = self._gathering is not None and not self._small
        return not self._busy or (is_waiting_for_writers and not self._has_other_work())

    def advance(self, revision: int) -> None:
        """Batches from the next one on get newer revisions."""
        self._advanced = max(self._advanced, revision)
        self._revision = max(self._revision, revision)

    async def settled(self) -> None:
        """Return when all changes that have been given revisions are announced, or have failed.

        Nothing is written for it, and later transactions are not waited for.
        """
        self._refuse_if_closed()
        batch = self._committing
        if batch is not None and batch.changes:
            future: asyncio.Future[None] = self._loop.create_future()
            batch.observers.append(future)
            await future

    def next_revision(self) -> int:
        """The one after all that were given out. Only during an intermission does it stay so."""
        return self.numbering.base(self._revision) + self.numbering.step

    async def maintain(self, work: Maintenance) -> object:
        """Run some work on the write connection between transactions, in their commit."""
        self._refuse_if_closed()
        future: asyncio.Future[object] = self._loop.create_future()
        self._maintenance.append((work, future))
        self._wake()
        return await future

    def intermission(self, work: Callable[[], None], done: Done) -> None:
        """Run something off the loop at a moment in which no transaction is open."""
        self._intermissions.append((work, done))
        self._wake()

    async def pause(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """The same with the write connection, for a caller who waits."""
        self._refuse_if_closed()
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if isinstance(error, sqlite3.Error):
                error = self._translate(error)
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.intermission(partial(work, self._connection), done)
        await future

    async def close(self) -> None:
        """Take nothing more; return when what was taken has been committed."""
        self._closed = True
        self.holds.release_all()
        await self._idle.wait()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is stopping")

    def _wake(self) -> None:
        if not self._busy:
            # Deferred, so that other writes of this iteration of the event loop join the batch.
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Start batches until one has something to commit or the queue is empty."""
        while self._small or self._has_other_work():
            if self._intermissions:
                # Before the next batch: afterwards a transaction would be open again.
                work, done = self._intermissions.popleft()
                self._worker.submit(work, partial(self._intermission_over, done))
                return
            self._revision = self.numbering.base(self._revision)
            batch = CommitBatch(self._revision)
            try:
                self._begin(batch)
                self._fill(batch)
                if batch.changes and not batch.is_large:
                    tables.apply(self._connection, batch.changes)
            except Exception as error:
                self._fail(batch, error)
                continue
            if batch.changes or batch.has_maintenance:
                commit = partial(self._apply_and_commit, batch) if batch.is_large else self._commit
                self._committing = batch
                self._worker.submit(commit, partial(self._done, batch))
                return
            # Only failed compares or abandoned writes: nothing to commit, and the results are final.
            self._roll_back()
            batch.resolve()
        self._busy = False
        self._idle.set()

    def _begin(self, batch: CommitBatch) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            # Fail all waiting writers: retrying immediately would block the event loop.
            for waiting in (self._small, self._large):
                while waiting:
                    batch.futures.append(waiting.take()[1].future)
            batch.futures += [future for _, future in self._maintenance]
            self._maintenance.clear()
            raise

    def _fill(self, batch: CommitBatch) -> None:
        if self._maintenance:
            self._maintain(batch, *self._maintenance.popleft())
        # Alternate, so that neither small nor large writes wait for more than one batch of the other.
        self._was_large = bool(self._large) and not (self._was_large and self._small)
        waiting, most = self._small, self._most_bytes
        if self._was_large:
            waiting, most = self._large, min(most, _LARGE_BATCH)
        count = size = 0
        while waiting and size < most and count < self._most_operations:
            _, transaction = waiting.take()
            if not transaction.future.done():  # its caller may have given up
                if self.holds and not transaction.passes_holds and self._is_held(transaction):
                    continue
                batch.futures.append(transaction.future)
                size += self._add(batch, transaction.operations, transaction.future)
                count += len(transaction.operations)

    def _is_held(self, transaction: _Transaction) -> bool:
        """Whether it waits, or has failed, because its logical cluster is being moved."""

        def go_on(error: MovedAway | None) -> None:
            failure = error or (StoreUnavailable("the store is stopping") if self._closed else None)
            if failure is None:
                self._enqueue(transaction)
            elif not transaction.future.done():
                transaction.future.set_exception(failure)

        try:
            return self.holds.keeps(transaction.operations, go_on)
        except MovedAway as error:
            transaction.future.set_exception(error.with_traceback(None))
            return True

    def _maintain(
        self, batch: CommitBatch, work: Maintenance, future: asyncio.Future[object]
    ) -> None:
        batch.futures.append(future)
        batch.has_maintenance = True
        batch.results.append((future, work(self._connection)))

    def _add(
        self, batch: CommitBatch, operations: Sequence[Operation], future: asyncio.Future[list[int]]
    ) -> int:
        connection, newest = self._connection, batch.newest

        def find(key: str) -> StoredRow | None:
            # Changes of this batch first: its earlier transactions may have written the key.
            change = newest.get(key)
            return tables.find(connection, key) if change is None else planning.row_after(change)

        try:
            changes = planning.plan(operations, find, self._revision, self.numbering.step)
        except RevisionMismatch as mismatch:
            batch.mismatches.append((future, mismatch.with_traceback(None)))
            return 0
        except ValueError as error:
            future.set_exception(error)
            return 0
        batch.results.append((future, planning.revisions(operations, changes)))
        size = 0
        for change in changes:
            newest[change.key] = change
            size += len(change.value)
            indexed = len(change.indexes) + len(change.previous_indexes)
            if len(change.value) > _LARGE or indexed > _LARGE_INDEX:
                batch.is_large = True
        self._revision += len(changes) * self.numbering.step
        batch.changes.extend(changes)
        return size

    def _commit(self) -> None:
        """In the worker's thread."""
        self._connection.execute("COMMIT")

    def _apply_and_commit(self, batch: CommitBatch) -> None:
        """In the worker's thread, too: rows that take long to write."""
        tables.apply(self._connection, batch.changes)
        self._commit()

    def _intermission_over(self, done: Done, error: BaseException | None) -> None:
        done(error)
        self._flush()

    def _done(self, batch: CommitBatch, error: BaseException | None) -> None:
        self._committing = None
        try:
            if error is not None:
                self._fail(batch, error)
            else:
                self._succeed(batch)
        finally:  # a fault in this batch does not keep the others from going on
            batch.end()
            self._gather(len(batch.futures) + len(self._small))

    def _succeed(self, batch: CommitBatch) -> None:
        self.failure.clear()
        try:
            if batch.changes:
                self._announce(batch.changes)
        finally:  # what is committed is answered, even if somebody who is told of it fails
            batch.resolve()

    def _gather(self, expected: int) -> None:
        """Start the next batch once so many small transactions wait, or some time later.

        Those who were answered may be back by then, and larger commits take less time altogether.
        A busy event loop has made everybody wait already.
        """
        now = perf_counter()
        is_late = now - self._worker.ended > _GATHER_SECONDS
        self._expected = min(expected, _GATHER_MOST)
        if expected < _GATHER_FROM or len(self._small) >= self._expected or is_late:
            self._flush()
        else:
            self._gathers_until = now + _GATHER_LONGEST
            self._gather_on()

    def _gather_on(self) -> None:
        waiting = len(self._small)
        self._gathering = self._loop.call_later(_GATHER_SECONDS, self._look_again, waiting)

    def _look_again(self, before: int) -> None:
        """Gather on while nothing waits, and as long as more has come since the last look.

        So a transaction waits at most two looks for others who do not come, and never longer than
        _GATHER_LONGEST after the last commit.
        """
        is_worth_it = not before or len(self._small) > before
        if is_worth_it and not self._has_other_work() and perf_counter() < self._gathers_until:
            self._gather_on()
        else:
            self._end_gathering()

    def _has_other_work(self) -> bool:
        return bool(self._large or self._maintenance or self._intermissions)

    def _end_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
            self._flush()

    def _fail(self, batch: CommitBatch, error: BaseException) -> None:
        self._roll_back()
        self._revision = max(batch.base, self._advanced)
        if isinstance(error, sqlite3.Error):
            error = self._translate(error)
            self.failure.note(error)
        batch.fail(error)

    def _roll_back(self) -> None:
        # Some failures have SQLite roll back by itself.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
