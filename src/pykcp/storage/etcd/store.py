"""The store on etcd: a mirror that is read here, and writes that go to etcd."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pykcp.aio.owner import TaskOwner, spawn_detached
from pykcp.storage.errors import Compacted, FutureRevision, StoreError, StoreUnavailable
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.barriers import SharedBarrier
from pykcp.storage.etcd.client import EtcdClient
from pykcp.storage.etcd.encoding import (
    MOST_OPERATIONS,
    Fence,
    RequestEncoder,
    clear_graves,
    decode_answer,
)
from pykcp.storage.etcd.envelope import Keyspace
from pykcp.storage.etcd.feed import FIRST_BACKOFF, EtcdFeed, Newest
from pykcp.storage.etcd.format import check_format, claim
from pykcp.storage.etcd.group import EtcdGroup
from pykcp.storage.etcd.imports import ROWS_PER_WRITE, keys_of_part, write_staged
from pykcp.storage.etcd.mirror import Mirror, transaction
from pykcp.storage.etcd.settings import EtcdSettings
from pykcp.storage.etcd.writes import Writes
from pykcp.storage.interface import Revisions
from pykcp.storage.keys import prefix_of_part
from pykcp.storage.moving import Adoption, IncomingRow
from pykcp.storage.numbering import RESERVED_SECONDS, HybridClock, at_milliseconds, is_hybrid
from pykcp.storage.operations import DeleteKey, Operation
from pykcp.storage.sqlite import incoming

logger = logging.getLogger(__name__)

COMPACT_SECONDS = 30.0
STAGED_AT_ONCE = 200
EVICTED_AT_ONCE = MOST_OPERATIONS // 2
"""A deletion is two operations of etcd."""


class EtcdStore(Mirror):
    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self._keeps_mirror = settings.mirror_path is not None
        super().__init__(
            settings.mirror_path or temporary_path(),
            Keyspace(settings.prefix),
            recent_bytes=settings.recent_bytes,
            readers=settings.readers,
            most_bytes=settings.most_bytes,
        )
        self._client: EtcdClient | None = None
        self._feed: EtcdFeed | None = None
        self._writes: Writes | None = None
        self._owner = TaskOwner("etcd")
        self._held_for_all: set[str] = set()
        """Parts whose writes wait on other servers, because this one is moving them."""
        self._releasing: dict[str, asyncio.Task[None]] = {}
        self._clock = HybridClock(0)
        self._barrier = SharedBarrier(self._reach_newest)
        self._group: EtcdGroup | None = None

    async def start(self) -> None:
        """Find etcd, bring the mirror up to date, follow etcd from then on."""
        deadline = time.monotonic() + self._settings.start_seconds
        self._connect()
        try:
            newest = await self._first_contact(deadline)
            await check_format(self._running_client(), self._keyspace, self._settings.write_seconds)
            await self._catch_up(newest, deadline)
            await self._join(deadline)
        except BaseException:
            await self.stop()
            raise

    async def claim(self, offset: int) -> None:
        """Instead of a start: begin a store at an offset. Raises StoreError if there is one."""
        client = EtcdClient(self._settings)
        try:
            await claim(client, self._keyspace, offset, self._settings.start_seconds)
        finally:
            await client.close()

    async def erase(self) -> None:
        """Instead of a start: remove all objects, in etcd and in the mirror."""
        keys, client = self._keyspace, EtcdClient(self._settings)
        ranges = ((keys.data, keys.data_end), (keys.graves, keys.graves_end))
        removals = [
            messages.RequestOp(
                request_delete_range=messages.DeleteRangeRequest(key=first, range_end=end)
            )
            for first, end in ranges
        ]
        try:
            request = messages.TxnRequest(success=removals)
            await client.txn(request, self._settings.start_seconds)
        finally:
            await client.close()
        self.remove()

    async def drain(self) -> None:
        if self._writes is not None:
            await self._writes.close()

    async def stop(self) -> None:
        await self.drain()
        if self._group is not None:
            for task in ("group-keys", "group-lease"):
                await self._owner.stop_one(task)
            await self._group.leave()
        await self._owner.stop()
        if self._client is not None:
            await self._client.close()
        self._client = self._feed = self._writes = None
        self.close()
        if not self._keeps_mirror:
            self.remove()

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        if self._writes is None:
            raise StoreUnavailable("the store is not running")
        if self.size.is_reached:
            self.size.check(operations, self.get)
        if self._holds:
            await self._holds.wait(operations)
        return await self._writes.write(operations)

    # -- moving: revisions follow etcd's with an offset, and parts get new ones when they come ---

    async def use_slot(self, slot: int) -> None:
        """Go on with numbers that can be compared with those of other shards."""
        if not is_hybrid(self.revision):
            await self.advance(self._clock.now())

    async def advance(self, revision: int) -> None:
        if revision <= self.revision:
            return
        self._clock.reserve(revision)
        ahead = self._clock.now() + at_milliseconds(1000 * RESERVED_SECONDS)
        target = max(revision, ahead)
        while self.revision < revision:
            offset = self.epochs.offset_for(target, self.applied)
            await self._write_own(self._encoder.offset(offset))

    async def _write_own(self, request: Any) -> bool:
        """Write keys that are not of the store; False: nothing was written, the numbering is new."""
        fences, seconds = self._encoder.fences, self._settings.write_seconds
        answer = decode_answer(await self._running_client().txn(request, seconds), 1, fences)
        if len(fences) > 1 and fences[1] in answer.failed:
            raise StoreUnavailable("the lease of this server in etcd has ended")
        await self._running_feed().reach(answer.head, seconds)
        return not answer.failed

    async def hold(self, part: str) -> int:
        releasing = self._releasing.get(part)
        if releasing is not None:  # or it would end this hold
            await releasing
        self._holds.hold(part)
        if self._writes is not None:
            await self._writes.settled()
        if self._group is not None and not self._group.is_alone:
            self._held_for_all.add(part)
            try:
                while not await self._write_own(self._encoder.hold(part, self._group.lease)):
                    pass
            except BaseException:
                self.release(part)
                raise
        return self.revision

    def release(self, part: str) -> None:
        self._holds.release(part)
        self._release_for_all(part)

    def refuse(self, part: str, shard: str) -> None:
        self._holds.refuse(part, shard)
        self._release_for_all(part)

    def _release_for_all(self, part: str) -> None:
        """Let other servers go on, too; they refuse writes to a part that has moved."""
        if part in self._held_for_all:
            self._held_for_all.discard(part)
            self._releasing[part] = spawn_detached(self._remove_hold(part), "etcd-release")

    async def _remove_hold(self, part: str) -> None:
        """If this fails, the hold ends with the lease of this server."""
        try:
            while not await self._write_own(self._encoder.release(part)):
                pass
        except StoreError as error:
            logger.warning("writes to logical cluster %s may wait for a while: %s", part, error)
        finally:
            del self._releasing[part]

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        if self._writes is None:
            raise StoreUnavailable("the store is not running")
        for start in range(0, len(operations), EVICTED_AT_ONCE):
            batch = operations[start : start + EVICTED_AT_ONCE]
            await self._writes.write(batch, passes_holds=True)

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        for start in range(0, max(len(rows), 1), STAGED_AT_ONCE):
            with self._staging() as connection:
                incoming.stage(connection, part, rows[start : start + STAGED_AT_ONCE], note)
            await asyncio.sleep(0)
        self.staged_notes[part] = note

    def staged(self, part: str) -> str | None:
        return self.staged_notes.get(part)

    async def discard(self, part: str) -> None:
        if part in self.staged_notes:
            with self._staging() as connection:
                incoming.discard(connection, part)
            del self.staged_notes[part]

    @contextmanager
    def _staging(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened()
        with self._translated(), transaction(connection):
            yield connection

    async def adopt(self, part: str, base: int) -> Adoption:
        if self._writes is None:
            raise StoreUnavailable("the store is not running")
        if part not in self.staged_notes:
            return Adoption(self.complete_since(prefix_of_part(part)), 0)  # it was adopted before
        while not await self._write_own(self._encoder.imported(part)):
            pass
        connection = self._opened()
        left = keys_of_part(connection, part) - await write_staged(
            connection, part, partial(self._writes.write, passes_holds=True)
        )
        remaining = sorted(left)
        while remaining:
            if await self._write_own(self._encoder.removal(remaining[:ROWS_PER_WRITE])):
                del remaining[:ROWS_PER_WRITE]
        await self.discard(part)
        return Adoption(self.complete_since(prefix_of_part(part)), 0)

    async def announce(self, part: str) -> None:
        """Listeners know everything: it was written."""

    async def tidy(self, part: str) -> None:
        """Nothing is left: staged rows are in the mirror only, and cost nobody any time."""

    async def barrier(self) -> None:
        """Return when everything that any server has acknowledged until now can be read here."""
        if self._group is None or not self._group.is_alone:
            await self._barrier.wait()

    async def _reach_newest(self) -> None:
        feed = self._running_feed()
        newest = await feed.newest(self._settings.write_seconds)
        await feed.reach(newest.head, self._settings.write_seconds)

    async def compact(self, revision: int) -> None:
        """Every server compacts its own mirror; the first server to get there compacts etcd."""
        self._running_feed()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        await super().compact(revision)
        client = self._running_client()
        until = self.epochs.etcd_revision_of(revision)
        await self._clear_graves(client, until)
        await self._forget_imports(revision)
        try:
            await client.compact(until, COMPACT_SECONDS)
        except Compacted:
            return  # another server was first

    async def _forget_imports(self, revision: int) -> None:
        """What was imported before the oldest revision that can be read needs no mark."""
        imports = self._imports.items()
        parts = [
            part for part, state in imports if state.adoption and state.adoption.base <= revision
        ]
        for start in range(0, len(parts), ROWS_PER_WRITE):
            request = self._encoder.forgotten_imports(parts[start : start + ROWS_PER_WRITE])
            await self._write_own(request)

    async def _clear_graves(self, client: EtcdClient, until: int) -> None:
        """What was deleted long ago, and perhaps secret, does not stay in etcd."""
        keyspace = self._keyspace
        graves = messages.RangeRequest(
            key=keyspace.graves, range_end=keyspace.graves_end, keys_only=True
        )
        seconds = self._settings.write_seconds
        request = clear_graves(await client.range(graves, seconds), until)
        if request is not None:
            await client.txn(request, seconds)

    def health(self) -> str | None:
        if self._feed is None or self._writes is None:
            return "the store is not running"
        if self._feed.problem is not None:
            return f"etcd is not being followed: {self._feed.problem}"
        return self._writes.failure.text()

    def _connect(self) -> None:
        writer = secrets.randbits(64)
        self._client = EtcdClient(self._settings)
        self._feed = EtcdFeed(self._client, self, self._keyspace, writer)
        self._encoder = RequestEncoder(self._keyspace, writer, lambda: self.epochs)
        self._writes = Writes(
            self._client, self._feed, self._encoder,
            get=self.get, holds=self._holds, seconds=self._settings.write_seconds,
        )  # fmt: skip

    async def _first_contact(self, deadline: float) -> Newest:
        feed = self._running_feed()
        while True:
            seconds = deadline - time.monotonic()
            try:
                return await feed.newest(min(max(seconds, 0.1), self._settings.write_seconds))
            except StoreUnavailable as error:
                if time.monotonic() >= deadline:
                    servers = ", ".join(self._settings.servers)
                    raise StoreUnavailable(
                        f"no etcd server answers ({servers}): {error}"
                    ) from error
            await asyncio.sleep(FIRST_BACKOFF)

    async def _catch_up(self, newest: Newest, deadline: float) -> None:
        feed = self._running_feed()
        self.open(newest.cluster, newest.revision)
        if self.applied == 0:
            await feed.fetch(newest.revision)
        else:
            await feed.fetch_marks()
        self._owner.start_restartable("feed", feed.run)
        seconds = max(deadline - time.monotonic(), self._settings.write_seconds)
        await feed.reach(newest.head, seconds)

    async def _join(self, deadline: float) -> None:
        """Take a place among the servers on this etcd, before anything is written."""
        group = EtcdGroup(
            self._running_client(), self._keyspace, self.server_id(),
            fenced_by=self._set_fence, catch_up=self._reach_newest,
        )  # fmt: skip
        while True:
            try:
                await group.join()
                break
            except StoreUnavailable:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(FIRST_BACKOFF)
        self.group = self._group = group
        self._owner.start_restartable("group-lease", group.keep)
        self._owner.start_restartable("group-keys", group.follow)

    def _set_fence(self, fence: Fence) -> None:
        self._encoder.fence = fence

    def _running_feed(self) -> EtcdFeed:
        if self._feed is None:
            raise StoreUnavailable("the store is not running")
        return self._feed

    def _running_client(self) -> EtcdClient:
        if self._client is None:
            raise StoreUnavailable("the store is not running")
        return self._client


def temporary_path() -> pathlib.Path:
    return pathlib.Path(tempfile.gettempdir()) / f"pykcp-mirror-{secrets.token_hex(8)}"
